"""Directional derivatives of any order, by finite differences or by autodiff."""

from .autodiff import Autodiff, score_of
from .directional import directional_derivative
from .finite import FiniteDifference
from .precision import PrecisionWarning, full_precision
from .stencil import central_nodes, stencil
from .step import cancellation, step_size

__all__ = [
    "Autodiff",
    "FiniteDifference",
    "PrecisionWarning",
    "cancellation",
    "central_nodes",
    "directional_derivative",
    "full_precision",
    "score_of",
    "stencil",
    "step_size",
]
