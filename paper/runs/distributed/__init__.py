"""Training a run by several processes."""

from .train import LostProcessError, Parallel, train_together

__all__ = ["LostProcessError", "Parallel", "train_together"]
