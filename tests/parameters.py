"""What makes tests shorter: parameters that run at night only, and smaller numbers of samples."""

from collections.abc import Container, Iterable
from typing import Any

import pytest

SHORT_ESTIMATES = {"PARTITION_SAMPLES": 10_000, "PARTITION_CHAINS": 200, "PARTITION_MOVES": 5}
"""Constants of `fdsm.samplers.importance` in tests."""


def at_night(values: Iterable[Any], *, but: Container[Any] = ()) -> list[Any]:
    """Return parameters that are marked `nightly`, except for some."""
    return [
        value if value in but else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]
