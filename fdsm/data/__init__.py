"""Data sets."""

from .synthetic import GaussianRing

__all__ = ["GaussianRing"]
