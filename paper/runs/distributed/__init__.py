"""Training and evaluating a run by several processes."""

from .evaluation import evaluated_together
from .train import LostProcessError, Parallel, train_together

__all__ = ["LostProcessError", "Parallel", "evaluated_together", "train_together"]
