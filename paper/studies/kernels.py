"""Sensitivity of Table 1 to the kernels of the CPU.

Other kernels round differently. In exact arithmetic nothing would change, but training in float64
amplifies the difference, and early stopping then returns other weights. The same rows are trained
again in a second process without vector instructions. The standard deviation of a run due to
rounding is that of the differences over the square root of two, because both runs have it.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import ClassVar

import torch

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress

from ..report import deviation_name, mean_of_numbers
from ..run_store import RunStore
from ..study import StudyResult

OTHER_KERNELS = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
"""Environment of a process without vector instructions in torch and MKL."""

Differences = Mapping[str, Sequence[float]]
"""Differences between the two runs of each seed, by row."""


@dataclass(frozen=True)
class KernelSensitivity:
    """Differences between runs of Table 1 with these and with other kernels.

    Attributes:
        data: Names of the data sets.
        methods: Methods of Table 1.
        seeds: Number of seeds of each row.
        metrics: The metrics that are compared.
    """

    data: tuple[str, ...] = ("Parkinsons", "RedWine", "WhiteWine")
    methods: tuple[str, ...] = ("SSM", "FD-SSM", "FD-SSM-all")
    seeds: int = 2
    metrics: tuple[str, ...] = ("nll", "nll_near_data", "nll_both_ends", "exact_sm_loss")
    provenance: ClassVar[str] = (
        "Table 1. Rows are trained and evaluated again with ATEN_CPU_CAPABILITY=default and "
        "MKL_CBWR=COMPATIBLE, with the same seeds. Differences are those with other kernels "
        "minus those of the table. The standard deviation of a run is the root of the mean square "
        "difference, over the square root of two."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the differences of each row and their standard deviation on each data set.

        Args:
            store: The runs of the table.
            seed: Not used: seeds are counted from zero.
            progress: Wraps the loop over rows to show its progress.
        """
        rows = [f"{data} {method}" for data in self.data for method in self.methods]
        differences: dict[str, dict[str, list[float]]] = {metric: {} for metric in self.metrics}
        for i in progress(range(len(rows))):
            row = rows[i]
            ours = [
                metrics_of(store.evaluated("table1", row, s, iter).folder)
                for s in range(self.seeds)
            ]
            with TemporaryDirectory() as folder:
                train_with_other_kernels(row, self.seeds, store.scale, Path(folder))
                other = RunStore(Path(folder), store.scale)
                theirs = [metrics_of(other.folder("table1", row, s)) for s in range(self.seeds)]
            for metric, by_row in differences.items():
                by_row[row] = [b[metric] - a[metric] for a, b in zip(ours, theirs, strict=True)]
        numbers: dict[str, Measurement] = {}
        for metric, by_row in differences.items():
            numbers |= self.summary(metric, by_row)
        return StudyResult(numbers)

    def summary(self, metric: str, differences: Differences) -> dict[str, Measurement]:
        """Return the mean difference of each row, and of each data set with the deviation.

        Args:
            metric: Name of the metric.
            differences: The differences by row.
        """
        capability = {"kernels": torch.backends.cpu.get_cpu_capability()}
        numbers = {
            f"difference, {row}, {metric}": mean_of_numbers(values).with_settings(
                differences=list(values)
            )
            for row, values in differences.items()
        }
        for data in self.data:
            pooled = [
                d for row, values in differences.items() if row.split()[0] == data for d in values
            ]
            numbers[f"difference, {data}, {metric}"] = mean_of_numbers(pooled)
            numbers[deviation_name(data, metric)] = Measurement(
                math.sqrt(fmean(d * d for d in pooled) / 2),
                settings={"runs": len(pooled), **capability},
            )
        return numbers


def metrics_of(run: Path) -> dict[str, float]:
    """Return the values of the metrics in the result of a run."""
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {name: float(metric["value"]) for name, metric in result["metrics"].items()}


def train_with_other_kernels(row: str, seeds: int, scale: str, folder: Path) -> None:
    """Train and evaluate seeds of a row of Table 1 in a process with `OTHER_KERNELS`."""
    command = [sys.executable, "-m", "paper", "table1", "--row", row, "--seeds", str(seeds)]
    command += ["--scale", scale, "--out", str(folder)]
    search = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        command,
        env={**os.environ, **OTHER_KERNELS, "PYTHONPATH": search},
        check=True,
        stdout=subprocess.DEVNULL,
    )


CPU = KernelSensitivity()
"""About a quarter of an hour on one core, if the runs of Table 1 exist."""

PAPER = CPU
"""The same."""
