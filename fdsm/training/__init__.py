"""Training: steps, the training loop, callbacks and checkpoints."""

from .batches import ShuffledBatches, derived_seed
from .callbacks import (
    Callback,
    EarlyStop,
    IterationEvent,
    LogMetrics,
    ProgressBar,
    SaveCheckpoint,
    Validate,
)
from .checkpoint import CheckpointError, Checkpoints
from .compiled import CompiledUpdate, CompileWarning, compiled_step
from .fit import Interrupted, OutOfMemory, fit, keep_freed_memory
from .loggers import JsonLines, TensorBoard, read_metrics
from .metrics import NonFiniteLossError
from .optimizers import Adam, OptimizerConfig, RMSprop
from .schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    Schedule,
    scale_step_size,
)
from .step import AlternatingSteps, GradientStep, Loss, objective_loss
from .update import EMA, Update

__all__ = [
    "EMA",
    "Adam",
    "AlternatingSteps",
    "Callback",
    "CheckpointError",
    "Checkpoints",
    "CompileWarning",
    "CompiledUpdate",
    "ConstantSchedule",
    "CosineSchedule",
    "EarlyStop",
    "ExponentialSchedule",
    "GradientStep",
    "Interrupted",
    "IterationEvent",
    "JsonLines",
    "LogMetrics",
    "Loss",
    "NonFiniteLossError",
    "OptimizerConfig",
    "OutOfMemory",
    "ProgressBar",
    "RMSprop",
    "SaveCheckpoint",
    "Schedule",
    "ShuffledBatches",
    "TensorBoard",
    "Update",
    "Validate",
    "compiled_step",
    "derived_seed",
    "fit",
    "keep_freed_memory",
    "objective_loss",
    "read_metrics",
    "scale_step_size",
]
