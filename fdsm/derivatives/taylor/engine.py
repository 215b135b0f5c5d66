"""Exact derivatives by propagating power series."""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from ...tensors import dot
from ...typing import Derivative, Function, Score, is_exact
from ..checks.arguments import (
    as_log_density,
    check_arguments,
    require_rows,
    require_score_shape,
)
from ..checks.identity import is_compiled
from ..checks.observation import EAGERLY
from ..checks.state import record_of
from ..stencil import require_order
from .jet import Jet
from .registry import MissingRule
from .series import Propagation, Truncation, empty_rows

Model = Callable[..., Tensor]
Method = TypeVar("Method", bound=Callable[..., Any])


def _with_fallback(method: Method) -> Method:
    """Return a method that hands models without rules to the same method of the fallback."""

    @wraps(method)
    def differentiate(self: "Taylor", *args: Any) -> Any:
        if self.fallback is None:
            return method(self, *args)
        try:
            return method(self, *args)
        except MissingRule:
            return getattr(self.fallback, method.__name__)(*args)

    return cast(Method, differentiate)


@dataclass(frozen=True)
class Taylor:
    r"""Taylor-mode automatic differentiation: value, slope and curvature in one forward pass.

    Every tensor on the way from `x` to $f(x)$ becomes a `Jet`, which holds the coefficients of its
    power series along `v`,

    $$h(x + t v) = h_0 + h_1 t + h_2 t^2 + …, \qquad (v^T∇)^k h = k!\, h_k,$$

    and each function of torch that the model calls has a rule for them: a linear layer maps all
    coefficients in one call, and an activation $g$ computes $g' h_1$ and
    $g' h_2 + \tfrac12 g'' h_1^2$. The result is exact in any precision, also under autocast, and
    needs no step size. Training needs one ordinary backward pass. The cost is about that of finite
    differences. Along several directions only the sum of the curvatures is propagated, so there
    are $V + 2$ coefficients.

    Functions without a rule raise `MissingRule`; see `rule` for how to add one. Derivatives of
    piecewise functions such as ReLU are those of the pieces. A `KinkWarning` is shown if training
    with their second derivatives is biased.

    Reference:
        Griewank and Walther (2008), Evaluating derivatives, chapter 13.
        Li et al. (2023), https://arxiv.org/abs/2307.08214, for the sum of curvatures.

    Attributes:
        fallback: Engine for models that use a function without a rule.

    Example:
        >>> f = lambda x: x.pow(3).sum(1)
        >>> x, v = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.1, 0.0]])
        >>> [round(term.item(), 3) for term in Taylor().jet(f, x, v, 3)]
        [9.0, 1.2, 0.12, 0.006]
    """

    fallback: Derivative | None = None

    nests_gradients: ClassVar[bool] = False

    @property
    def is_exact(self) -> bool:
        """Whether no error but rounding is made, also by the fallback."""
        return self.fallback is None or is_exact(self.fallback)

    @_with_fallback
    def jet(
        self, f: Function, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, from one call of `f`."""
        require_order(order)
        check_arguments(x, v, cond)
        y = series(as_log_density(f), x, v[None], order, *cond)
        require_rows(y.shape[1:], x)
        return tuple(math.factorial(k) * c if k > 1 else c for k, c in enumerate(y.unbind()))

    @_with_fallback
    def sliced(self, f: Function, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures, from one call of `f`."""
        check_arguments(x, v, cond, several=True)
        y = series(as_log_density(f), x, v, 2, *cond)
        require_rows(y.shape[1:], x)
        _, slopes, curvature = y.split_with_sizes([1, len(v), 1])
        return slopes, 2 * curvature.squeeze(0)

    def biharmonic(self, f: Function, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        r"""Return $\sum_{ij} (v_i^T∇)² (v_j^T∇)² f(x)$ for all `v`, from one call of `f`."""
        check_arguments(x, v, cond, several=True)
        y = series(as_log_density(f), x, v, 4, *cond)
        require_rows(y.shape[1:], x)
        return (math.factorial(4) if len(v) == 1 else 8) * y[-1]

    def jets(
        self, f: Function, x: Tensor, v: Tensor, orders: Sequence[int], *cond: Tensor
    ) -> list[tuple[Tensor, ...]]:
        """Return $(v_i^T∇)^k f(x)$ for each `v` and `k = 0, …, orders[i]`, from one call of `f`.

        The series share their value; see `separate_directions`.
        """
        check_arguments(x, v, cond, several=True)
        first = sorted(range(len(v)), key=lambda i: -orders[i])
        given = tuple(orders[i] for i in first)
        require_order(given[-1])
        if len(v) == 1:
            return [self.jet(f, x, v[0], given[0], *cond)]
        y = series(as_log_density(f), x, v[first], 0, *cond, orders=given)
        require_rows(y.shape[1:], x)
        truncation = Truncation.separate(given, Propagation())
        blocks = [
            math.factorial(k) * y[truncation.block(k)] if k > 1 else y[truncation.block(k)]
            for k in range(given[0] + 1)
        ]
        jets = {
            i: (y[0], *(block[n] for block in blocks[1 : orders[i] + 1]))
            for n, i in enumerate(first)
        }
        return [jets[i] for i in range(len(v))]

    @_with_fallback
    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, from one call of `s`."""
        check_arguments(x, v, cond)
        y = series(s, x, v[None], 1, *cond)
        require_score_shape(y.shape[1:], x)
        score, slope = y
        return score, dot(v, slope)


def series(
    f: Model, x: Tensor, v: Tensor, order: int, *cond: Tensor, orders: tuple[int, ...] = ()
) -> Tensor:
    r"""Return the coefficients of the power series of `f` along `v`.

    Args:
        f: A function of `x` and the conditions.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(V, B, *E)`; one of them if the order is not 1, 2 or 4.
        order: The highest degree.
        cond: Further arguments of `f`.
        orders: The highest degrees of directions that are kept apart, instead of `order`.

    Returns:
        $f_0$, the slopes $f_{1i}$, and $f_2, …$ along one direction, the sum of all $f_{2i}$, or
        the coefficients of `fourth_order` or `separate_directions`, stacked.

    Raises:
        MissingRule: If `x` or `v` is itself a jet.
    """
    if torch.compiler.is_compiling():
        return _series_while_compiling(f, x, v, order, cond, orders)
    if isinstance(x, Jet) or isinstance(v, Jet):
        raise MissingRule(
            "Taylor cannot be nested: use Autodiff() inside the model, or a derivative of higher "
            "order"
        )
    record = record_of(f)
    if record.count("Taylor"):
        record.is_compiled = is_compiled(f)
    with EAGERLY if record.is_compiled else nullcontext():  # the compiler cannot follow jets
        return propagate(f, x, v, order, cond, record.warned, orders)


def propagate(
    f: Model,
    x: Tensor,
    v: Tensor,
    order: int,
    cond: tuple[Tensor, ...],
    warned: set[str] | None = None,
    orders: tuple[int, ...] = (),
) -> Tensor:
    """Return the coefficients of `f`, as `series`, from a call with a jet.

    Args:
        f: A function of `x` and the conditions.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(V, B, *E)`.
        order: The highest degree.
        cond: Further arguments of `f`.
        warned: Names of the warnings already shown for the model.
        orders: The highest degrees of directions that are kept apart, instead of `order`.

    Returns:
        The coefficients, stacked.
    """
    keep = torch.is_grad_enabled()
    with _recording(x, set() if warned is None else warned) as propagation:
        cond = tuple(c.clone() if c.is_inference() else c for c in cond)
        if orders:
            truncation = Truncation.separate(orders, propagation)
        else:
            truncation = Truncation(order, len(v), propagation)
        y = f(_input(x, v, truncation), *cond)
        result = _all_coefficients(y, x.dtype)
    return result if keep else result.detach()


@contextmanager
def _recording(x: Tensor, warned: set[str]) -> Generator[Propagation]:
    """Make autograd record a propagation, so that code it does not record is noticed.

    Gradients are enabled even in inference mode. Where the caller has disabled them, tensors that
    autograd saves are dropped, unless the model computes gradients itself.

    Args:
        x: The data.
        warned: Names of the warnings already shown for the model.

    Yields:
        The propagation.
    """
    keep = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    propagation = Propagation(recording=True, keeping=keep or x.requires_grad, warned=warned)
    if keep:
        yield propagation
        return
    hooks = torch.autograd.graph.saved_tensors_hooks(
        # A saved result of a function, such as `exp`, would refer to its graph and keep it alive.
        lambda saved: saved.detach() if propagation.keeping else None,
        lambda saved: saved,
    )
    with torch.inference_mode(False), torch.enable_grad(), hooks:
        yield propagation


def _input(x: Tensor, v: Tensor, truncation: Truncation) -> Jet:
    """Return the series $x + t v$, each coefficient with the memory layout of `x`."""
    if len(v) > 1 and len(x) > 1 and v.stride(1) == 0 and x.is_contiguous():
        value, slopes = (c.clone() if c.is_inference() else c for c in (x, v[:, 0]))
        return Jet.with_common_slopes(value, slopes, truncation)
    c = torch.cat([x[None], v])
    return Jet(c if x.is_contiguous() else empty_rows(x[None], len(c)).copy_(c), truncation)


def _all_coefficients(y: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the coefficients of the output of a model, with those that vanish."""
    if not isinstance(y, Jet) or y.degree == 0:
        raise ValueError(
            "the model does not depend on its input, or treats it as a constant on the way "
            "(`.detach()`?), so its derivatives would be zero"
        )
    if y.coefficients.is_complex():
        raise ValueError(f"the model must return real numbers, but returned {y.dtype}")
    c = y.coefficients.to(torch.promote_types(dtype, y.dtype))  # half precision under autocast
    missing = y.truncation.rows(y.truncation.order) - len(c)
    return torch.cat([c, c.new_zeros(missing, *y.shape)]) if missing else c


def _series_while_compiling(
    f: Model,
    x: Tensor,
    v: Tensor,
    order: int,
    cond: tuple[Tensor, ...],
    orders: tuple[int, ...],
) -> Tensor:
    """Return the coefficients, traced through modules; other callables break the graph."""
    from .compiler import traced, untraced

    if not isinstance(f, nn.Module):
        return untraced(f, x, v, order, cond, orders=orders)
    f(x, *cond)  # tells the compiler which tensors the module depends on
    return traced(f, x, v, order, cond, orders=orders)
