r"""Series of order four along several directions, which end with the biharmonic operator.

The symbols $t_i$ of the directions commute, and products of four of them are multiples of one
symbol $w$,

$$t_i t_j t_k t_l = (δ_{ij} δ_{kl} + δ_{ik} δ_{jl} + δ_{il} δ_{jk}) w,$$

so that $f(x + \sum_i v_i t_i)$ ends with $\tfrac18 w \sum_{ij} (v_i^T∇)² (v_j^T∇)² f(x)$. Terms
that make no difference to it, whatever they are multiplied by, are not kept. What is left has the
symbols $1$, $t_i$, $e_{ij}$ with $i ≤ j$, $c_i$ and $w$: $V$ of degree one, $V(V + 1)/2$ of
degree two, $V$ of degree three and one of degree four. They are chosen orthonormal,
$t_i c_j = δ_{ij} w$ and $e_{ij} e_{kl} = δ_{ik} δ_{jl} w$, with

$$t_i t_j = e_{ij} \; (i ≠ j), \qquad t_i² = \sqrt2 \, e_{ii} + α \sum_k e_{kk}, \qquad
  α = (\sqrt{V + 2} - \sqrt2) / V.$$

The gradient of a product is then a product: if $y = a b$, the coefficients of $\bar a$ in reverse
order of degrees are those of $b$ times $\bar y$ in reverse order.

Reference:
    Iarrobino and Kanev (1999), Power sums, Gorenstein algebras, and determinantal loci, for the
    algebra of a form, here $(\sum_i t_i²)²$.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .jet import Jet
from .series import ClosedForm, Truncation, empty_product, empty_rows, sum_products

Blocks = Sequence[Tensor | None]
"""The coefficients of degrees 0, …, 4; `None` where they are zero, or not wanted."""
Expansion = Callable[[Tensor, int], Tensor]
r"""Takes $x$ and $λ$, stacked, and an order. Returns the coefficients of $g(x + λ t)$."""


def blocks(c: Tensor, truncation: Truncation) -> list[Tensor | None]:
    """Return coefficients by degree."""
    degree = truncation.degree(c.shape[0])
    return [c[truncation.block(k)] if k <= degree else None for k in range(5)]


def multiply(a: Tensor, b: Tensor, truncation: Truncation) -> Tensor:
    """Return the coefficients of an elementwise product of two series."""
    degree = min(4, truncation.degree(len(a)) + truncation.degree(len(b)))
    y = empty_product(a, b, truncation.rows(degree))
    torch.mul(a[0], b, out=y[: len(b)])
    y[len(b) :].zero_()
    _add_products(blocks(a, truncation), blocks(b, truncation), blocks(y, truncation))
    return y


def gradient_of_factor(grad: Tensor, b: Tensor, rows: int, truncation: Truncation) -> Tensor:
    r"""Return the gradient $\bar a$ of $y = a b$, in the shape of the product.

    Args:
        grad: The gradient with respect to the product, $\bar y$.
        b: The coefficients of the other factor.
        rows: The number of coefficients of the factor.
        truncation: Which coefficients there are.

    Returns:
        The gradient.
    """
    missing = truncation.rows(4) - grad.shape[0]
    if missing:
        grad = torch.cat([grad, grad.new_zeros(missing, *grad.shape[1:])])
    result = grad[:rows] * b[0]
    reverse = [blocks(c, truncation)[::-1] for c in (grad, result)]
    _add_products(blocks(b, truncation), *reverse)
    return result


def _add_products(a: Blocks, b: Blocks, out: Blocks) -> None:
    """Add to `out` the coefficients of $(a - a_0) b$."""
    for target, x, y in _present(*((out[k], a[k], b[0]) for k in range(1, 5))):
        target.addcmul_(x, y)
    for target, x, y in _present((out[2], a[1], b[1])):
        _add_pairs(target, x, y)
    for target, x, y in _present((out[3], a[2], b[1]), (out[3], b[2], a[1])):
        _add_contraction(target, x, y)
    for target, x, y in _present(*((out[4], a[k], b[4 - k]) for k in (1, 2, 3))):
        for left, right in zip(x.unbind(), y.unbind(), strict=True):
            target[0].addcmul_(left, right)


def _present(*terms: Blocks) -> Iterator[list[Tensor]]:
    """Yield the terms that are not zero."""
    for term in terms:
        present = [x for x in term if x is not None]
        if len(present) == len(term):
            yield present


def _off_diagonals(second: Tensor, directions: int) -> Iterator[tuple[int, Tensor]]:
    """Yield $k$ and the coefficients of all $e_{i,i+k}$, which follow those of $e_{ii}$."""
    start = directions
    for k in range(1, directions):
        stop = start + directions - k
        yield k, second[start:stop]
        start = stop


def _weight(directions: int) -> float:
    """Return $α$."""
    return (math.sqrt(directions + 2) - math.sqrt(2)) / directions


def _add_pairs(out: Tensor, a: Tensor, b: Tensor) -> None:
    r"""Add the coefficients of $(\sum_i a_i t_i)(\sum_j b_j t_j)$."""
    v = len(a)
    diagonal = out[:v]
    diagonal.addcmul_(a, b, value=math.sqrt(2))
    diagonal.add_(sum_products(a, b), alpha=_weight(v))
    for k, pairs in _off_diagonals(out, v):
        pairs.addcmul_(a[:-k], b[k:])
        pairs.addcmul_(a[k:], b[:-k])


def _add_contraction(out: Tensor, second: Tensor, slopes: Tensor) -> None:
    r"""Add the coefficients of $\sum_i s_i t_i$ times a series of degree two."""
    v = len(slopes)
    diagonal = second[:v]
    out.addcmul_(diagonal, slopes, value=math.sqrt(2))
    out.addcmul_(diagonal.sum(0), slopes, value=_weight(v))
    for k, pairs in _off_diagonals(second, v):
        out[:-k].addcmul_(pairs, slopes[k:])
        out[k:].addcmul_(pairs, slopes[:-k])


def mixed_products(
    product: Callable[[Tensor, Tensor], Tensor], a: Blocks, b: Blocks
) -> Iterator[tuple[int, Tensor]]:
    """Yield degrees and the coefficients of a product from factors of positive degree.

    Args:
        product: As for `bilinear`.
        a: The first factor.
        b: The second factor.

    Yields:
        The degree and its coefficients.
    """
    ((a1, b1),) = _present((a[1], b[1]))
    yield 2, _from_matrix(torch.stack([product(x, b1) for x in a1]))
    if b[2] is not None:
        for x, row in zip(a1, _matrix(b[2], len(a1)), strict=True):
            yield 3, product(x, row)
    if a[2] is not None:
        for row, y in zip(_matrix(a[2], len(a1)), b1, strict=True):
            yield 3, product(row, y)
    for x, y in _present((a1, b[3]), (a[2], b[2]), (a[3], b1)):
        yield 4, product(x, y).sum(0, keepdim=True)


def _from_matrix(m: Tensor) -> Tensor:
    r"""Return the coefficients of $\sum_{ij} m_{ij} t_i t_j$, given a tensor `(V, V, …)`."""
    diagonals = [m.diagonal(k).movedim(-1, 0) for k in range(1 - len(m), len(m))]
    below, (main, *above) = diagonals[len(m) - 2 :: -1], diagonals[len(m) - 1 :]
    main = math.sqrt(2) * main + _weight(len(m)) * main.sum(0)
    return torch.cat([main, *(x + y for x, y in zip(above, below, strict=True))])


def _matrix(second: Tensor, directions: int) -> Tensor:
    r"""Return $m$ with $t_i$ times a series of degree two $= \sum_j m_{ij} c_j$, `(V, V, …)`."""
    main = second[:directions]
    main = math.sqrt(2) * main + _weight(directions) * main.sum(0)
    index = torch.empty(directions, directions, dtype=torch.long, device=second.device)
    numbers = torch.arange(len(second), device=second.device)
    index.diagonal().copy_(numbers[:directions])
    for k, some in _off_diagonals(numbers, directions):
        index.diagonal(k).copy_(some)
        index.diagonal(-k).copy_(some)
    return torch.cat([main, second[directions:]])[index]


def compose(x: Jet, expansion: Expansion, slope: Callable[[Jet], Tensor], relative: bool) -> Jet:
    r"""Return $g(x)$ for a smooth elementwise function, from its expansion with $λ = 1$ or $x_0$.

    Args:
        x: The jet.
        expansion: The expansion of the function.
        slope: $g'$, computed by functions that have rules, for gradients of gradients.
        relative: Whether $λ$ is the value of `x`.

    Returns:
        The composition.
    """
    u, slopes = x.factors or (x.coefficients, None)
    stacked: Tensor = _Composition.apply(u, slopes, x.truncation, expansion, slope, relative)
    return Jet(stacked, x.truncation)


class _Composition(ClosedForm):
    r"""The coefficients of $y = g(u)$, with a backward pass in closed form that saves only `u`.

    Because $dy = g'(u) du$, the gradient is that of a product with the series of $g'(u)$.
    """

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        slopes: Tensor | None,
        truncation: Truncation,
        expansion: Expansion,
        slope: Callable[[Jet], Tensor],
        relative: bool,
    ) -> Tensor:
        """Return the coefficients, given those of `u`, or its value and slopes for all rows."""
        ctx.save_for_backward(u, slopes)
        ctx.truncation, ctx.expansion, ctx.slope = truncation, expansion, slope
        ctx.relative = relative
        value, rest = _parts(u, slopes)
        scale = _scale(value, relative)
        terms = expansion(torch.stack([value, scale]), 4)
        return _expand(terms, rest / scale if relative else rest, truncation)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, slopes = ctx.saved_tensors
        truncation = ctx.truncation
        value, rest = _parts(u, slopes)
        if torch.is_grad_enabled():  # the gradient is differentiated again: `w` depends on `u`
            whole = torch.cat([value[None], rest.expand(-1, *value.shape)])
            first = ctx.slope(Jet(whole, Truncation(4, truncation.directions)))
            w = first.coefficients if isinstance(first, Jet) else first[None]
        else:
            scale = _scale(value, ctx.relative)
            terms = ctx.expansion(torch.stack([value, scale]), 5)[1:]
            for k, term in enumerate(terms[1:], 2):
                term.mul_(k)
            if ctx.relative:
                terms, rest = terms / scale, rest / scale
            w = _expand(terms, rest, truncation)
        bar = gradient_of_factor(grad, w, 1 + len(rest), truncation)
        if slopes is None:
            return bar, None, None, None, None, None
        return bar[0], bar[1:].sum(1), None, None, None, None


def _parts(u: Tensor, slopes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the value of a series and its other coefficients, which broadcast against it."""
    return (u[0], u[1:]) if slopes is None else (u, slopes[:, None])


