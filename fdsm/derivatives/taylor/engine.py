"""Exact derivatives by propagating power series."""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import OptimizedModule

from ...tensors import dot
from ...typing import Derivative, LogDensity, Score
from ..checks import check_arguments, checked_density, checked_score
from ..randomness import modules_of
from ..stencil import require_order
from .jet import Jet
from .registry import MissingRule
from .series import Propagation, Truncation, empty_rows

Model = Callable[..., Tensor]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Taylor:
    r"""Forward propagation of value, slope and curvature together, through any torch code.

    Every tensor on the way from `x` to $f(x)$ becomes a `Jet`, which holds the coefficients of its
    power series along `v`,

    $$h(x + t v) = h_0 + h_1 t + h_2 t^2 + …, \qquad (v^T∇)^k h = k!\, h_k,$$

    and every function of torch that the model calls acts on them by its rule: a linear layer on
    all of them in one call, an activation $g$ by $g' h_1$ and $g' h_2 + \tfrac12 g'' h_1^2$. The
    result is exact in any precision, under autocast too, needs no step size and is trained
    through by one ordinary backward pass, at about the price of finite differences. Along several
    directions the curvatures are summed on the way: $V + 2$ coefficients.

    Functions without a rule raise `MissingRule`; see `rule` for how to add one. Of functions with
    kinks, such as ReLU, the derivatives are those almost everywhere; a `KinkWarning` tells where
    that makes a second derivative wrong to train with.

    Reference:
        Griewank and Walther (2008), Evaluating derivatives, chapter 13.
        Li et al. (2023), https://arxiv.org/abs/2307.08214, for the sum of curvatures.

    Attributes:
        fallback: What differentiates models that use a function without a rule.

    Example:
        >>> f = lambda x: x.pow(3).sum(1)
        >>> x, v = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.1, 0.0]])
        >>> [round(term.item(), 3) for term in Taylor().jet(f, x, v, 3)]
        [9.0, 1.2, 0.12, 0.006]
    """

    fallback: Derivative | None = None

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, from one call of `f`."""
        require_order(order)
        check_arguments(x, v, cond)

        def propagated() -> tuple[Tensor, ...]:
            y = _propagated(checked_density, f, x, v[None], order, cond)
            return tuple(math.factorial(k) * y[k] if k > 1 else y[k] for k in range(order + 1))

        return self._or_fallback(propagated, lambda other: other.jet(f, x, v, order, *cond))

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures, from one call of `f`."""
        check_arguments(x, v, cond, several=True)

        def propagated() -> tuple[Tensor, Tensor]:
            y = _propagated(checked_density, f, x, v, 2, cond)
            return y[1:-1], 2 * y[-1]

        return self._or_fallback(propagated, lambda other: other.sliced(f, x, v, *cond))

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, from one call of `s`."""
        check_arguments(x, v, cond)

        def propagated() -> tuple[Tensor, Tensor]:
            score, slope = _propagated(checked_score, s, x, v[None], 1, cond)
            return score, dot(v, slope)

        return self._or_fallback(propagated, lambda other: other.quadratic(s, x, v, *cond))

    def _or_fallback(
        self, propagated: Callable[[], Result], otherwise: Callable[[Derivative], Result]
    ) -> Result:
        if self.fallback is None:
            return propagated()
        try:
            return propagated()
        except MissingRule:
            return otherwise(self.fallback)


def _propagated(
    checked: Callable[[Model], Model],
    f: Model,
    x: Tensor,
    v: Tensor,
    order: int,
    cond: tuple[Tensor, ...],
) -> Tensor:
    """Return all coefficients of $f$ along the directions `v`, shape `(rows, *shape)`."""
    if torch.compiler.is_compiling() and isinstance(f, nn.Module):
        checked(f)(x, *cond)  # not used, but tells the compiler what the model depends on
        return _traced(f, x, v, order, cond)
    coefficients: Tensor = _run(checked(f), x, v, order, cond, _warned_about(f))
    return coefficients


_WARNED: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()


def _warned_about(f: object) -> set[str]:
    """Return the names of the functions that were warned about for a model."""
    try:
        return _WARNED.setdefault(f, set())
    except TypeError:  # it cannot be hashed or weakly referenced
        return set()


@torch.compiler.disable(  # type: ignore[no-untyped-call, untyped-decorator]
    reason="Taylor series are compiled only through models that are an `nn.Module`: pass the "
    "module itself, or leave out `fullgraph=True`"
)
def _run(
    f: Model,
    x: Tensor,
    v: Tensor,
    order: int,
    cond: tuple[Tensor, ...],
    warned: set[str] | None = None,
) -> Tensor:
    if not any(map(_is_compiled, modules_of(f))):
        return _coefficients(f, x, v, order, cond, warned)
    with torch.compiler.set_stance("force_eager"):
        return _coefficients(f, x, v, order, cond, warned)


def _is_compiled(module: nn.Module) -> bool:
    """Return whether a module would go through the compiler, which cannot follow jets."""
    compiled = getattr(module, "_compiled_call_impl", None)
    return compiled is not None or isinstance(module, OptimizedModule)


_traced: Callable[..., Tensor] = getattr(torch._dynamo, "nonstrict_trace", lambda f: f)(_run)
"""For the compiler, which takes it for one call and follows the tensors through it."""


def _coefficients(
    f: Model,
    x: Tensor,
    v: Tensor,
    order: int,
    cond: tuple[Tensor, ...],
    warned: set[str] | None,
) -> Tensor:
    if isinstance(x, Jet) or isinstance(v, Jet):
        raise MissingRule(
            "Taylor cannot differentiate inside of what it differentiates: use Autodiff() inside, "
            "or a higher order"
        )
    with _recorded(x, warned) as propagation:
        cond = tuple(c.clone() if isinstance(c, Tensor) and c.is_inference() else c for c in cond)
        coefficients = _of_jets(f, x, v, Truncation(order, len(v), propagation), cond)
    return coefficients if torch.is_grad_enabled() else coefficients.detach()


@contextmanager
def _recorded(x: Tensor, warned: set[str] | None) -> Generator[Propagation]:
    """Make autograd record a propagation, so that what it would not differentiate is noticed.

    If gradients are switched off, no tensors are kept for a backward pass, unless the model takes
    gradients itself.

    Yields:
        The propagation.
    """
    propagation = Propagation(recording=True, warned=set() if warned is None else warned)
    if torch.is_grad_enabled():
        yield propagation
        return
    propagation.keeping = x.requires_grad
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda saved: saved if propagation.keeping else None, lambda saved: saved
    )
    with torch.inference_mode(False), torch.enable_grad(), hooks:
        yield propagation


def _of_jets(
    f: Model, x: Tensor, v: Tensor, truncation: Truncation, cond: tuple[Tensor, ...]
) -> Tensor:
    c = torch.cat([x[None], v])
    if not x.is_contiguous():
        c = empty_rows(x[None], len(c)).copy_(c)
    y = f(Jet(c, truncation), *cond)
    if not isinstance(y, Jet) or y.degree == 0:
        raise ValueError(
            "the model does not depend on its input, or makes constants of it on the way "
            "(`.detach()`?), so its derivatives would be taken to be zero"
        )
    c = y.coefficients.to(torch.promote_types(x.dtype, y.dtype))  # under autocast it is half
    missing = truncation.rows(truncation.order) - len(c)
    return torch.cat([c, c.new_zeros(missing, *y.shape)]) if missing else c
