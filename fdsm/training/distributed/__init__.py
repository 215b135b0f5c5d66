"""Training loops of your own in several processes, with DDP or FSDP2.

Each process has its rows of a batch and a generator of its own. What differs from other losses:
objectives may take gradients themselves, so the loss has to be inside the module that is wrapped.
`fully_sharded` is in a module of its own, because FSDP2 takes long to import.
"""

from .checks import UnsynchronizedGradients, require_same_gradients
from .loss import DistributedLoss, LossModule

__all__ = [
    "DistributedLoss",
    "LossModule",
    "UnsynchronizedGradients",
    "require_same_gradients",
]
