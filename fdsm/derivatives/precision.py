r"""Keep rounding errors away from differences, and tell when that cannot be done.

A second difference of values near $f$ computed to relative precision $u$ is off by about
$u|f|$, so relative to $‖v‖² |\hat v^T ∇²f \hat v|$ it loses everything when the step or the
curvature is small. Reduced-precision matrix products (autocast, TF32) make $u$ a thousand times
larger.
"""

import math
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 0.1
"""The relative error of a second difference above which to warn."""

_FULL = {torch.float32, torch.float64}


class PrecisionWarning(UserWarning):
    """A finite difference that is mostly rounding error."""


class _Watch:
    """Looks at the first difference, the second, the fourth and so on, until it has warned.

    A run that starts well and loses its curvature later is still found out, at no cost.
    """

    seen = 0
    warned = False

    @classmethod
    def is_due(cls) -> bool:
        cls.seen += 1
        return not cls.warned and cls.seen.bit_count() == 1


Undo = list[Callable[[], None]]
"""What puts the settings of torch back."""


def _tighten(device: torch.device) -> Undo:
    """Return how to undo it, after forbidding products of less than float32 precision.

    Nothing is done while compiling: the compiler cannot trace the settings and obeys those in
    force.
    """
    if torch.compiler.is_compiling():
        return []
    try:
        precision, convolutions = torch.get_float32_matmul_precision(), _convolutions(device)
    except RuntimeError:  # torch refuses to answer once its newer switches have been used
        return _tighten_backends(device)
    undo: Undo = []
    if precision != "highest":
        undo.append(partial(torch.set_float32_matmul_precision, precision))
        torch.set_float32_matmul_precision("highest")
    if convolutions:
        undo.append(partial(setattr, torch.backends.cudnn, "allow_tf32", True))
        torch.backends.cudnn.allow_tf32 = False
    return undo


def _convolutions(device: torch.device) -> bool:
    return device.type == "cuda" and torch.backends.cudnn.allow_tf32


def _tighten_backends(device: torch.device) -> Undo:
    backends: Any = torch.backends
    if device.type == "cuda":
        switches = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    else:
        switches = [backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn]
    undo: Undo = []
    for switch in switches:
        if switch.fp32_precision not in {"ieee", "none"}:
            undo.append(partial(setattr, switch, "fp32_precision", switch.fp32_precision))
            switch.fp32_precision = "ieee"
    return undo


@contextmanager
def full_precision(device: torch.device) -> Generator[bool, None, None]:
    """Compute in the precision of the tensors: no autocast, no TF32, no bfloat16 products.

    Args:
        device: Where the computation runs.

    Yields:
        Whether settings had to be changed; they are restored on leaving.
    """
    undo = _tighten(device)
    try:
        if torch.is_autocast_enabled(device.type):
            with torch.autocast(device.type, enabled=False):
                yield True
        else:
            yield bool(undo)
    finally:
        _restore(undo)


def _restore(undo: Undo) -> None:
    for step in undo:
        step()


def full_precision_backward(values: Tensor) -> None:
    """Make the backward pass that starts from `values` run in full precision.

    Backward products of float32 tensors obey the TF32 setting of the moment of the backward
    pass, not of the forward pass, and the parameter gradients of a difference cancel as its
    values do. They obey autocast too, which cannot be left half-way; of that a warning tells.
    """
    if not values.requires_grad:
        return

    def tighten(_: Tensor) -> None:
        if torch.is_autocast_enabled(values.device.type):
            warnings.warn(
                "the backward pass of a finite difference runs inside autocast, which makes its "
                "gradients rounding error: leave the `torch.autocast` block before `backward()`",
                PrecisionWarning,
                stacklevel=2,
            )
        undo = _tighten(values.device)
        if undo:
            # The engine's own end-of-pass callback, the one DDP and FSDP use.
            torch.autograd.Variable._execution_engine.queue_callback(partial(_restore, undo))

    values.register_hook(tighten)  # type: ignore[no-untyped-call]


def refuse_half(x: Tensor, what: str) -> None:
    """Raise `TypeError` unless `x` has at least the digits of float32.

    Args:
        x: Data or values of the model.
        what: What they are, for the message.

    Raises:
        TypeError: If it has not.
    """
    if x.dtype not in _FULL:
        raise TypeError(
            f"{what} are {x.dtype}, in which a finite difference is mostly rounding error: pass "
            "float32 or float64 data to a float32 model (FiniteDifference leaves autocast by "
            "itself), or differentiate with Autodiff()"
        )


def widened(values: Tensor) -> Tensor:
    """Return `values` in float64, in which to form differences, where the device has it."""
    return values if values.device.type == "mps" else values.double()


def warn_of_round_off(values: Tensor, weights: Sequence[float], dtype: torch.dtype) -> None:
    r"""Warn, once, if a second difference is mostly rounding error.

    $$\sqrt{\sum_j w_j^2} \, u \, \mathrm{rms}(f) \,/\, \mathrm{rms}\Big(\sum_j w_j f_j\Big)$$

    Each value is taken to be exact to relative precision $u$, which costs no evaluation and is
    the least that must be expected; `cancellation` measures it.

    Args:
        values: The values $f_j$, shape `(n, B)`.
        weights: The weights $w_j$ of the difference.
        dtype: The type in which the values were computed, whose precision is $u$.
    """
    if torch.compiler.is_compiling() or not _Watch.is_due():
        return
    unit = unit_round_off(dtype)
    values = values.detach()
    size = (values.new_tensor(weights) @ values).norm().item()
    rounding = math.hypot(*weights) * unit * values.norm().item() / math.sqrt(len(values))
    if rounding > TOLERANCE * size:
        _Watch.warned = True
        error = rounding / size if size else math.inf
        warnings.warn(
            f"the second difference has a relative rounding error of about {error:.0%} (unit "
            f"round-off {unit:.1g}, values near {values.abs().mean().item():.2g}): take "
            "a longer step (`step_size` recommends one), compute in float64, or use Autodiff(); "
            "an untrained network has hardly any curvature and often recovers. This is said once",
            PrecisionWarning,
            stacklevel=_levels_to_caller(),
        )


def _levels_to_caller() -> int:
    """Return how far up the stack the code outside this package is, for a warning to name it."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(f"{package}."):
        frame, level = frame.f_back, level + 1
    return level


def unit_round_off(dtype: torch.dtype) -> float:
    """Return $u$, half the distance from one to the next number of this type."""
    return torch.finfo(dtype).eps / 2
