"""A table and a model of it. Tests do not change them."""

import sys
from pathlib import Path

import pytest
import torch

from ...cli.cli_cases import write_measurements
from .commands import run

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # they use /proc, limits and capabilities of Linux


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_measurements(tmp_path_factory.mktemp("data") / "table.csv")


@pytest.fixture(scope="session")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("trained")
    options = ["--out", folder / "model", "--iterations=15"]
    code, output = run(["train", table, *options], folder / "log")
    assert code == 0, output
    return folder / "model"
