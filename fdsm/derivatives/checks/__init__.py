"""Everything that verifies a model: one folder, one table of state, one call for an engine.

- `arguments`: shapes, types and numbers, where they enter the library
- `inspection`: whether the value of a row depends on that row alone
- `guard`: random numbers, buffers and precision while an engine calls a model; `checked`
- `precision`: autocast, TF32 and half precision
- `difference_error`: measured rounding and truncation errors of a difference
- `backward`: backward passes that autograd gets wrong
- `findings`: what becomes of a finding
- `observation`, `identity`, `state`: evaluations without side effects, how models are recognized,
  and what is remembered of them
"""

from .arguments import as_log_density, check_arguments
from .backward import WrongGradientWarning
from .findings import Finding
from .guard import BareModel, CheckedModel, checked
from .precision import PrecisionWarning, full_precision
from .state import tracing

__all__ = [
    "BareModel",
    "CheckedModel",
    "Finding",
    "PrecisionWarning",
    "WrongGradientWarning",
    "as_log_density",
    "check_arguments",
    "checked",
    "full_precision",
    "tracing",
]
