"""Commands with few iterations, and their output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from paper.__main__ import main

QUICK = [
    "--iterations=6", "--set=data.size=8", "--set=network.width=8", "--set=plan.num_samples=4",
    "--set=sampling_levels=2", "--set=plan.validate_every=1", "--set=plan.checkpoint_every=2",
    "--set=validation_rows=8", "--compile=off",
]  # fmt: skip
"""Options that make training the default recipe take a second."""


def write_photos(folder: Path, count: int = 40, seed: int = 0) -> Path:
    """Write a folder of images of noise."""
    folder.mkdir()
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 12, 10, 3), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{i:02d}.png")
    return folder


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


def config(folder: str) -> dict[str, Any]:
    """Return the content of `config.json` of a run."""
    value: dict[str, Any] = json.loads(Path(folder, "config.json").read_text())
    return value
