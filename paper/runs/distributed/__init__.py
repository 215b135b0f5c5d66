"""Training a run by several processes."""

from .train import LostProcessError, Parallel, lost_processes_explained, train_together

__all__ = ["LostProcessError", "Parallel", "lost_processes_explained", "train_together"]
