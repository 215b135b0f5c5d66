"""Directional derivatives of any order: finite differences, autodiff and Taylor series."""

from .autodiff import Autodiff, WrongGradientWarning, score_of
from .finite_difference import FiniteDifference
from .precision import PrecisionWarning, full_precision
from .stencil import central_nodes, stencil
from .step_size import rounding_error, step_size
from .taylor import Jet, KinkWarning, MissingRule, Taylor, rule
from .validation import as_log_density

__all__ = [
    "Autodiff",
    "FiniteDifference",
    "Jet",
    "KinkWarning",
    "MissingRule",
    "PrecisionWarning",
    "Taylor",
    "WrongGradientWarning",
    "as_log_density",
    "central_nodes",
    "full_precision",
    "rounding_error",
    "rule",
    "score_of",
    "stencil",
    "step_size",
]
