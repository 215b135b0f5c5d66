"""Training by several processes, each on its rows of a batch.

The gradient is that of one process with all rows, up to rounding: gradients are averaged by torch
(`DistributedDataParallel` or `fully_shard`), and random numbers are those of the whole batch.
"""

from ...sharding import Shard, ShardedDraws
from .checks import NotShardable, UnsynchronizedGradients, require_same_gradients
from .loss import DistributedLoss
from .update import ShardedUpdate
from .world import SINGLE_PROCESS, World

__all__ = [
    "SINGLE_PROCESS",
    "DistributedLoss",
    "NotShardable",
    "Shard",
    "ShardedDraws",
    "ShardedUpdate",
    "UnsynchronizedGradients",
    "World",
    "require_same_gradients",
]
