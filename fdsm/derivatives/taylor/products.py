"""Rules of products, quotients and powers of each element."""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from .composition import rows_like
from .elementwise import power
from .jet import Jet, rule
from .truncation import Truncation

Number = float | int
Operand = Tensor | Number


def bilinear(product: Callable[[Tensor, Tensor], Tensor], a: Jet, b: Jet) -> Jet:
    r"""Return the series of a product, $y_k = \sum_{i + j = k} a_i b_j$.

    Args:
        product: Linear in each argument; either or both may have one more dimension before the
            others, over which to repeat it.
        a: The first factor.
        b: The second factor.

    Returns:
        The product.
    """
    truncation = a.truncation
    if b.degree == 0:
        return Jet(product(a.coefficients, b.value), truncation)
    if a.degree == 0:
        return Jet(product(a.value, b.coefficients), truncation)
    top = min(truncation.order, a.degree + b.degree)
    whole = product(a.coefficients, b.value)
    terms = {k: [whole[truncation.block(k)]] for k in range(a.degree + 1)}
    rest = product(a.value, b.coefficients[1:])
    for k in range(1, b.degree + 1):
        block = truncation.block(k)
        terms.setdefault(k, []).append(rest[block.start - 1 : block.stop - 1])
    for i in range(1, a.degree + 1):
        for j in range(1, min(b.degree, top - i) + 1):
            term = product(a.part(i), b.part(j))
            term = term if len(term) == 1 else term.sum(0, keepdim=True)
            terms.setdefault(i + j, []).append(term)
    return Jet(torch.cat([reduce(torch.add, terms[k]) for k in range(top + 1)]), truncation)


def aligned(x: Jet, ndim: int) -> Jet:
    """Return a jet with ones before its shape, so that it has at least `ndim` dimensions."""
    if x.ndim >= ndim:
        return x
    c = x.coefficients
    return Jet(c.reshape(len(c), *[1] * (ndim - x.ndim), *c.shape[1:]), x.truncation)


def lifted(x: Operand, like: Jet) -> Jet:
    """Return a jet as it is, and a constant as a jet of degree zero."""
    if isinstance(x, Jet):
        return x
    constant = x if isinstance(x, Tensor) else torch.tensor(x, dtype=like.dtype)
    return Jet(constant.to(like.device)[None], like.truncation)


def beside_operand(x: Jet, other: Operand) -> Jet:
    """Return a jet with the type of a product with another operand, and with its dimensions."""
    if not isinstance(other, Tensor):
        return x
    if x.dtype != other.dtype:
        dtype = torch.result_type(x.value, value_of(other))
        x = Jet(x.coefficients.to(dtype), x.truncation)
    return aligned(x, other.ndim)


@rule("mul", "multiply")
def mul(input: Operand, other: Operand) -> Tensor:
    """Return $a b$."""
    if not isinstance(input, Jet):
        input, other = other, input
    assert isinstance(input, Jet)
    if not isinstance(other, Jet):
        return Jet(beside_operand(input, other).coefficients * other, input.truncation)
    a, b = beside_operand(input, other), beside_operand(other, input)
    if a.truncation.order > 2 or a.degree == 0 or b.degree == 0:
        return bilinear(torch.mul, a, b)
    return Jet(_Product.apply(a.coefficients, b.coefficients, a.truncation), a.truncation)  # type: ignore[no-untyped-call]


class _Product(torch.autograd.Function):
    """The coefficients of a product of elements up to degree two, in as few passes as can be."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, truncation: Truncation) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.truncation = truncation
        shape = torch.broadcast_shapes(a.shape[1:], b.shape[1:])  # type: ignore[no-untyped-call]
        rows = truncation.rows(truncation.order)
        y = rows_like(a, rows) if a.shape[1:] == shape else a.new_empty(rows, *shape)
        torch.mul(a, b[0], out=y[: len(a)])
        y[len(a) :].zero_()
        y[1 : len(b)].addcmul_(a[0], b[1:])
        if truncation.order == 2:
            slopes = truncation.block(1)
            for left, right in zip(a[slopes], b[slopes], strict=True):
                y[-1].addcmul_(left, right)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Return $\bar a_0 = \sum_k b_k \bar y_k$, $\bar a_1 = b_0 \bar y_1 + b_1 \bar y_2$ …."""
        a, b = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            _other_factor(grad, b, a.shape, ctx.truncation) if wanted[0] else None,
            _other_factor(grad, a, b.shape, ctx.truncation) if wanted[1] else None,
            None,
        )


