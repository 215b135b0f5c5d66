"""Short samplings for tests that train models."""

import pytest

from fdsm.noise import Geometric
from fdsm.tables import ensemble


@pytest.fixture
def few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw samples in four steps, which takes most of the time of a short training otherwise."""
    monkeypatch.setattr(ensemble, "SAMPLING_LEVELS", Geometric(2.0, 0.05, 5))
