"""Training: steps, the loop, hooks and checkpoints."""

from .batches import Shuffled, derived_seed
from .callbacks import Bar, Record, Save, Validate
from .checkpoint import CheckpointError, Checkpoints
from .ema import Average
from .events import Hook, Moment, Stopped
from .fit import Interrupted, NonFiniteLossError, fit
from .loggers import JsonLines, TensorBoard
from .optimizers import Adam, Optimiser, RMSprop
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
