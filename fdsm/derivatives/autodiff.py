"""Exact derivatives by repeated reverse-mode differentiation."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from ..tensors import dot, length
from ..typing import DensityFunction, LogDensity, Score
from .guards import examine
from .normalization import DECOMPOSED
from .precision import unit_round_off
from .records import Record, Records, levels_to_caller
from .stencil import require_order
from .taylor.jet import Jet
from .validation import (
    as_log_density,
    check_arguments,
    require_density_shape,
    require_score_shape,
)

MAX_RELATIVE_ERROR = 0.02
"""Relative error above which a derivative disagrees with a difference."""

_RECORDS = Records()


class WrongGradientWarning(UserWarning):
    """PyTorch computes wrong gradients of second derivatives of this model."""


@dataclass(frozen=True)
class Autodiff:
    """Reverse-mode derivatives, differentiable in the parameters of `f`.

    Exact in any precision, at about five times the cost of a plain step for second derivatives.
    Operations without a double backward raise an error. If `x` requires a gradient, the result
    depends on it as any other function of `x` does; otherwise `x` is not changed. Where gradients
    are disabled, no graph is kept.

    PyTorch's own third derivatives through layer norm, instance norm and batch norm are wrong
    (https://github.com/pytorch/pytorch/issues/175754), and training needs them. These norms are
    computed from elementary operations instead. In scripted modules that is not possible, and a
    `WrongGradientWarning` is shown.

    Example:
        >>> f = lambda x: x.pow(3).sum(1)
        >>> x, v = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.1, 0.0]])
        >>> [round(term.item(), 3) for term in Autodiff().jet(f, x, v, 3)]
        [9.0, 1.2, 0.12, 0.006]
    """

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, by `order` nested gradients."""
        require_order(order)
        check_arguments(x, v, cond)
        f = as_log_density(f)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value, record = _evaluate(f, x, cond, keep and order > 1)
            require_density_shape(value.shape, len(x))
            terms = [value, dot(model_gradient(value, x, keep or order > 1), v)]
            for k in range(1, order):
                terms.append(dot(gradient(terms[k], x, keep or k < order - 1), v))
            if keep or order > 1:
                curvature = lambda: terms[2] if order > 1 else dot(gradient(terms[1], x, False), v)
                _inspect_backward(record, value, partial(_slope, f), curvature, x, v, cond)
            return tuple(_detached_unless(keep, term) for term in terms)

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures.

        The first gradient is computed once for all directions; each adds one more.
        """
        check_arguments(x, v, cond, several=True)
        f = as_log_density(f)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value, record = _evaluate(f, x, cond, keep)
            require_density_shape(value.shape, len(x))
            score = model_gradient(value, x, create_graph=True)
            slopes = [dot(score, u) for u in v]
            pairs = zip(slopes, v, strict=True)
            curvatures = [dot(gradient(s, x, keep), u) for s, u in pairs]
            curvature = lambda: curvatures[0]
            _inspect_backward(record, value, partial(_slope, f), curvature, x, v[0], cond)
            results = torch.stack(slopes), reduce(torch.add, curvatures)
            return _detached_unless(keep, results[0]), _detached_unless(keep, results[1])

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, by one gradient of $v^T s$."""
        check_arguments(x, v, cond)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            score, record = _evaluate(s, x, cond, keep)
            require_score_shape(score.shape, x)
            curvature = dot(model_gradient(dot(v, score), x, keep), v)
            slope = lambda x, v, *cond: (dot(v, s(x, *cond)),)
            _inspect_backward(record, score, slope, lambda: curvature, x, v, cond)
            return _detached_unless(keep, score), _detached_unless(keep, curvature)


def score_of(log_density: LogDensity) -> Score:
    r"""Return the score $∇_x \log p$ of a log-density, as a callable.

    Args:
        log_density: The density to differentiate.

    Returns:
        A score whose values are differentiable in the parameters of `log_density`.

    Example:
        >>> score = score_of(lambda x: -x.square().sum(1) / 2)
        >>> score(torch.tensor([[1.0, 2.0]])).detach()
        tensor([[-1., -2.]])
    """
    f = as_log_density(log_density)

    def score(x: Tensor, *cond: Tensor) -> Tensor:
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value, record = _evaluate(f, x, cond, False)
            require_density_shape(value.shape, len(x))
            result = model_gradient(value, x, create_graph=keep)
            if keep:
                v = result.detach()
                curvature = lambda: dot(gradient(dot(result, v), x, False), v)
                _inspect_backward(record, value, partial(_slope, f), curvature, x, v, cond)
            return result

    score.__wrapped__ = f  # type: ignore[attr-defined]
    return score


