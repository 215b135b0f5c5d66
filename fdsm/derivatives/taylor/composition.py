r"""Series of smooth elementwise functions.

Let $n$ be a series without its value. Then $g(u_0 + n) = g(u_0) + g'(u_0) n +
\tfrac12 g''(u_0) n² + …$, and up to degree two $n² = \sum_i u_{1i}² s$. Higher degrees follow from
$\dot y = g'(u) \dot u$, see `recurrence`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from . import fourth_order, separate_directions
from .common_slopes import CommonActivation
from .jet import Jet
from .recurrence import Solver, integrate, solve
from .registry import Rule, rule
from .series import ClosedForm, Propagation, Truncation, empty_rows, sum_products

Derivatives = Callable[[Tensor], Iterator[Tensor]]
"""Yields $g'(x), g''(x), g'''(x)$. The first must be computed by functions that have rules."""


def smooth(
    *functions: Callable[..., Tensor] | str, solver: Solver | None = None, relative: bool = False
) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a smooth elementwise function by its derivatives.

    Args:
        functions: The function, as for `rule`. The first must compute the value.
        solver: The recurrence for orders above two. Default: integrate the series of $g'$.
        relative: As for `compose`.

    Returns:
        The decorator of a generator of $g'$, $g''$ and $g'''$ with the arguments of the function.
    """

    def register(derivatives: Callable[..., Iterator[Tensor]]) -> Rule:
        function = getattr(torch, functions[0]) if isinstance(functions[0], str) else functions[0]

        def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
            if not args and not kwargs:
                return compose(x, function, derivatives, solver, relative=relative)
            return compose(
                x,
                lambda u: function(u, *args, **kwargs),
                lambda u: derivatives(u, *args, **kwargs),
                solver,
                relative=relative,
            )

        return rule(*functions)(applied)

    return register


def compose(
    x: Jet,
    g: Callable[[Tensor], Tensor],
    derivatives: Derivatives,
    solver: Solver | None = None,
    *,
    of_value: bool = False,
    relative: bool = False,
) -> Jet:
    """Return $g(x)$ for a smooth elementwise function.

    Args:
        x: The jet.
        g: The function.
        derivatives: Its derivatives.
        solver: The recurrence for orders above two. Default: integrate the series of $g'$.
        of_value: Whether the derivatives are given as functions of $g(x)$ instead of $x$. This
            needs a solver.
        relative: Whether to expand in $(x - x_0) / x_0$ where an expansion is needed. The
            derivatives of powers and logarithms overflow near zero, but not these coefficients.

    Returns:
        The composition.
    """
    truncation = x.truncation
    if x.factors is not None and truncation.order <= 2:
        of_x = (lambda z: derivatives(g(z))) if of_value else derivatives
        activation = CommonActivation(*x.factors, truncation, g, of_x)
        if activation.value.numel() * truncation.rows(truncation.order) > SAVED_ELEMENTS:
            return Jet.deferred(activation, truncation)
        return Jet(activation.coefficients(), truncation)
    if x.factors is None and x.degree == 0:
        return Jet(g(x.value)[None], truncation)
    slope = lambda x: next(derivatives(g(x) if of_value else x))
    if truncation.keeps_pairs or truncation.orders:
        propagation = Propagation(warned=truncation.propagation.warned)

        def expansion(line: Tensor, order: int) -> Tensor:
            jet = Jet(line, Truncation(order, 1, propagation))
            return compose(jet, g, derivatives, solver, of_value=of_value).coefficients

        def terms(value: Tensor, order: int) -> Sequence[Tensor]:
            if relative or order > 3:
                scale = torch.ones_like(value) if scales is None else scales
                return expansion(torch.stack([value, scale]), order).unbind()
            y = g(value)
            first, *others = islice(derivatives(y if of_value else value), order)
            return y, first, *(d / math.factorial(k) for k, d in enumerate(others, 2))

        if truncation.orders:
            start = x.factors.value if x.factors is not None else x.value
            scales = torch.where(start == 0, 1, start) if relative else None
            return separate_directions.compose(x, terms, slope, scales)
        return fourth_order.compose(x, expansion, slope, relative)
    u = x.coefficients
    if truncation.order <= 2:
        stacked: Tensor = _Composition.apply(u, truncation, g, derivatives, of_value)
        return Jet(stacked, truncation)
    if solver is not None:
        return solve(x, solver, slope)
    shorter = Truncation(truncation.order - 1, propagation=truncation.propagation)
    outer = next(derivatives(Jet(u[: truncation.order], shorter)))
    w = outer.coefficients if isinstance(outer, Jet) else outer[None]
    return Jet(integrate(w, u, g(u[0]), truncation.order), truncation)


