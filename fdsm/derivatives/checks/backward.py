"""Backward passes that autograd gets wrong: custom functions, and norms of PyTorch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from ...tensors import length
from .findings import note, refuse, warn
from .guard import BareModel
from .precision import unit_round_off
from .state import Record

MAX_RELATIVE_ERROR = 0.02
"""Relative error above which a derivative disagrees with a difference."""


NO_DOUBLE_BACKWARD = (
    "autograd must differentiate an operation of the model twice, and cannot (fused attention, a "
    "module compiled by torch.compile): use Taylor(), which needs one "
    "ordinary backward pass, e.g. SlicedDSM(sigma, Taylor()) instead of DSM(sigma). Otherwise "
    "compute attention inside `sdpa_kernel(SDPBackend.MATH)`, and pass a module that is not "
    "compiled. The error of torch is: "
)


class WrongGradientWarning(UserWarning):
    """PyTorch computes wrong gradients of second derivatives of this model."""


def explained(error: RuntimeError) -> RuntimeError:
    """Return an error of autograd, with advice added if a double backward is missing."""
    text, *_ = str(error).splitlines() or [""]
    missing = text.startswith("derivative for") or "double backward" in text
    return RuntimeError(NO_DOUBLE_BACKWARD + text) if missing else error


def announce_missing_backward(record: Record | None, engine: str, gradient: Tensor) -> None:
    """Make the backward pass of a gradient say what to do, if it cannot be differentiated.

    The graph is searched once for each model and engine.

    Args:
        record: The record of the model. `None` while the code is traced.
        engine: Name of the engine.
        gradient: A gradient of the model, with its graph.
    """
    if record is None or not gradient.requires_grad:
        return
    if engine not in record.without_backward:
        names = {node.name() for node in _nodes(gradient)}
        record.without_backward[engine] = ", ".join(sorted(names & _WITHOUT_BACKWARD))
    name = record.without_backward[engine]
    if name:
        gradient.register_hook(partial(_refuse, name))  # type: ignore[no-untyped-call]


def _refuse(name: str, _: Tensor) -> None:
    raise RuntimeError(NO_DOUBLE_BACKWARD + name)


_WITHOUT_BACKWARD = {"torch::autograd::NotImplemented", "CompiledFunctionBackwardBackward"}


def inspect_norms(model: BareModel, y: Tensor) -> None:
    """Warn of norms whose double backward is wrong, if an inspection is due.

    Args:
        model: The model.
        y: Its values, with the graph.
    """
    if model.is_due and model.record is not None and _has_wrong_norm(y, model.record.modules):
        warn(
            "gradients",
            "PyTorch computes wrong parameter gradients of second derivatives through a layer or "
            "instance norm of this model (https://github.com/pytorch/pytorch/issues/175754), "
            "which is scripted or exported and cannot be replaced. Use the module itself, "
            "Taylor(), or FiniteDifference()",
            WrongGradientWarning,
            warned=model.record.warned,
        )


def inspect_backward(
    model: BareModel,
    value: Tensor,
    slope: Callable[..., tuple[Tensor, ...]],
    curvature: Callable[[], Tensor],
    x: Tensor,
    v: Tensor,
    cond: Sequence[Tensor],
) -> None:
    """Require a recorded backward pass if an inspection is due and there is a custom function.

    Args:
        model: The model.
        value: Its values, with the graph.
        slope: Returns the value and $v^T∇f$, or only $v^T s$, given `x`, `v` and the conditions.
        curvature: Returns the second derivative along `v`, by autograd.
        x: The data.
        v: The directions.
        cond: Conditions of the model.
    """
    if not model.is_due or model.record is None:
        return
    custom = {node.name() for node in _nodes(value) if isinstance(node, BackwardCFunction)}
    with model.record.still_due_if_refused(model.engine):
        if "CompiledFunctionBackward" in custom:
            refuse("gradients", NO_DOUBLE_BACKWARD + "no double backward of CompiledFunction")
        elif custom:
            _require_recorded_backward(slope, curvature(), x, v, cond)


def _require_recorded_backward(
    slope: Callable[..., tuple[Tensor, ...]],
    curvature: Tensor,
    x: Tensor,
    v: Tensor,
    cond: Sequence[Tensor],
) -> None:
    """Refuse a model if autograd has lost a part of its second derivative.

    A custom `autograd.Function` whose backward pass is not differentiable (`once_differentiable`,
    or `torch.no_grad()` inside) does not contribute to it. The second derivative of a model with
    a custom function is therefore compared with a difference of first derivatives. Functions whose
    backward pass is not the derivative of their forward pass, such as straight-through
    estimators, are accepted: their first derivatives do not agree with a difference of values.

    Args:
        slope: Returns the value and $v^T∇f$, or only $v^T s$, given `x`, `v` and the conditions.
        curvature: The second derivative along `v`, by autograd.
        x: The data.
        v: The directions.
        cond: Conditions of the model.
    """
    x, v = x.detach(), v.detach()
    scale = float(x.square().mean().sqrt()) or 1.0
    h = scale * unit_round_off(x.dtype) ** (1 / 3) / float(length(v).mean())
    ahead, here, behind = (
        [term.detach() for term in slope(x + step * v, v, *cond)] for step in (h, 0.0, -h)
    )
    differences = [(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    noise = [unit_round_off(x.dtype) * term.abs() / h for term in here]
    if len(here) == 2 and _disagrees(here[1], differences[0], noise[0]):
        return
    if _disagrees(curvature.detach(), differences[-1], noise[-1]):
        refuse(
            "gradients",
            "a custom `autograd.Function` in the model has a backward pass that autograd does not "
            "record (`once_differentiable`, or `torch.no_grad()` inside), so second derivatives "
            "and gradients of first derivatives from Autodiff are wrong: use FiniteDifference()",
        )
    else:
        note("gradients", "second derivatives of a custom `autograd.Function` are recorded")


def _disagrees(derivative: Tensor, difference: Tensor, noise: Tensor) -> bool:
    """Return whether most rows of a derivative differ from a difference with a given noise."""
    tolerance = MAX_RELATIVE_ERROR * difference.abs() + 30 * noise
    return bool(((derivative - difference).abs() > tolerance).double().mean() > 0.5)


def _nodes(y: Tensor) -> Iterator[Node]:
    """Yield the nodes of the graph of a tensor, each once."""
    pending, seen = [y.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            pending += [parent for parent, _ in node.next_functions]


def _has_wrong_norm(y: Tensor, modules: Iterable[nn.Module]) -> bool:
    """Return whether a norm with a wrong double backward is left in a graph or a script."""
    scripts = (m for m in modules if isinstance(m, torch.jit.ScriptModule))
    operations = {node.kind() for script in scripts for node in script.inlined_graph.nodes()}
    if operations & _WRONG_OPERATIONS:
        return True
    return any(
        node.name() in _WRONG_NODES and getattr(node, "_saved_training", True)
        for node in _nodes(y)
    )


_WRONG_OPERATIONS = {"aten::layer_norm", "aten::instance_norm"}
_WRONG_NODES = {
    "NativeLayerNormBackward0", "NativeBatchNormBackward0", "CudnnBatchNormBackward0",
    "MiopenBatchNormBackward0",
}  # fmt: skip
