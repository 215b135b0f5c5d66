"""Directional derivatives of any order, by finite differences, by autodiff or by Taylor series."""

from .autodiff import Autodiff, WrongGradientWarning, score_of
from .directional import directional_derivative
from .finite import FiniteDifference
from .precision import PrecisionWarning, full_precision
from .stencil import central_nodes, stencil
from .step import cancellation, step_size
from .taylor import Jet, KinkWarning, MissingRule, Taylor, rule

__all__ = [
    "Autodiff",
    "FiniteDifference",
    "Jet",
    "KinkWarning",
    "MissingRule",
    "PrecisionWarning",
    "Taylor",
    "WrongGradientWarning",
    "cancellation",
    "central_nodes",
    "directional_derivative",
    "full_precision",
    "rule",
    "score_of",
    "stencil",
    "step_size",
]
