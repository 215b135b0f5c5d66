"""Exact derivatives by propagating power series through torch code (Taylor-mode AD).

A `Jet` is a tensor with the coefficients of its power series. Functions of torch act on jets by
rules. The package `rules` has one file for each section of torch's documentation.
"""

from . import rules  # ruff: ignore[unused-import]
from .engine import Taylor
from .jet import Jet
from .registry import MissingRule, rule
from .rules.piecewise import KinkWarning

__all__ = ["Jet", "KinkWarning", "MissingRule", "Taylor", "rule"]