SAVED_ELEMENTS = 2**18
"""Largest number of elements of `u` for which factors are saved for the backward pass.

Up to this size, calls of kernels cost more than the work in them. Above it, memory counts.
"""


class _Composition(ClosedForm):
    """The coefficients of $y = g(u)$ up to degree two, with a backward pass in closed form.

    Where autograd would save every intermediate result, it saves `u`, the value if the
    derivatives are functions of it, and the factors of the gradient if they are small.
    """

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        truncation: Truncation,
        g: Callable[[Tensor], Tensor],
        derivatives: Derivatives,
        of_value: bool,
    ) -> Tensor:
        order, x, rows = truncation.order, u[0], u.shape[0]
        y = empty_rows(u, truncation.rows(order))
        value = g(x)
        y[0] = value
        small = u.numel() <= SAVED_ELEMENTS and truncation.propagation.keeping
        saving = small and ctx.needs_input_grad[0]
        first, *others = islice(derivatives(value if of_value else x), order + saving)
        torch.mul(u[1:], first, out=y[1:rows])
        squares = _squares(u, truncation) if order == 2 else None
        if squares is not None:
            if rows == y.shape[0]:
                y[-1].addcmul_(others[0], squares, value=0.5)
            else:
                torch.mul(others[0], squares, out=y[-1]).mul_(0.5)
        factors = _factors(u, truncation, others, squares) if saving else ()
        ctx.save_for_backward(
            u, *([value] if of_value else []), *([first] if saving else []), *factors
        )
        ctx.truncation, ctx.derivatives = truncation, derivatives
        ctx.g = g if of_value else None
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Return the gradient with respect to `u`, given $\bar y$, the gradient of the result.

        $$\bar u_0 = g' \bar y_0 + g'' \sum_{k>0} u_k \bar y_k
                     + \tfrac12 g''' \sum_i u_{1i}² \bar y_2, \quad
          \bar u_{1i} = g' \bar y_{1i} + g'' u_{1i} \bar y_2, \quad \bar u_2 = g' \bar y_2$$

        Along one direction this is $\bar u_j = \sum_k w_{k-j} \bar y_k$ with $w = g'(u)$.
        """
        u, *saved = ctx.saved_tensors
        truncation, order = ctx.truncation, ctx.truncation.order
        argument = saved.pop(0) if ctx.g else u[0]
        if not saved or torch.is_grad_enabled():  # differentiated again, they depend on `u`
            if ctx.g and torch.is_grad_enabled():
                argument = ctx.g(u[0])
            first, *others = islice(ctx.derivatives(argument), order + 1)
            squares = _squares(u, truncation) if order == 2 else None
            saved = [first, *_factors(u, truncation, others, squares)]
        rows = u.shape[0]
        bar = (grad if grad.shape[0] == rows else grad[:rows]) * saved[0]
        if truncation.directions == 1:
            for k, w in enumerate(saved[1].unbind(), 1):
                bar[: order + 1 - k].addcmul_(w, grad[k:])
            return bar, None, None, None, None
        second, *third = saved[1:]
        bar[0].addcmul_(second, sum_products(u[1:], grad[1:rows]))
        for bend in third:
            slopes = truncation.block(1)
            bar[slopes].addcmul_(u[slopes], second * grad[-1])
            bar[0].addcmul_(bend, grad[-1], value=0.5)
        return bar, None, None, None, None


def _squares(u: Tensor, truncation: Truncation) -> Tensor:
    r"""Return $\sum_i u_{1i}²$."""
    if truncation.directions == 1:
        return u[1].square()
    slopes = u[truncation.block(1)]
    return sum_products(slopes, slopes)


def _factors(
    u: Tensor, truncation: Truncation, others: Sequence[Tensor], squares: Tensor | None
) -> tuple[Tensor, ...]:
    r"""Return the factors of the gradient besides $g'$.

    Along one direction these are the other coefficients of $w = g'(u)$, stacked: $w_1 = g'' u_1$
    and $w_2 = g'' u_2 + \tfrac12 g''' u_1²$. Along several they are $g''$ and
    $g''' \sum_i u_{1i}²$.

    Args:
        u: The coefficients of $u$.
        truncation: Their truncation.
        others: $g''$, and $g'''$ if the order is two.
        squares: $\sum_i u_{1i}²$ if the order is two.

    Returns:
        The factors.
    """
    second, *third = others
    if truncation.directions > 1:
        return (second,) if squares is None else (second, third[0] * squares)
    w = second * u[1:]
    if squares is None:
        return (w,)
    if u.shape[0] == truncation.rows(2):
        w[-1].addcmul_(third[0], squares, value=0.5)
        return (w,)
    return (torch.cat([w, (third[0] * squares).mul_(0.5)[None]]),)
