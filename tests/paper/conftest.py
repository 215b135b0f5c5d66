"""The catalogue with a table of tiny recipes."""

import pytest
import torch

from fdsm.paper import catalogue
from fdsm.paper.tables import toy_densities

from .paper_cases import TINY, TINY_ROWS


@pytest.fixture
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a target "tiny" with the rows "a" and "b" to the catalogue. Use float32, as users do."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(toy_densities, "CPU", TINY_ROWS)
    monkeypatch.setattr(toy_densities, "PAPER", TINY_ROWS[:1])
    monkeypatch.setattr(catalogue, "DEMOS", (TINY,))