def _scale(value: Tensor, relative: bool) -> Tensor:
    """Return $λ$."""
    return torch.where(value == 0, 1, value) if relative else torch.ones_like(value)


def _expand(terms: Tensor, rest: Tensor, truncation: Truncation) -> Tensor:
    r"""Return $\sum_k g_k n^k$ for a series $n$ without a value.

    With $n = n_1 + n_2 + n_3 + n_4$ by degrees, $q = \sum_i n_{1i}²$ and $m = n_1 n_2$,

    $$y_1 = g_1 n_1, \quad y_2 = g_1 n_2 + g_2 n_1², \quad
      y_3 = g_1 n_3 + 2 g_2 m + 3 g_3 q n_1, \quad
      y_4 = g_1 n_4 + g_2 (2 n_1 n_3 + n_2²) + 3 g_3 n_1 m + 3 g_4 q².$$

    Args:
        terms: The factors $g_0, …, g_4$.
        rest: The coefficients of $n$, which broadcast against the factors.
        truncation: Which coefficients there are.

    Returns:
        The coefficients.
    """
    g0, g1, g2, g3, g4 = terms.unbind()
    y = empty_rows(terms, truncation.rows(4))
    given_rows = 1 + len(rest)
    y[0] = g0
    torch.mul(rest, g1, out=y[1:given_rows])
    y[given_rows:].zero_()
    _, _, y2, y3, y4 = (y[truncation.block(k)] for k in range(5))
    v = truncation.directions
    n1, n2, n3 = (
        rest[block.start - 1 : block.stop - 1] if block.stop <= given_rows else None
        for block in map(truncation.block, (1, 2, 3))
    )
    assert n1 is not None
    q = sum_products(n1, n1)
    scaled = n1 * g2
    y2[:v].addcmul_(scaled, n1, value=math.sqrt(2)).addcmul_(g2, q, value=_weight(v))
    for k, pairs in _off_diagonals(y2, v):
        pairs.addcmul_(scaled[:-k], n1[k:], value=2)
    y3.addcmul_(n1, g3 * q, value=3)
    y4.addcmul_(g4, q * q, value=3)
    if n2 is not None:
        m = torch.zeros_like(n1)
        _add_contraction(m, n2, n1)
        y3.addcmul_(m, g2, value=2)
        y4.addcmul_(g3, sum_products(n1, m), value=3)
        y4.addcmul_(g2, sum_products(n2, n2))
    if n3 is not None:
        y4.addcmul_(g2, sum_products(n1, n3), value=2)
    return y
