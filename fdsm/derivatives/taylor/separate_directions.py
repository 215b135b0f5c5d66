r"""Series along several directions that share their value, each of an order of its own.

$$a = a_0 + \sum_i \sum_{k=1}^{K_i} a_{ki} t_i^k, \qquad t_i t_j = 0 \; (i ≠ j)$$

The orders $K_i$ do not increase, so the $n_k$ directions that have a coefficient of degree $k$ are
the first ones. Coefficients are stacked by degree: $1 + n_1 + n_2 + …$ of them, where a series for
each direction would repeat the value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from .jet import Jet
from .series import ClosedForm, Propagation, Truncation, empty_product


def blocks(c: Tensor, truncation: Truncation) -> list[Tensor]:
    """Return coefficients by degree, up to the degree of the series."""
    degree = truncation.degree(c.shape[0])
    return [c[truncation.block(k)] for k in range(degree + 1)]


def multiply(a: Tensor, b: Tensor, truncation: Truncation) -> Tensor:
    """Return the coefficients of an elementwise product of two series."""
    degree = truncation.degree(len(a)) + truncation.degree(len(b))
    y = empty_product(a, b, truncation.rows(min(truncation.order, degree)))
    torch.mul(a[0], b, out=y[: len(b)])
    y[len(b) :].zero_()
    y[1 : len(a)].addcmul_(a[1:], b[0])
    for degree, left, right in _mixed(blocks(a, truncation), blocks(b, truncation), truncation):
        y[truncation.block(degree)].addcmul_(left, right)
    return y


def gradient_of_factor(grad: Tensor, b: Tensor, rows: int, truncation: Truncation) -> Tensor:
    r"""Return the gradient of $y = a b$ with respect to $a$, in the shape of the product.

    $$\bar a_0 = \sum_k \sum_i b_{ki} \bar y_{ki}, \qquad
      \bar a_{ji} = \sum_{k ≥ j} b_{k-j,i} \bar y_{ki}$$

    Args:
        grad: The gradient with respect to the product, $\bar y$.
        b: The coefficients of the other factor.
        rows: The number of coefficients of the factor.
        truncation: Which coefficients there are.

    Returns:
        The gradient.
    """
    result = grad[:rows] * b[0]
    for left, right in zip(grad[1:], b[1:], strict=False):
        result[0].addcmul_(left, right)
    bars, factors = blocks(result, truncation), blocks(b, truncation)
    for k, bar in enumerate(blocks(grad, truncation)):
        for j in range(max(1, k - len(factors) + 1), min(k, len(bars))):
            bars[j][: len(bar)].addcmul_(factors[k - j][: len(bar)], bar)
    return result


def mixed_products(
    multiplied: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, truncation: Truncation
) -> Iterator[tuple[int, Tensor]]:
    """Yield degrees and the coefficients of a product from factors of positive degree."""
    for degree, left, right in _mixed(blocks(a, truncation), blocks(b, truncation), truncation):
        yield degree, multiplied(left, right)


def compose(
    x: Jet,
    expansion: Callable[[Tensor, int], Sequence[Tensor]],
    slope: Callable[[Jet], Tensor],
    scale: Tensor | None,
) -> Jet:
    r"""Return $g(x)$ for a smooth elementwise function.

    Args:
        x: The jet.
        expansion: Returns the coefficients of $g(x_0 + λ t)$ up to an order, given $x_0$.
        slope: $g'$, computed by functions that have rules, for gradients of gradients.
        scale: The scale $λ$. Default: one.

    Returns:
        The composition.
    """
    u, slopes = x.factors or (x.coefficients, None)
    stacked: Tensor = _Composition.apply(u, slopes, x.truncation, expansion, slope, scale)
    return Jet(stacked, x.truncation)


class _Composition(ClosedForm):
    r"""The coefficients of $y = g(u)$. Because $dy = w du$ with $w = g'(u)$, it saves $w$."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        slopes: Tensor | None,
        truncation: Truncation,
        expansion: Callable[[Tensor, int], Sequence[Tensor]],
        slope: Callable[[Jet], Tensor],
        scale: Tensor | None,
    ) -> Tensor:
        """Return the coefficients, given those of `u`, or its value and slopes for all rows."""
        needed = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        keeping = truncation.propagation.keeping and needed
        value, rest = (u[0], u[1:]) if slopes is None else (u, slopes[:, None])
        terms = expansion(value, max(truncation.orders) + keeping)
        slopes_of = terms[1:] if keeping else None
        if scale is not None:
            rest = rest / scale
            slopes_of = slopes_of and [term / scale for term in slopes_of]
        y, w = _expand(terms, slopes_of, rest, truncation)
        ctx.save_for_backward(u, slopes, w)
        ctx.truncation, ctx.slope = truncation, slope
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, slopes, w = ctx.saved_tensors
        truncation = replace(ctx.truncation, propagation=Propagation())
        rows = len(u) if slopes is None else 1 + len(slopes)
        if torch.is_grad_enabled():  # the gradient is differentiated again: `w` depends on `u`
            whole = (
                u if slopes is None else torch.cat([u[None], slopes[:, None].expand(-1, *u.shape)])
            )
            first = ctx.slope(Jet(whole, truncation))
            w = first.coefficients if isinstance(first, Jet) else first[None]
        bar = gradient_of_factor(grad, w, rows, truncation)
        if slopes is None:
            return bar, None, None, None, None, None
        return bar[0], bar[1:].sum(1), None, None, None, None


