"""Commands compute in float32, as users do, in a folder of their own."""

from pathlib import Path

import pytest
import torch

from fdsm.cli import main
from fdsm.tables import TableModel
from fdsm.tables.summary import read_summary

from .cli_cases import QUICK, quicken, write_measurements, write_messy


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_measurements(tmp_path / "measurements.csv")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of `measurements.csv` beside it. Do not change it."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("trained")
    table = write_measurements(folder / "measurements.csv")
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        main(["train", str(table), "--out", str(folder / "model"), *QUICK])
    return folder / "model"


@pytest.fixture
def instant(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training gives the model of `trained` at once, whatever the table is."""
    model, summary = TableModel.load(trained), read_summary(trained / "summary.json")
    monkeypatch.setattr(TableModel, "fit", lambda *_, **__: model)
    monkeypatch.setattr(TableModel, "summarize", lambda *_: summary)


@pytest.fixture(scope="session")
def messy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of a table of mixed types. Do not change it."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("messy")
    table = write_messy(folder / "messy.csv")
    main(["train", str(table), "--out", str(folder / "model"), "--iterations=100"])
    return folder / "model"
