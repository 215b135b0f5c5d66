"""Run folders and studies with made-up numbers, and descriptions of their targets."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from paper.report import PublishedValue, RowInfo, TargetInfo

METHODS = {
    "SSM": {"derivative": {"class": "Autodiff"}, "projection": {"class": "Sphere", "radius": 1.0}},
    "FD-SSM": {
        "derivative": {"class": "FiniteDifference", "accuracy": 2},
        "projection": {"class": "Sphere", "radius": 0.1},
    },
    "DSM": {"derivative": {"class": "Autodiff"}, "sigma": 0.3},
    "FD-DSM": {"derivative": {"class": "FiniteDifference", "accuracy": 2}, "sigma": 0.3},
}
STEP_TIMES = {"SSM": 24.0, "FD-SSM": 12.0, "DSM": 18.0, "FD-DSM": 9.0}
LOSSES = {
    ("SSM", 0): -100.0, ("SSM", 1): -104.0, ("FD-SSM", 0): -101.0, ("FD-SSM", 1): -101.5,
    ("DSM", 0): -95.0, ("DSM", 1): -97.0, ("FD-DSM", 0): -96.0, ("FD-DSM", 1): -99.0,
}  # fmt: skip


def published(place: str, **metrics: float | tuple[float, float]) -> RowInfo:
    """Return a row with published numbers. A pair is a value and its error.

    `ms` is the time per iteration.
    """
    if "ms" in metrics:
        metrics["milliseconds_per_iteration"] = metrics.pop("ms")
    pairs = {k: v if isinstance(v, tuple) else (v, None) for k, v in metrics.items()}
    return RowInfo("", {k: PublishedValue(v, e, place) for k, (v, e) in pairs.items()})


def target(name: str, title: str, rows: Mapping[str, RowInfo], baseline: str) -> TargetInfo:
    """Return a target whose rows have the same baseline."""
    return TargetInfo(
        name, title, {row: RowInfo(baseline, info.published) for row, info in rows.items()}
    )


TABLE1 = target(
    "table1",
    "Table 1: kernels",
    {
        "RedWine SSM": published("Table 1", nll=13.34, exact_sm_loss=-33.28, ms=113),
        "RedWine SSMVR": published("Table 1", nll=13.13, ms=106),
        "RedWine FD-SSM": published("Table 1", nll=13.06, ms=82),
        "RedWine FD-SSM-all": RowInfo(),
    },
    "RedWine SSM",
)
TARGETS = (
    TABLE1,
    TargetInfo("figure1", "Figure 1: graphs"),
    TargetInfo("figure2", "Figure 2: derivatives"),
    target("figure3", "Figure 3: samples", dict.fromkeys(["MNIST DSM"], RowInfo()), "MNIST DSM"),
    TargetInfo("theorem2", "Theorem 2: convergence"),
)


def config(method: str, seed: int, /, **changes: object) -> dict[str, Any]:
    """Return a `config.json` of a user's run."""
    recipe = {
        "class": "paper.recipes.EBM",
        "name": method,
        "objective": METHODS[method],
        "optimizer": {"class": "Adam", "lr": 0.001, "betas": [0.9, 0.95]},
        "transforms": [{"class": "Scale", "factor": 2.0}, {"class": "Noise", "sigma": 0.1}],
        "plan": {"batch": 128},
        "ema": None,
    }
    return {
        "format": 2,
        "origin": {"recipe": "table2/DSM"},
        "seed": seed,
        "device": "cpu",
        "recipe": recipe,
        "data": {"name": "Digits", "rows": {"train": 1437, "validation": 180, "test": 180}},
        "shape": [1, 8, 8],
        "parameters": 123456,
        "versions": {"fdsm": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
        "machine": "a machine with 2 cores",
        "started": f"2026-11-16T0{seed + 1}:02:03+00:00",
        **changes,
    }


def records(method: str, seed: int, iterations: int = 3000) -> list[dict[str, Any]]:
    """Return the lines of a `metrics.jsonl`."""
    random = np.random.default_rng([seed, *method.encode()])
    lines: list[dict[str, Any]] = []
    for iteration in range(50, iterations + 1, 50):
        part, seconds = np.exp(-iteration / 700), iteration * STEP_TIMES[method] / 1000
        loss = -1.5 + 2 * part + 0.15 * random.standard_normal() + (300 if iteration == 650 else 0)
        time = STEP_TIMES[method] * random.lognormal(0, 0.06)
        lines.append({
            "iteration": iteration, "seconds": seconds, "loss": loss, "grad_norm": 0.4,
            "lr": 0.001, "milliseconds": time,
        })  # fmt: skip
        if iteration % 500 == 0:
            value = LOSSES[method, seed] * (1 - part) + random.standard_normal()
            numbers = {"exact_sm_loss": value, "nll": 90 + 40 * part}
            lines.append({"iteration": iteration, "seconds": seconds, "validation": numbers})
    return lines


def result(method: str, seed: int) -> dict[str, Any]:
    """Return a `result.json`."""
    return {
        "iterations": 3000,
        "seconds": 3 * STEP_TIMES[method] + seed,
        "milliseconds_per_iteration": STEP_TIMES[method] + (0.2 if seed else -0.2),
        "metrics": {
            "exact_sm_loss": {
                "value": LOSSES[method, seed], "error": 1.3, "settings": {"rows": 180},
            },
            "ood_auc": {"value": 0.91 + 0.01 * seed, "error": 0.004, "settings": {"noise": 0.1}},
        },
        "samples": "samples.png",
    }  # fmt: skip


def write_run(folder: Path, method: str, seed: int, /, **changes: object) -> Path:
    """Write a finished run. `changes` are made to its `config.json`."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(method, seed, **changes)))
    lines = "".join(json.dumps(record) + "\n" for record in records(method, seed))
    (folder / "metrics.jsonl").write_text(lines)
    (folder / "result.json").write_text(json.dumps(result(method, seed)))
    random = np.random.default_rng(seed)
    Image.fromarray(random.integers(0, 256, (64, 64), np.uint8)).save(folder / "samples.png")
    return folder


def write_runs(root: Path) -> list[Path]:
    """Write the runs of four methods with two seeds each, and return the methods' folders."""
    for method in METHODS:
        for seed in (0, 1):
            write_run(root / method / str(seed), method, seed)
    return [root / method for method in METHODS]


def write_user_run(folder: Path) -> Path:
    """Write a run on a user's table, with comparisons that the model loses."""
    data = {
        "name": "TableFile",
        "rows": {"train": 800, "validation": 100, "test": 100},
        "files": [{"file": "measurements.csv", "sha256": "0" * 64}],
        "columns": [f"x{i}" for i in range(12)],
    }
    provenance = "At this scale images are 16 × 16, with 800 iterations of 32."
    write_run(
        folder,
        "FD-SSM",
        0,
        data=data,
        shape=[12],
        origin={"recipe": "table2/FD-SSM"},
        provenance=provenance,
    )
    (folder / "samples.png").unlink()
    loss = {"value": -12.3, "error": 0.4, "settings": {}}
    compared = {
        "metric": "exact_sm_loss",
        "model": loss,
        "references": {
            "Gaussian": {"value": -10.1, "error": 0.3, "settings": {}},
            "Gaussian mixture": {"value": -14.9, "error": 0.5, "settings": {}},
        },
        "better": ["Gaussian mixture"],
    }
    edit(
        folder / "result.json",
        {
            "metrics.exact_sm_loss": loss,
            "comparisons": [compared],
            "problems": ["The model is worse than a Gaussian mixture.", "Samples differ: x3."],
        },
    )
    return folder


def edit(path: Path, change: dict[str, Any]) -> None:
    """Change entries of a JSON file. A dotted key is a path."""
    value = json.loads(path.read_text())
    for dotted, new in change.items():
        inner = value
        *parents, last = dotted.split(".")
        for key in parents:
            inner = inner[key]
        inner[last] = copy.deepcopy(new)
    path.write_text(json.dumps(value))


NLLS = {
    ("RedWine FD-SSM", 0): 13.0, ("RedWine FD-SSM", 1): 13.2, ("RedWine FD-SSM-all", 0): 13.4,
    ("RedWine FD-SSM-all", 1): 13.4, ("RedWine SSM", 0): 13.1, ("RedWine SSM", 1): 13.5,
    ("RedWine SSMVR", 0): 12.9, ("RedWine SSMVR", 1): 13.3,
}  # fmt: skip
"""Negative log-likelihoods of a made-up Table 1, in alphabetical order."""

TABLE1_TIMES = {
    "RedWine FD-SSM": 15.0, "RedWine FD-SSM-all": 12.0, "RedWine SSM": 20.0, "RedWine SSMVR": 24.0,
}  # fmt: skip
"""Milliseconds per iteration."""


def write_row(
    folder: Path, name: str, row: str, seed: int, outcome: dict[str, Any], data: str
) -> Path:
    """Write a finished run of a row of a target, without logs."""
    folder.mkdir(parents=True)
    own = {
        "origin": {"target": name, "row": row, "scale": "cpu"},
        "data": {"name": data},
        "provenance": f"Source of {name}/{row}.",
        "recipe": {"class": "Recipe", "name": row, "plan": {"validate_every": 4}},
    }
    (folder / "config.json").write_text(json.dumps(config("SSM", seed) | own))
    (folder / "result.json").write_text(json.dumps({"iterations": 100, "seconds": 9.0} | outcome))
    return folder


def write_timed(folder: Path, name: str, times: dict[str, tuple[float, str]]) -> None:
    """Write runs of rows whose steps were timed interleaved, given times and data."""
    for row, (milliseconds, data) in times.items():
        outcome = {
            "milliseconds_per_iteration": milliseconds,
            "bytes": milliseconds,
            "metrics": {},
            "timed_with": [f"{name}/{other}" for other in times],
        }
        write_row(folder / row / "0", name, row, 0, outcome, data)


def write_table1(root: Path) -> Path:
    """Write the runs of RedWine, four rows with two seeds each."""
    for (row, seed), nll in NLLS.items():
        outcome = {
            "milliseconds_per_iteration": TABLE1_TIMES[row],
            "milliseconds_of_validation": 40.0,
            "bytes": 1e6 * TABLE1_TIMES[row],
            "timed_with": [f"table1/{other}" for other in TABLE1_TIMES],
            "metrics": {"nll": {"value": nll, "error": 0.4, "settings": {"rows": 159}}},
        }
        write_row(root / "table1" / row / str(seed), "table1", row, seed, outcome, "RedWine")
    return root / "table1"


def study(name: str, **changes: object) -> dict[str, Any]:
    """Return a `study.json`."""
    line = {"name": "error", "x": [1, 2, 4], "y": [1e-1, 1e-3, 1e-5], "error": [0.2, 1e-4, 1e-6]}
    theory = {"name": "ε²", "x": [1, 2, 4], "y": [1, 0.25, 0.0625], "error": [], "reference": True}
    return {
        "study": name,
        "title": f"Results of {name}",
        "provenance": "Sec. 3.3; the range of T is ours.",
        "scale": "cpu",
        "seed": 0,
        "settings": {"orders": [1, 2, 4], "network": {"class": "ResNet", "width": 8}},
        "versions": {"fdsm": "0.1.0", "torch": "2.13.0"},
        "machine": "a machine with 2 cores",
        "started": "2026-11-16T05:02:03+00:00",
        "seconds": 61.0,
        "findings": {
            "numbers": {"autodiff_growth": {"value": 2.9, "error": 0.1, "settings": {"to": 8}}},
            "panels": [{
                "title": "Error against order", "x_label": "order T", "y_label": "relative error",
                "x_log": False, "y_log": True, "lines": [line, theory],
            }],
        },
        **changes,
    }  # fmt: skip


def write_study(folder: Path, **changes: object) -> Path:
    """Write a study named after its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(study(folder.name, **changes)))
    return folder


def write_results(root: Path) -> Path:
    """Write results of a table, of a figure with samples, and of three studies."""
    write_table1(root)
    for row in ("MNIST FD-DSM", "MNIST DSM"):
        folder = root / "figure3" / row / "0"
        run = write_row(folder, "figure3", row, 0, {"metrics": {}}, "MNIST")
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(run / "samples.png")
    for name in ("theorem2", "figure2", "figure1"):
        write_study(root / name)
    return root