def _expand(
    terms: Sequence[Tensor], others: Sequence[Tensor] | None, rest: Tensor, truncation: Truncation
) -> tuple[Tensor, Tensor | None]:
    r"""Return $\sum_k g_k n^k$ and $\sum_k (k + 1) h_k n^k$ for a series $n$ without a value.

    Args:
        terms: The factors $g_0, g_1, …$.
        others: The factors $h_0, h_1, …$.
        rest: The coefficients of $n$, which broadcast against the factors.
        truncation: Which coefficients there are.

    Returns:
        The coefficients of both sums.
    """
    rows, shape = truncation.rows(truncation.order), terms[0].shape
    y = terms[0].new_empty(rows, *shape)
    sums = [(y, terms, 0)]
    if others is not None:
        sums.append((torch.empty_like(y), [others[0], 2 * others[1], *others[2:]], 1))
    for total, factors, _ in sums:
        total[0] = factors[0]
        torch.mul(rest, factors[1], out=total[1 : 1 + len(rest)])
        total[1 + len(rest) :].zero_()
    degree = truncation.degree(1 + len(rest))
    spans = (truncation.block(k) for k in range(1, degree + 1))
    n = {k: rest[block.start - 1 : block.stop - 1] for k, block in enumerate(spans, 1)}
    power = n
    for k in range(2, max(truncation.orders) + 1):
        power = _times(power, n, truncation)
        for degree, part in power.items():
            for total, factors, growth in sums:
                block = total[truncation.block(degree)]
                block.addcmul_(part, factors[k], value=1 + growth * k)
    return y, sums[1][0] if others is not None else None


def _times(
    a: Mapping[int, Tensor], b: Mapping[int, Tensor], truncation: Truncation
) -> dict[int, Tensor]:
    """Return the product of two series without values, by degree."""
    result: dict[int, Tensor] = {}
    for (i, left), (j, right) in product(a.items(), b.items()):
        count = truncation.count(i + j)
        if count and i + j in result:
            result[i + j] = torch.addcmul(result[i + j], left[:count], right[:count])
        elif count:
            result[i + j] = left[:count] * right[:count]
    return result


def _mixed(
    a: list[Tensor], b: list[Tensor], truncation: Truncation
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield degrees and pairs of factors of positive degrees, of the directions that have them."""
    for i, left in enumerate(a[1:], 1):
        for j, right in enumerate(b[1 : truncation.order + 1 - i], 1):
            count = truncation.count(i + j)
            if count:
                yield i + j, left[:count], right[:count]
