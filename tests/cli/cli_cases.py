"""Commands with few iterations, and their output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdsm.cli import main

QUICK = [
    "--iterations=15", "--set=network.widths=16", "--set=plan.num_samples=60",
    "--set=sampling_levels=3", "--set=validation_rows=20",
]  # fmt: skip
"""Options that make training a table take a second."""


def run_fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Return the exit code and the error of a command that fails."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return exit_.value.code, error


def run_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command with `--json` and return its parsed output."""
    capsys.readouterr()
    main([*arguments, "--json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def run_text(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Run a command and return its standard output and standard error."""
    capsys.readouterr()
    main(arguments)
    return capsys.readouterr()


def write_measurements(path: Path, rows: int = 200, seed: int = 0) -> Path:
    """Write a table with the columns length, weight and height."""
    x = np.random.default_rng(seed).normal(size=(rows, 3)) * [1, 10, 100] + [0, 5, -300]
    np.savetxt(path, x, delimiter=",", header="length,weight,height", comments="", fmt="%.4f")
    return path
