r"""Keep rounding errors away from differences, and tell when that cannot be done.

A second difference of values near $f$ computed to relative precision $u$ is off by about
$u|f|$, so relative to $‖v‖² |\hat v^T ∇²f \hat v|$ it loses everything when the step or the
curvature is small. Reduced-precision matrix products (autocast, TF32) make $u$ a thousand times
larger.
"""

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 0.1
"""The relative error of a second difference above which to warn."""


class PrecisionWarning(UserWarning):
    """A finite difference that is mostly rounding error."""


class _Once:
    """Whether the warning has been given; it is given once per process."""

    given = False


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
def full_precision(device: torch.device) -> Generator[None, None, None]:
    """Compute in the precision of the tensors: no autocast, no TF32, no bfloat16 products.

    Args:
        device: Where the computation runs.

    Yields:
        Nothing; the settings are restored on leaving.
    """
    undo = _tighten(device)
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        _restore(undo)


def _restore(undo: Undo) -> None:
    for step in undo:
        step()


def full_precision_backward(values: Tensor) -> Tensor:
    """Return `values`, made to run the backward pass that starts there in full precision.

    Backward products of float32 tensors obey the TF32 setting of the moment of the backward
    pass, not of the forward pass, and the parameter gradients of a difference cancel as its
    values do.
    """
    if not values.requires_grad or torch.compiler.is_compiling():
        return values

    def tighten(_: Tensor) -> None:
        undo = _tighten(values.device)
        if undo:
            # The engine's own end-of-pass callback, the one DDP and FSDP use.
            torch.autograd.Variable._execution_engine.queue_callback(partial(_restore, undo))

    values.register_hook(tighten)  # type: ignore[no-untyped-call]
    return values


def refuse_half(x: Tensor, what: str) -> None:
    """Raise `TypeError` if `x` has fewer digits than float32.

    Args:
        x: Data or values of the model.
        what: What they are, for the message.

    Raises:
        TypeError: If so.
    """
    if x.is_floating_point() and torch.finfo(x.dtype).eps > torch.finfo(torch.float32).eps:
        raise TypeError(
            f"{what} are {x.dtype}, in which a finite difference is mostly rounding error: pass "
            "float32 or float64 data to a float32 model (FiniteDifference leaves autocast by "
            "itself), or differentiate with Autodiff()"
        )


def widened(values: Tensor) -> Tensor:
    """Return `values` in float64, in which to form differences, where the device has it."""
    return values if values.device.type == "mps" else values.double()


def warn_of_round_off(values: Tensor, weights: Tensor, unit: float) -> None:
    r"""Warn, once, if the second difference of `values` is mostly rounding error.

    $$\sqrt{\sum_j w_j^2} \, u \, \mathrm{rms}(f) \,/\, \mathrm{rms}\Big(\sum_j w_j f_j\Big)$$

    Each value is taken to be exact to relative precision $u$, which costs no evaluation and is
    the least that must be expected; `cancellation` measures it.

    Args:
        values: The values $f_j$, shape `(n, B)`.
        weights: The weights $w_j$ of the difference, shape `(n,)`.
        unit: The precision $u$ of the values.
    """
    if _Once.given or values.numel() == 0 or torch.compiler.is_compiling():
        return
    values = values.detach()
    rounding = weights.norm() * unit * values.square().mean().sqrt()
    difference = torch.tensordot(weights, values, dims=1).square().mean().sqrt()
    if rounding > TOLERANCE * difference:
        error = (rounding / difference).item()
        _Once.given = True
        warnings.warn(
            f"the second difference has a relative rounding error of about {error:.0%} (unit "
            f"round-off {unit:.1g}, values near {values.abs().mean().item():.2g}): take a longer "
            "step (`step_size` recommends one), compute in float64, or use Autodiff(); an "
            "untrained network has hardly any curvature and often recovers. This is said once",
            PrecisionWarning,
            stacklevel=2,
        )


def unit_round_off(x: Tensor) -> float:
    """Return $u$, half the distance from one to the next number of this type."""
    return torch.finfo(x.dtype).eps / 2
