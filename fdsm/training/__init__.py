"""Training: steps, the loop, hooks and checkpoints."""

from .batches import Shuffled, derived_seed
from .checkpoint import CheckpointError, Checkpoints
from .ema import Average
from .fit import Interrupted, NonFiniteLossError, fit
from .hooks import Bar, Record, Save, Validate
from .logs import JsonLines, TensorBoard
from .moment import Hook, Moment, Stopped
from .optimisers import Adam, Optimiser, RMSprop
from .schedules import Constant, Cosine, Exponential, Schedule, with_step
from .step import Alternate, GradientStep, Loss, objective_loss

__all__ = [
    "Adam",
    "Alternate",
    "Average",
    "Bar",
    "CheckpointError",
    "Checkpoints",
    "Constant",
    "Cosine",
    "Exponential",
    "GradientStep",
    "Hook",
    "Interrupted",
    "JsonLines",
    "Loss",
    "Moment",
    "NonFiniteLossError",
    "Optimiser",
    "RMSprop",
    "Record",
    "Save",
    "Schedule",
    "Shuffled",
    "Stopped",
    "TensorBoard",
    "Validate",
    "derived_seed",
    "fit",
    "objective_loss",
    "with_step",
]
