"""A trained model that tests share, and quick training."""

from pathlib import Path

import pytest
import torch

from fdsm.noise import Geometric
from fdsm.tables import TableModel, ensemble, model

from .table_cases import write_mixed_table


@pytest.fixture(scope="session")
def mixed_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an identifier, dates, categories, a constant, numbers and gaps."""
    return write_mixed_table(tmp_path_factory.mktemp("mixed") / "train.csv")


@pytest.fixture(scope="session")
def mixed(mixed_table: Path) -> TableModel:
    """The model of `mixed_table`. Do not change it."""
    torch.set_default_dtype(torch.float32)
    return TableModel.fit(mixed_table, iterations=60)


@pytest.fixture
def quick_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out most of what a short training spends its time on.

    There is one validation, no normalizing constant, and samples take eleven steps.
    """
    monkeypatch.setattr(ensemble, "VALIDATIONS", 1)
    monkeypatch.setattr(ensemble, "SAMPLING_LEVELS", Geometric(2.0, 0.05, 12))
    monkeypatch.setattr(model, "flow_log_partition", lambda *_: None)
