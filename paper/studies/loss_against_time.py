"""Loss against training time for all rows of Tables 2, 3 and 5, with bands over seeds.

Figure 4 of the paper has one seed and the rows that the paper compares. Here the losses that all
seeds logged on validation rows are averaged at equal iterations. Time is the number of iterations
times the time of a step, measured interleaved for the rows of a panel.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress

from ..report import Line, Panel, mean_of_numbers
from ..run_store import RunStore
from ..runs import Run, measure_step_costs
from ..study import StudyResult
from .figure4 import LossCurves, curve, logged_values, time_to_reach


@dataclass(frozen=True)
class LossAgainstTime:
    """Curves of losses against time, and the losses at equal times.

    Attributes:
        panels: The panels.
        seeds: Number of seeds of each panel.
    """

    panels: tuple[LossCurves, ...]
    seeds: tuple[int, ...]
    provenance: ClassVar[str] = (
        "Not in the paper in this form. The losses are those of validation rows, with the same "
        "random numbers at each validation. Bands are standard errors over seeds. Losses are "
        "compared at the time at which the fastest row of a panel has finished. The time of "
        "validation is not included."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the curves of the runs, training them first if necessary.

        Args:
            store: The runs of the tables.
            seed: The first seed.
            progress: Wraps the loop over panels to show its progress.
        """
        numbers: dict[str, Measurement] = {}
        plots = []
        for i in progress(range(len(self.panels))):
            panel = self.panels[i]
            runs = {
                row: [store.trained(panel.target, row, seed + s).run for s in range(self.seeds[i])]
                for row in panel.rows
            }
            lines = curves_of_seeds(panel, runs)
            means = [mean_of_lines(row, by_seed) for row, by_seed in lines.items()]
            plots.append(
                Panel(
                    panel.title,
                    "seconds of training",
                    panel.label,
                    tuple(means),
                    y_log=panel.log_scale,
                )
            )
            numbers |= losses_at_equal_time(panel, lines) | times_to_first(panel, means)
        return StudyResult(numbers, tuple(plots))


def curves_of_seeds(panel: LossCurves, runs: Mapping[str, Sequence[Run]]) -> dict[str, list[Line]]:
    """Return the logged metric of each seed against time, by row. The times are measured now."""
    costs = measure_step_costs([by_seed[0] for by_seed in runs.values()])
    return {
        row: [
            curve(row, logged_values(run.folder, panel.metric), cost.milliseconds)
            for run in by_seed
        ]
        for (row, by_seed), cost in zip(runs.items(), costs, strict=True)
    }


def mean_of_lines(name: str, lines: Sequence[Line]) -> Line:
    """Return the mean of curves with its standard error, at the positions that all of them have.

    Example:
        >>> one, two = Line("", (0.0, 1.0), (4.0, 1.0)), Line("", (0.0, 1.0, 2.0), (2.0, 3.0, 0.0))
        >>> mean_of_lines("mean", [one, two])
        Line(name='mean', x=(0.0, 1.0), y=(3.0, 2.0), error=(1.0, 1.0), reference=False)
    """
    values = [dict(zip(line.x, line.y, strict=True)) for line in lines]
    x = tuple(position for position in lines[0].x if all(position in v for v in values))
    means = [mean_of_numbers([v[position] for v in values]) for position in x]
    errors = tuple(m.error for m in means if m.error is not None)
    return Line(name, x, tuple(m.value for m in means), errors if len(errors) == len(x) else ())


def value_at(line: Line, x: float) -> float:
    """Return the value of a curve at a position, with linear interpolation.

    Example:
        >>> value_at(Line("loss", (0.0, 2.0), (3.0, 1.0)), 0.5)
        2.5
    """
    points = list(zip(line.x, line.y, strict=True))
    for (start, first), (end, second) in pairwise(points):
        if x <= end:
            return first + (second - first) * (x - start) / (end - start)
    return line.y[-1]


def losses_at_equal_time(
    panel: LossCurves, lines: Mapping[str, Sequence[Line]]
) -> dict[str, Measurement]:
    """Return the loss of each row at the time at which the fastest row ends.

    Args:
        panel: The panel.
        lines: The curves of the seeds of each row.
    """
    seconds = min(line.x[-1] for by_seed in lines.values() for line in by_seed)
    return {
        f"{panel.metric} at equal time, {panel.target} {row}": mean_of_numbers([
            value_at(line, seconds) for line in by_seed
        ]).with_settings(seconds=seconds)
        for row, by_seed in lines.items()
    }


def times_to_first(panel: LossCurves, means: Sequence[Line]) -> dict[str, Measurement]:
    """Return the time at which each row reaches the final mean loss of the first row.

    It is relative to the training time of the first row. Rows that do not reach that loss are
    left out.
    """
    first = means[0]
    times = {line.name: time_to_reach(line, first.y[-1]) / first.x[-1] for line in means[1:]}
    return {
        f"time to the {panel.metric} of {first.name}, {panel.target} {row}": Measurement(time)
        for row, time in times.items()
        if math.isfinite(time)
    }


_TABLE3 = ("SSM", "SSMVR", "FD-SSM", "Taylor-SSM 1", "Taylor-SSM", "MLE", "DSM 0.1", "DSM 1.74")

CPU = LossAgainstTime(
    (
        LossCurves(
            "Table 2: denoising on MNIST",
            "table2",
            ("DSM", "FD-DSM", "FD-DSM*", "Taylor-DSM"),
            "dsm",
            "multi-scale DSM loss of validation images",
            log_scale=True,
        ),
        LossCurves(
            "Table 2: sliced score matching on MNIST",
            "table2",
            ("SSM", "SSMVR", "FD-SSM*", "FD-SSM", "Taylor-SSM 1", "Taylor-SSM"),
            "ssm",
            "SSMVR loss of validation images",
        ),
        LossCurves(
            "Table 3: NICE on MNIST",
            "table3",
            (*_TABLE3, "Approx BP", "CP"),
            "nll",
            "NLL of validation images in nats",
            log_scale=True,
        ),
        LossCurves(
            "Table 5: score networks",
            "table5",
            ("SSMVR", "FD-SSMVR", "DSM"),
            "denoising",
            "denoising loss of validation images",
            log_scale=True,
        ),
    ),
    (3, 3, 3, 2),
)
"""Minutes on one core, if the runs exist."""

PAPER = CPU
"""The same panels, for runs with the published settings."""
