"""The fixtures of all tests."""

from tests.conftest import _float64, generator

__all__ = ["_float64", "generator"]
