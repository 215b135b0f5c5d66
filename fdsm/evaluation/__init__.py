"""How good a model, or an objective, is."""

from .consistency import Consistency, check_consistency, gradient_angle

__all__ = ["Consistency", "check_consistency", "gradient_angle"]
