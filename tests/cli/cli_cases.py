"""Commands with few iterations, and their output."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdsm import cli
from fdsm.noise import Geometric

QUICK = ["--iterations=15"]
"""Options of a short training."""
FILES = {"config.json", "model.safetensors", "summary.json"}
"""The files of a model."""
SAMPLES = 60
"""Number of samples that are compared with the table after a quick training."""


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Let training draw few samples in few steps, so that it takes a second."""
    patch.setattr("fdsm.tables.model.sample_count", lambda iterations: SAMPLES)
    patch.setattr("fdsm.tables.ensemble.SAMPLING_LEVELS", Geometric(2.0, 0.05, 5))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run_fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Return the exit code and the error of a command that fails."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return exit_.value.code, error


def run_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command with `--json` and return its parsed output."""
    capsys.readouterr()
    cli.main([*arguments, "--json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def run_text(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Run a command and return its standard output and standard error."""
    capsys.readouterr()
    cli.main(arguments)
    return capsys.readouterr()


def write_measurements(path: Path, rows: int = 200, seed: int = 0) -> Path:
    """Write a table with the columns length, weight and height."""
    x = np.random.default_rng(seed).normal(size=(rows, 3)) * [1, 10, 100] + [0, 5, -300]
    np.savetxt(path, x, delimiter=",", header="length,weight,height", comments="", fmt="%.4f")
    return path


def write_messy(path: Path, rows: int = 200, seed: int = 0, **planted: str) -> Path:
    """Write a table with an identifier, dates, categories, a constant, gaps and free text.

    The weight is twice the length, with an error of 0.1.

    Args:
        path: The file.
        rows: Number of rows.
        seed: Random seed.
        **planted: Values in the first rows: the first value in row 1, the second in row 2, ...

    Returns:
        The file.
    """
    rng = np.random.default_rng(seed)
    table = []
    for i in range(rows):
        length = rng.normal(10, 1)
        table.append({
            "id": f"{seed}-{i:04d}",
            "date": f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
            "city": rng.choice(["Berlin", "Paris", "Rome"]),
            "unit": "mm",
            "length": f"{length:.3f}",
            "weight": f"{2 * length + 0.1 * rng.normal():.3f}",
            "sold": rng.choice(["true", "false"]),
            "note": "" if i % 3 else f"seen by {rng.integers(10**6)}",
        })
        if i % 10 == 9:
            table[-1]["weight"] = ""
    for row, (column, value) in zip(table, planted.items(), strict=False):
        row[column] = value
    lines = [",".join(table[0]), *(",".join(row.values()) for row in table)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
