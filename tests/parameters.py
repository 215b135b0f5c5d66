"""What makes tests shorter: parameters that run at night only, and smaller numbers of samples."""

from collections.abc import Container, Iterable
from typing import Any

import pytest

SHORT_ESTIMATES = {"SAMPLES": 100, "MOVES": 5}
"""Constants of `fdsm.tables.normalization` in tests."""


def at_night(values: Iterable[Any], *, but: Container[Any] = ()) -> list[Any]:
    """Return parameters that are marked `nightly`, except for some."""
    return [
        value if value in but else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]
