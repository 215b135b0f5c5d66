"""The catalogue with a table of tiny recipes, and the fixtures of all tests."""

import pytest
import torch

from paper import catalogue
from paper.tables import toy_densities
from tests.conftest import Launched, _float64, _once, generator

from .paper_cases import TINY, TINY_ROWS

__all__ = ["Launched", "_float64", "generator"]


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """What two or three processes did with runs. Tests of it run at night."""
    from .runs.distributed.launch_cases import results

    return _once(tmp_path_factory, "launched", lambda folder: Launched(folder, results(folder)))


@pytest.fixture
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a target "tiny" with the rows "a" and "b" to the catalogue. Use float32, as users do."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(toy_densities, "CPU", TINY_ROWS)
    monkeypatch.setattr(toy_densities, "PAPER", TINY_ROWS[:1])
    monkeypatch.setattr(catalogue, "DEMOS", (TINY,))