def _other_factor(grad: Tensor, b: Tensor, shape: torch.Size, truncation: Truncation) -> Tensor:
    """Return the gradient of one factor, of some shape, given the other."""
    result = grad[: shape[0]] * b[0]
    for slope, part in zip(grad[1:], b[1:], strict=False):
        result[0].addcmul_(slope, part)
    if truncation.order == 2:
        slopes = truncation.block(1)
        result[slopes].addcmul_(grad[-1], b[slopes])
    return result.sum_to_size(shape)


@rule("neg", "negative")
def neg(x: Jet) -> Tensor:
    """Return $-x$."""
    return Jet(-x.coefficients, x.truncation)


@rule("div", "divide", "true_divide")
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return $a / b$; a quotient that is rounded has no derivatives."""
    if rounding_mode is not None:
        return torch.div(value_of(input), value_of(other), rounding_mode=rounding_mode).detach()
    if isinstance(other, Jet):
        return mul(input, other.reciprocal())
    assert isinstance(input, Jet)
    return Jet(beside_operand(input, other).coefficients / other, input.truncation)


def value_of(x: Any) -> Any:
    """Return the value of a jet, and anything else as it is."""
    return x.value if isinstance(x, Jet) else x


@rule(Tensor.__rdiv__)
def rdiv(x: Tensor, other: Operand) -> Tensor:
    """Return $a / x$, which is how torch divides numbers by tensors."""
    return other * x.reciprocal()


@rule("pow", Tensor.__pow__)
def pow_(input: Operand, exponent: Operand) -> Tensor:
    r"""Return $a^b$; if both depend on the input, $e^{b \log a}$."""
    if isinstance(input, Jet) and input.degree == 0 and isinstance(exponent, Jet):
        input = input.value
    elif isinstance(exponent, Jet) and exponent.degree == 0:
        exponent = exponent.value
    if isinstance(input, Jet) and isinstance(exponent, Jet):
        return (exponent * input.log()).exp()
    if isinstance(input, Jet):
        if not isinstance(exponent, Tensor):
            return power(input, exponent)
        x = beside_operand(input, exponent)
        return _expanded(x, _powers(x.value, exponent.to(x.dtype)))
    assert isinstance(exponent, Jet)
    x = beside_operand(exponent, input)
    base = lifted(input, x).value.to(x.dtype)
    return _expanded(x, _exponentials(base, x.value))


@rule("float_power")
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """Return $a^b$ in double precision."""
    both = (x.double() if isinstance(x, Tensor) else x for x in (input, exponent))
    return pow_(*both)


def _powers(x: Tensor, p: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $x^p$ divided by $k!$, zero where $x$ and $p (p - 1) …$ are."""
    factor, k = torch.ones_like(p, dtype=x.dtype), 0
    while True:
        vanishes = (factor == 0) & (x == 0)
        safe = torch.where(vanishes, 1.0, x)
        yield torch.where(vanishes, 0.0, factor * safe ** (p - k))
        factor, k = factor * (p - k) / (k + 1), k + 1


def _exponentials(base: Tensor, x: Tensor) -> Iterator[Tensor]:
    """Yield the derivatives of $b^x$ divided by $k!$, zero where $b$ is."""
    term, k = base**x, 0
    logarithm = torch.where(base == 0, 1.0, base).log()
    while True:
        yield term
        k += 1
        term = term * (logarithm / k)


def _expanded(x: Jet, derivatives: Iterator[Tensor]) -> Tensor:
    r"""Return $\sum_k g_k (x - x_0)^k$, in which autograd sees what $g_k$ depend on."""
    value, *values = islice(derivatives, x.truncation.order + 1)
    rest = x - x.value
    result: Tensor = lifted(values.pop(), x)
    while values:
        result = result * rest + values.pop()
    product = mul(result, rest)
    assert isinstance(product, Jet)
    coefficients = product.coefficients
    return Jet(torch.cat([value[None], coefficients[1:]]), x.truncation)
