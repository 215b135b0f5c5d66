"""Full precision for finite differences.

A second difference of values near $f$ with relative precision $u$ has an error of about $u|f|$,
which dominates if the step or the curvature is small. With matrix products in reduced precision
(autocast, TF32, bfloat16), $u$ is a thousand times larger.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .findings import refuse, warn
from .state import is_tracing, request_full_precision

Undo = list[Callable[[], object]]
"""Functions that restore settings of torch."""


_FULL_PRECISION_DTYPES = frozenset({torch.float32, torch.float64})
_CPU = torch.device("cpu")


class PrecisionWarning(UserWarning):
    """A finite difference, or its gradient, is dominated by rounding or truncation."""


@contextmanager
def full_precision(device: torch.device) -> Generator[bool]:
    """Compute in the precision of the tensors: no autocast, no TF32, no bfloat16 products.

    Args:
        device: Device of the computation.

    Yields:
        Whether settings had to be changed. They are restored on exit.
    """
    undo = forbid_reduced_precision(device)
    try:
        yield bool(undo)
    finally:
        _restore(undo)


def forbid_reduced_precision(device: torch.device) -> Undo:
    """Leave autocast, and forbid matrix products in less than float32 precision.

    Args:
        device: Device of the computation.

    Returns:
        Functions that restore the settings, to be called in this order.
    """
    kind = device_type(device)
    if kind == "meta":
        return []
    undo = _forbid_reduced_products(kind)
    if torch.is_autocast_enabled(kind):
        autocast = torch.autocast(kind, enabled=False)
        autocast.__enter__()  # type: ignore[no-untyped-call]
        undo.insert(0, partial(autocast.__exit__, None, None, None))
    return undo


def full_precision_backward(values: Tensor) -> None:
    """Make the backward pass that starts from `values` run in full precision.

    Matrix products of the backward pass follow the TF32 setting at the time of that pass, and the
    parameter gradients of a difference cancel as its values do. Autocast affects them too and
    cannot be disabled at this point; a `PrecisionWarning` reports it.
    """
    if not values.requires_grad:
        return

    def before_backward(_: Tensor) -> None:
        kind = values.device.type
        if torch.is_autocast_enabled(kind):
            warn(
                "precision",
                "the backward pass of a finite difference runs inside autocast, so its gradients "
                "are dominated by rounding: leave the `torch.autocast` block before `backward()`",
                PrecisionWarning,
            )
        undo = _forbid_reduced_products(kind)
        if undo:
            # DDP and FSDP end their backward pass with the same callback.
            torch.autograd.Variable._execution_engine.queue_callback(partial(_restore, undo))

    values.register_hook(before_backward)  # type: ignore[no-untyped-call]


def require_full_precision(x: Tensor, name: str) -> None:
    """Refuse, with a `TypeError`, tensors that are not float32 or float64.

    Args:
        x: Data, or values of the model.
        name: Name of the tensor, for the message.
    """
    if x.dtype not in _FULL_PRECISION_DTYPES:
        refuse(
            "precision",
            f"{name} are {x.dtype}, in which a finite difference is dominated by rounding: pass "
            "float32 or float64 data to a float32 model (FiniteDifference leaves autocast by "
            "itself), or use Taylor() or Autodiff()",
            TypeError,
        )


def widened(values: Tensor) -> Tensor:
    """Return `values` in float64, for differences, if the device supports it."""
    return values if values.is_mps else values.double()


def device_type(device: torch.device) -> str:
    """Return `device.type`. Making this string takes several microseconds per step."""
    return "cpu" if device == _CPU else device.type


def unit_round_off(dtype: torch.dtype) -> float:
    """Return $u$, half the distance from one to the next number of this type."""
    return torch.finfo(dtype).eps / 2


def _forbid_reduced_products(kind: str) -> Undo:
    """Forbid matrix products in less than float32 precision.

    While compiling, the settings are not changed, because the compiler cannot trace them.

    Args:
        kind: Type of the device of the products.

    Returns:
        Functions that restore the settings.
    """
    if is_tracing():
        request_full_precision()
        return []
    try:
        precision = torch.get_float32_matmul_precision()
        convolutions = kind == "cuda" and torch.backends.cudnn.allow_tf32
    except RuntimeError:  # raised if the newer switches of torch were used
        return _forbid_by_backend(kind)
    undo: Undo = []
    if precision != "highest":
        undo.append(partial(torch.set_float32_matmul_precision, precision))
        torch.set_float32_matmul_precision("highest")
    if convolutions:
        undo.append(partial(setattr, torch.backends.cudnn, "allow_tf32", True))
        torch.backends.cudnn.allow_tf32 = False
    return undo


def _forbid_by_backend(kind: str) -> Undo:
    backends: Any = torch.backends
    if kind == "cuda":
        switches = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    else:
        switches = [backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn]
    undo: Undo = []
    for switch in switches:
        if switch.fp32_precision not in {"ieee", "none"}:
            undo.append(partial(setattr, switch, "fp32_precision", switch.fp32_precision))
            switch.fp32_precision = "ieee"
    return undo


def _restore(undo: Undo) -> None:
    for restore in undo:
        restore()
