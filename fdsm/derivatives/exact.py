"""The default engine of objectives, operators and evaluations."""

from .autodiff import Autodiff
from .taylor import Taylor

EXACT = Taylor(fallback=Autodiff())
"""Exact, also for models that use functions without a Taylor rule."""
