"""Exact derivatives by propagating power series through any torch code.

A `Jet` is a tensor with the coefficients of its power series; torch's functions act on jets by
rules, a family to a file.
"""

from . import (  # ruff: ignore[unused-import]
    elementwise,
    gradients,
    linear,
    operators,
    products,
    shapes,
    values,
)
from .engine import Taylor
from .jet import Jet, MissingRule, rule

__all__ = ["Jet", "MissingRule", "Taylor", "rule"]
