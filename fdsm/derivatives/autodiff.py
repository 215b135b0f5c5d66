"""Exact derivatives by repeated reverse-mode differentiation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..tensors import dot
from ..typing import DensityFunction, Function, LogDensity, Score
from .checks.arguments import (
    as_log_density,
    check_arguments,
    checked_output,
    require_density_shape,
)
from .checks.backward import (
    announce_missing_backward,
    explained,
    inspect_backward,
    inspect_norms,
)
from .checks.guard import BareModel, checked
from .normalization import DECOMPOSED
from .stencil import require_order
from .taylor.jet import Jet


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

    is_exact: ClassVar[bool] = True
    nests_gradients: ClassVar[bool] = True

    def jet(
        self, f: Function, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, by `order` nested gradients.

        Several outputs take two gradients for each order; see `_slopes_of`.
        """
        require_order(order)
        model = _checked(self, f, x, v, cond)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value = _evaluate(model, x, cond, keep and order > 1)
            if value.ndim > 1 and keep and order == 1:
                value = _evaluate(model, x, cond, True)
            terms = [value, _slopes_of(value, x, keep or order > 1, model_gradient)(v)]
            for k in range(1, order):
                terms.append(_slopes_of(terms[k], x, keep or k < order - 1)(v))
            if keep or order > 1:
                curvature = lambda: terms[2] if order > 1 else _slopes_of(terms[1], x, False)(v)
                inspect_backward(model, value, partial(_slope, model), curvature, x, v, cond)
            announce_missing_backward(model.record, model.engine, terms[1])
            return tuple(_detached_unless(keep, term) for term in terms)

    def sliced(self, f: Function, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures.

        The first gradient is computed once for all directions; each adds one more.
        """
        model = _checked(self, f, x, v, cond, several=True)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value = _evaluate(model, x, cond, keep)
            slopes = list(map(_slopes_of(value, x, True, model_gradient), v))
            pairs = zip(slopes, v, strict=True)
            curvatures = [_slopes_of(s, x, keep)(u) for s, u in pairs]
            curvature = lambda: curvatures[0]
            inspect_backward(model, value, partial(_slope, model), curvature, x, v[0], cond)
            results = torch.stack(slopes), reduce(torch.add, curvatures)
            return _detached_unless(keep, results[0]), _detached_unless(keep, results[1])

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, by one gradient of $v^T s$."""
        model = _checked(self, s, x, v, cond, score=True)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            score = _evaluate(model, x, cond, keep)
            curvature = dot(model_gradient(dot(v, score), x, keep), v)
            slope = lambda x, v, *cond: (dot(v, model(x, *cond)),)
            inspect_backward(model, score, slope, lambda: curvature, x, v, cond)
            announce_missing_backward(model.record, model.engine, curvature)
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
        model, keep = _checked(Autodiff(), f, x, None, cond), torch.is_grad_enabled()
        with torch.enable_grad():
            x = requires_grad_alias(x)
            value = _evaluate(model, x, cond, False)
            require_density_shape(value.shape, len(x))
            result = model_gradient(value, x, create_graph=keep)
            announce_missing_backward(model.record, model.engine, result)
            if keep:
                v = result.detach()
                curvature = lambda: dot(gradient(dot(result, v), x, False), v)
                inspect_backward(model, value, partial(_slope, model), curvature, x, v, cond)
            return result

    score.__wrapped__ = f  # type: ignore[attr-defined]
    return score


def _checked(
    engine: Autodiff,
    f: LogDensity | Score,
    x: Tensor,
    v: Tensor | None,
    cond: Sequence[Tensor],
    *,
    several: bool = False,
    score: bool = False,
) -> BareModel:
    """Return the model, inspected unless a Taylor series is propagated through this code."""
    if not isinstance(x, Jet):
        return checked(engine, f, x, v, cond, several=several, score=score)
    if v is not None:
        check_arguments(x, v, cond, several=several)
    return BareModel(checked_output(f, score=score))


def _evaluate(model: BareModel, x: Tensor, cond: Sequence[Tensor], third: bool) -> Tensor:
    """Return the values of a model, recorded by autograd.

    Args:
        model: The model.
        x: Its input, which requires a gradient.
        cond: Conditions of the model, one row per example.
        third: Whether third derivatives will be taken, for which norms are decomposed.

    Returns:
        The values.
    """
    if not third or isinstance(x, Jet) or torch.compiler.is_compiling():
        return model(x, *cond)
    with DecomposedNorms():
        y = model(x, *cond)
    inspect_norms(model, y)
    return y


def _slope(f: DensityFunction, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
    """Return $f(x)$ and $v^T∇f(x)$."""
    x = requires_grad_alias(x.detach())
    value = f(x, *cond)
    return value, _slopes_of(value, x, False)(v)


def _slopes_of(
    y: Tensor, x: Tensor, create_graph: bool, first: Callable[..., Tensor] | None = None
) -> Callable[[Tensor], Tensor]:
    r"""Return a function of `v` that returns $(v^T∇) y$, from one gradient for all `v`.

    For several outputs, that gradient is $\sum_j w_j ∇y_j$ as a function of $w$, and each `v`
    takes the gradient with respect to $w$ of its product with `v`.

    Args:
        y: The function, shape `(B, *O)`.
        x: Its argument, recorded in the graph of `y`.
        create_graph: Whether the slopes will be differentiated again.
        first: Computes the gradient of `y`. Default: `gradient`.

    Returns:
        The function, `(B, *E) -> (B, *O)`.
    """
    first = first or gradient
    if y.ndim == 1:
        score = first(y, x, create_graph)
        return lambda v: dot(score, v)
    w = torch.zeros_like(y, requires_grad=True)
    product = first(y, x, True, weights=w)
    return lambda v: gradient(product, w, create_graph, weights=v)


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
    try:
        (result,) = torch.autograd.grad(
            y,
            x,
            torch.ones_like(y) if weights is None else weights,
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    except RuntimeError as error:
        raise explained(error) from error
    return result


def _detached_unless(keep: bool, y: Tensor) -> Tensor:
    return y if keep else y.detach()