def _evaluate(
    f: Callable[..., Tensor], x: Tensor, cond: Sequence[Tensor], third: bool
) -> tuple[Tensor, Record]:
    """Evaluate a model, recorded by autograd.

    Args:
        f: The model.
        x: Its input, which requires a gradient.
        cond: Conditions of the model, one row per example.
        third: Whether third derivatives will be taken, for which norms are decomposed.

    Returns:
        The values, and the record of the model.
    """
    if isinstance(x, Jet):
        return f(x, *cond), Record()
    record = examine(_RECORDS, f, x, cond)
    if not third or torch.compiler.is_compiling():
        return f(x, *cond), record
    with DecomposedNorms():
        y = f(x, *cond)
    if record.is_due and "norm" not in record.warned and _has_wrong_norm(y, record.modules):
        record.warned.add("norm")
        warnings.warn(
            "PyTorch computes wrong parameter gradients of second derivatives through a layer or "
            "instance norm of this model (https://github.com/pytorch/pytorch/issues/175754), "
            "which is scripted or exported and cannot be replaced. Use the module itself, "
            "Taylor(), or FiniteDifference(). (Shown once per model.)",
            WrongGradientWarning,
            stacklevel=levels_to_caller(),
        )
    return y, record


def _slope(f: DensityFunction, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
    """Return $f(x)$ and $v^T∇f(x)$."""
    x = requires_grad_alias(x.detach())
    value = f(x, *cond)
    return value, dot(gradient(value, x, create_graph=False), v)


def _inspect_backward(
    record: Record,
    value: Tensor,
    slope: Callable[..., tuple[Tensor, ...]],
    curvature: Callable[[], Tensor],
    x: Tensor,
    v: Tensor,
    cond: Sequence[Tensor],
) -> None:
    """Require a recorded backward pass if an inspection is due and there is a custom function."""
    if not record.is_due:
        return
    if any(isinstance(node, BackwardCFunction) for node in _nodes(value)):
        with record.still_due_if_refused():
            _require_recorded_backward(slope, curvature(), x, v, cond)


def _require_recorded_backward(
    slope: Callable[..., tuple[Tensor, ...]],
    curvature: Tensor,
    x: Tensor,
    v: Tensor,
    cond: Sequence[Tensor],
) -> None:
    """Raise `RuntimeError` if autograd has lost a part of a second derivative.

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

    Raises:
        RuntimeError: If they differ.
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
        raise RuntimeError(
            "a custom `autograd.Function` in the model has a backward pass that autograd does not "
            "record (`once_differentiable`, or `torch.no_grad()` inside), so second derivatives "
            "and gradients of first derivatives from Autodiff are wrong: use FiniteDifference()"
        )


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


class DecomposedNorms(TorchFunctionMode):
    """Mode in which norms are computed from operations that torch differentiates correctly."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Call the function, or its decomposition if it is a norm."""
        decomposed = DECOMPOSED.get(func)
        if decomposed is not None and not any(issubclass(t, Jet) for t in types):
            func = decomposed
        return func(*args, **(kwargs or {}))


def requires_grad_alias(x: Tensor) -> Tensor:
    """Return `x`, or an alias of it that records gradients; `x` itself is not changed."""
    if torch.is_inference_mode_enabled() or x.is_inference():
        raise RuntimeError(
            "autodiff cannot differentiate in inference mode, or data created there: use "
            "`torch.no_grad()` instead, or FiniteDifference()"
        )
    return x if x.requires_grad else x.view_as(x).requires_grad_()


def model_gradient(
    y: Tensor, x: Tensor, create_graph: bool, *, weights: Tensor | None = None
) -> Tensor:
    """Return the gradient of the sum of `y`, the output of a model, which must depend on `x`.

    Args:
        y: The output, or a linear function of it.
        x: The input, recorded in the graph of `y`.
        create_graph: Whether the gradient will be differentiated again.
        weights: Weights of the sum; treated as constants.

    Returns:
        The gradient, shaped like `x`.

    Raises:
        ValueError: If autograd finds no dependence.
    """
    result = _gradient_or_none(y, x, create_graph, weights)
    if result is None:
        raise ValueError(
            "the model does not depend on its input: it was detached (`.detach()`), or evaluated "
            "without gradients (`torch.no_grad()`) inside the model, so Autodiff would return "
            "zero. Use the input itself inside the model, or FiniteDifference()"
        )
    return result


def gradient(y: Tensor, x: Tensor, create_graph: bool, *, weights: Tensor | None = None) -> Tensor:
    """Return the gradient of the sum of `y`, zero where `y` does not depend on `x`.

    Args:
        y: The function; with one row per example, each gives a row of the gradient.
        x: Its argument, recorded in the graph of `y`.
        create_graph: Whether the gradient will be differentiated again.
        weights: Weights of the sum; treated as constants.

    Returns:
        The gradient, shaped like `x`.
    """
    result = _gradient_or_none(y, x, create_graph, weights)
    return torch.zeros_like(x) if result is None else result


def _gradient_or_none(
    y: Tensor, x: Tensor, create_graph: bool, weights: Tensor | None
) -> Tensor | None:
    if not (y.coefficients if isinstance(y, Jet) else y).requires_grad:
        return None
    (result,) = torch.autograd.grad(
        y,
        x,
        torch.ones_like(y) if weights is None else weights,
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )
    return result


def _detached_unless(keep: bool, y: Tensor) -> Tensor:
    return y if keep else y.detach()
