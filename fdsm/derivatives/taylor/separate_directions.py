r"""Series along several directions that share their value, each of an order of its own.

$$a = a_0 + \sum_i \sum_{k=1}^{K_i} a_{ki} t_i^k, \qquad t_i t_j = 0 \; (i ≠ j)$$

The orders $K_i$ do not increase, so the $n_k$ directions that have a coefficient of degree $k$ are
the first ones. Coefficients are stacked by degree: $1 + n_1 + n_2 + …$ of them, where a series for
each direction would repeat the value.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .series import Truncation, empty_product, empty_rows


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
    product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, truncation: Truncation
) -> Iterator[tuple[int, Tensor]]:
    """Yield degrees and the coefficients of a product from factors of positive degree."""
    for degree, left, right in _mixed(blocks(a, truncation), blocks(b, truncation), truncation):
        yield degree, product(left, right)


def expand(terms: Tensor, rest: Tensor, truncation: Truncation) -> Tensor:
    r"""Return $\sum_k g_k n^k$ for a series $n$ without a value.

    Args:
        terms: The factors $g_0, g_1, …$.
        rest: The coefficients of $n$, which broadcast against the factors.
        truncation: Which coefficients there are.

    Returns:
        The coefficients.
    """
    y = empty_rows(terms, truncation.rows(truncation.order))
    y[0] = terms[0]
    torch.mul(rest, terms[1], out=y[1 : 1 + len(rest)])
    y[1 + len(rest) :].zero_()
    n = blocks(torch.cat([torch.zeros_like(rest[:1]), rest]), truncation)
    power = dict(enumerate(n[1:], 1))
    for k, g in enumerate(terms[2:], 2):
        higher: dict[int, Tensor] = {}
        for i, left in power.items():
            for j in range(1, min(len(n), truncation.order + 1 - i)):
                count = truncation.count(i + j)
                term = left[:count] * n[j][:count]
                higher[i + j] = higher[i + j] + term if i + j in higher else term
        power = {degree: part for degree, part in higher.items() if degree >= k and len(part)}
        for degree, part in power.items():
            y[truncation.block(degree)].addcmul_(part, g)
    return y


def _mixed(
    a: list[Tensor], b: list[Tensor], truncation: Truncation
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield degrees and pairs of factors of positive degrees, of the directions that have them."""
    for i, left in enumerate(a[1:], 1):
        for j, right in enumerate(b[1 : truncation.order + 1 - i], 1):
            count = truncation.count(i + j)
            if count:
                yield i + j, left[:count], right[:count]
