r"""Series of smooth elementwise functions.

Let $n$ be a series without its value. Then $g(u_0 + n) = g(u_0) + g'(u_0) n +
\tfrac12 g''(u_0) n² + …$, and up to degree two $n² = \sum_i u_{1i}² s$.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from .common_slopes import compose_common
from .jet import Jet
from .registry import Rule, rule
from .series import Truncation, empty_rows, sum_products

Derivatives = Callable[[Tensor], Iterator[Tensor]]
"""Yields $g'(x), g''(x), g'''(x)$. The first must be computed by functions that have rules."""


def smooth(*functions: Callable[..., Tensor] | str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a smooth elementwise function by its derivatives.

    Args:
        functions: The function, as for `rule`. The first must compute the value.

    Returns:
        The decorator of a generator of $g'$, $g''$ and $g'''$ with the arguments of the function.
    """

    def register(derivatives: Callable[..., Iterator[Tensor]]) -> Rule:
        function = getattr(torch, functions[0]) if isinstance(functions[0], str) else functions[0]

        def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
            return compose(
                x,
                lambda u: function(u, *args, **kwargs),
                lambda u: derivatives(u, *args, **kwargs),
            )

        return rule(*functions)(applied)

    return register


def compose(x: Jet, g: Callable[[Tensor], Tensor], derivatives: Derivatives) -> Jet:
    """Return $g(x)$ for a smooth elementwise function.

    Args:
        x: The jet.
        g: The function.
        derivatives: Its derivatives.

    Returns:
        The composition.
    """
    truncation = x.truncation
    if x.factors is not None and truncation.order <= 2:
        return Jet(compose_common(*x.factors, truncation, g, derivatives), truncation)
    if x.degree == 0:
        return Jet(g(x.value)[None], truncation)
    if truncation.order <= 2:
        stacked: Tensor = _Composition.apply(x.coefficients, truncation, g, derivatives)  # type: ignore[no-untyped-call]
        return Jet(stacked, truncation)
    return _integrated(x, g, derivatives)


def _integrated(x: Jet, g: Callable[[Tensor], Tensor], derivatives: Derivatives) -> Jet:
    r"""Return $g(x)$ from $\dot y = g'(x) \dot x$, or $k y_k = \sum_j j x_j g'(x)_{k - j}$."""
    order = x.truncation.order
    shorter = Truncation(order - 1, propagation=x.truncation.propagation)
    outer = next(derivatives(Jet(x.coefficients[:order], shorter)))
    slope = outer.coefficients if isinstance(outer, Jet) else outer[None]
    u = x.coefficients
    terms = [g(u[0])]
    for k in range(1, order + 1):
        products = [
            j * u[j] * slope[k - j] for j in range(1, k + 1) if j < len(u) and k - j < len(slope)
        ]
        terms.append(sum(products, torch.zeros_like(terms[0])) / k)
    return Jet(torch.stack(terms), x.truncation)


class _Composition(torch.autograd.Function):
    """The coefficients of $g(u)$ up to degree two, with a backward pass in closed form.

    It saves only `u`, where autograd would save every intermediate result.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        u: Tensor,
        truncation: Truncation,
        g: Callable[[Tensor], Tensor],
        derivatives: Derivatives,
    ) -> Tensor:
        ctx.save_for_backward(u)
        ctx.truncation, ctx.derivatives = truncation, derivatives  # type: ignore[attr-defined]
        y = empty_rows(u, truncation.rows(truncation.order))
        y[0] = g(u[0])
        first, *second = islice(derivatives(u[0]), truncation.order)
        torch.mul(u[1:], first, out=y[1 : len(u)])
        if truncation.order == 2:
            squares = sum_products(u[truncation.block(1)], u[truncation.block(1)])
            if len(u) == len(y):
                y[-1].addcmul_(second[0], squares, value=0.5)
            else:
                torch.mul(second[0], squares, out=y[-1]).mul_(0.5)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Return the gradient with respect to `u`, given $\bar y$, the gradient of the result.

        $$\bar u_0 = g' \bar y_0 + g'' \sum_{k>0} u_k \bar y_k
                     + \tfrac12 g''' \sum_i u_{1i}² \bar y_2, \quad
          \bar u_{1i} = g' \bar y_{1i} + g'' u_{1i} \bar y_2, \quad \bar u_2 = g' \bar y_2$$
        """
        (u,) = ctx.saved_tensors
        rows, slopes = len(u), ctx.truncation.block(1)
        first, second, *third = islice(ctx.derivatives(u[0]), ctx.truncation.order + 1)
        result = grad[:rows] * first
        result[0].addcmul_(second, sum_products(u[1:], grad[1:rows]))
        if ctx.truncation.order == 2:
            result[slopes].addcmul_(u[slopes], second * grad[-1])
            squares = sum_products(u[slopes], u[slopes])
            result[0].addcmul_(squares.mul_(third[0]), grad[-1], value=0.5)
        return result, None, None, None
