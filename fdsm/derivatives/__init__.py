"""Directional derivatives of any order: finite differences, autodiff and Taylor series."""

from .autodiff import Autodiff, score_of
from .checks import (
    Finding,
    PrecisionWarning,
    WrongGradientWarning,
    as_log_density,
    checked,
    full_precision,
    tracing,
)
from .finite_difference import FiniteDifference
from .stencil import central_nodes, stencil
from .step_size import rounding_error, step_size
from .taylor import Jet, KinkWarning, MissingRule, Taylor, rule

__all__ = [
    "Autodiff",
    "Finding",
    "FiniteDifference",
    "Jet",
    "KinkWarning",
    "MissingRule",
    "PrecisionWarning",
    "Taylor",
    "WrongGradientWarning",
    "as_log_density",
    "central_nodes",
    "checked",
    "full_precision",
    "rounding_error",
    "rule",
    "score_of",
    "stencil",
    "step_size",
    "tracing",
]
