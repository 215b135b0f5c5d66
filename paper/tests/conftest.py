"""The catalogue with a table of tiny recipes, and the fixtures of all tests."""

import pytest
import torch

from paper import catalogue
from paper.tables import toy_densities
from tests.conftest import _float64, generator

from .paper_cases import TINY, TINY_ROWS

__all__ = ["_float64", "generator"]


@pytest.fixture
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a target "tiny" with the rows "a" and "b" to the catalogue. Use float32, as users do."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(toy_densities, "CPU", TINY_ROWS)
    monkeypatch.setattr(toy_densities, "PAPER", TINY_ROWS[:1])
    monkeypatch.setattr(catalogue, "DEMOS", (TINY,))
