"""Exact derivatives by propagating power series through any torch code.

A `Jet` is a tensor with the coefficients of its power series; torch's functions act on jets by
rules, a family to a file.
"""

from . import (  # ruff: ignore[unused-import]
    attention,
    binary,
    dropout,
    einsum,
    elementwise,
    gradients,
    linear,
    losses,
    matrices,
    matrix_products,
    normalisation,
    norms,
    operators,
    products,
    reductions,
    shapes,
    softmax,
    sums,
    values,
)
from .engine import Taylor
from .jet import Jet, MissingRule, rule
from .kinks import KinkWarning

__all__ = ["Jet", "KinkWarning", "MissingRule", "Taylor", "rule"]
