"""Sums, products, quotients and powers. A constant is added to the value alone."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from .. import fourth_order, separate_directions
from ..algebra import Number, Operand, as_jet, bilinear, match_operand, value_of, without_value
from ..jet import Jet
from ..registry import rule
from ..series import ClosedForm, Truncation, convolve, correlate, empty_product
from .elementwise import power


class _Shift(ClosedForm):
    """Add a constant to the first rows of a tensor, the rows that hold values.

    This happens in place if the tensor is `fresh`: just computed and not yet used elsewhere.
    """

    @staticmethod
    def forward(ctx: Any, c: Tensor, b: Tensor | Number, rows: int, fresh: bool) -> Tensor:
        ctx.rows, ctx.shape = rows, b.shape if isinstance(b, Tensor) else None
        if fresh:
            ctx.mark_dirty(c)
            c[:rows].add_(b)
            return c
        y = torch.empty_like(c)
        torch.add(c[:rows], b, out=y[:rows])
        y[rows:] = c[rows:]
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.shape is not None and ctx.needs_input_grad[1]
        return grad, grad[: ctx.rows].sum_to_size(ctx.shape) if wanted else None, None, None


def shifted(c: Tensor, b: Tensor | Number, rows: int = 1) -> Tensor:
    """Add a constant to coefficients that a linear function has just computed, in place.

    Args:
        c: The coefficients.
        b: The constant, which is added to the values.
        rows: The number of leading rows that hold values.

    Returns:
        The coefficients.
    """
    result: Tensor = _Shift.apply(c, b.to(c.dtype) if isinstance(b, Tensor) else b, rows, True)
    return result


@rule("add")
def add(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a + α b$."""
    if not isinstance(input, Jet):
        assert isinstance(other, Jet)
        if alpha == 1:
            return _plus(other, input)
        return _plus(Jet(alpha * other.coefficients, other.truncation), input, fresh=True)
    if not isinstance(other, Jet):
        return _plus(input, other if alpha == 1 else alpha * other)
    return _sum(match_operand(input, other), match_operand(other, input), alpha)


def _plus(x: Jet, constant: Operand, fresh: bool = False) -> Jet:
    """Return a jet plus a constant, computed in place if the coefficients are `fresh`."""
    x = match_operand(x, constant)
    if isinstance(constant, Tensor) and not _fits(constant, x):
        return _sum(x, as_jet(constant, x), 1)
    return Jet(_Shift.apply(x.coefficients, constant, 1, fresh), x.truncation)


def _fits(constant: Tensor, x: Jet) -> bool:
    """Return whether adding a constant of at most as many dimensions keeps the shape of a jet."""
    sizes = zip(reversed(constant.shape), reversed(x.shape), strict=False)
    return all(n in {1, m} for n, m in sizes)


def _sum(a: Jet, b: Jet, alpha: Number) -> Jet:
    """Return $a + α b$ for jets with the same number of dimensions."""
    x, y = a.coefficients, b.coefficients
    if len(x) == len(y):
        return Jet(torch.add(x, y, alpha=alpha), a.truncation)
    rows = min(len(x), len(y))
    both = torch.add(x[:rows], y[:rows], alpha=alpha)
    alone = x[rows:] if rows < len(x) else alpha * y[rows:]
    alone = alone.to(both.dtype).expand(-1, *both.shape[1:])
    return Jet(torch.cat([both, alone]), a.truncation)


@rule("sub", "subtract")
def sub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a - α b$."""
    return add(input, other, alpha=-alpha)


@rule("rsub", Tensor.__rsub__)
def rsub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $b - α a$."""
    return sub(other, input, alpha=alpha)


@rule("positive")
def positive(input: Tensor) -> Tensor:
    """Return $x$ itself."""
    return input


@rule("mul", "multiply")
def mul(input: Operand, other: Operand) -> Tensor:
    """Return $a b$."""
    if not isinstance(input, Jet):
        input, other = other, input
    assert isinstance(input, Jet)
    if not isinstance(other, Jet):
        return Jet(match_operand(input, other).coefficients * other, input.truncation)
    a, b = match_operand(input, other), match_operand(other, input)
    if a.degree == 0 or b.degree == 0:
        return bilinear(torch.mul, a, b)
    return Jet(_Product.apply(a.coefficients, b.coefficients, a.truncation), a.truncation)


class _Product(ClosedForm):
    """The coefficients of an elementwise product, in few passes over memory."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, truncation: Truncation) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.truncation = truncation
        if truncation.keeps_pairs:
            return fourth_order.multiply(a, b, truncation)
        if truncation.orders:
            return separate_directions.multiply(a, b, truncation)
        rows = truncation.rows(truncation.order)
        if truncation.directions == 1:
            return convolve(a, b, rows)
        y = empty_product(a, b, rows)
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
            _gradient_of_factor(grad, b, a.shape, ctx.truncation) if wanted[0] else None,
            _gradient_of_factor(grad, a, b.shape, ctx.truncation) if wanted[1] else None,
            None,
        )


def _gradient_of_factor(
    grad: Tensor, b: Tensor, shape: torch.Size, truncation: Truncation
) -> Tensor:
    """Return the gradient with respect to one factor, of a given shape, from the other factor."""
    if truncation.keeps_pairs:
        return fourth_order.gradient_of_factor(grad, b, shape[0], truncation).sum_to_size(shape)
    if truncation.orders:
        bar = separate_directions.gradient_of_factor(grad, b, shape[0], truncation)
        return bar.sum_to_size(shape)
    if truncation.directions == 1:
        return correlate(grad, b, shape[0]).sum_to_size(shape)
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
    """Return $a / b$. A rounded quotient has no derivatives."""
    if rounding_mode is not None:
        return torch.div(value_of(input), value_of(other), rounding_mode=rounding_mode).detach()
    if isinstance(other, Jet):
        return mul(input, other.reciprocal())
    assert isinstance(input, Jet)
    return Jet(match_operand(input, other).coefficients / other, input.truncation)


@rule(Tensor.__rdiv__)
def rdiv(x: Tensor, other: Operand) -> Tensor:
    """Return $a / x$, which torch calls to divide a number by a tensor."""
    return other * x.reciprocal()


@rule("pow", Tensor.__pow__)
def pow_(input: Operand, exponent: Operand) -> Tensor:
    r"""Return $a^b$, computed as $e^{b \log a}$ if both depend on the input."""
    if isinstance(input, Jet) and input.degree == 0 and isinstance(exponent, Jet):
        input = input.value
    elif isinstance(exponent, Jet) and exponent.degree == 0:
        exponent = exponent.value
    if isinstance(input, Jet) and isinstance(exponent, Jet):
        return (exponent * input.log()).exp()
    if isinstance(input, Jet):
        if not isinstance(exponent, Tensor):
            return power(input, exponent)
        x = match_operand(input, exponent)
        return _expanded(x, _powers(x.value, exponent.to(x.dtype)))
    assert isinstance(exponent, Jet)
    x = match_operand(exponent, input)
    base = as_jet(input, x).value.to(x.dtype)
    return _expanded(x, _exponentials(base, x.value))


@rule(Tensor.__rpow__)
def rpow(x: Jet, base: Operand) -> Tensor:
    """Return $a^x$."""
    return torch.pow(base, x)


@rule("float_power")
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """Return $a^b$ in double precision."""
    both = (x.double() if isinstance(x, Tensor) else x for x in (input, exponent))
    return pow_(*both)


def _powers(x: Tensor, p: Tensor) -> Iterator[Tensor]:
    """Yield $(x^p)^{(k)} / k!$, with zero where both $x$ and $p (p - 1) …$ are zero."""
    factor, k = torch.ones_like(p, dtype=x.dtype), 0
    while True:
        vanishes = (factor == 0) & (x == 0)
        safe = torch.where(vanishes, 1.0, x)
        yield torch.where(vanishes, 0.0, factor * safe ** (p - k))
        factor, k = factor * (p - k) / (k + 1), k + 1


def _exponentials(base: Tensor, x: Tensor) -> Iterator[Tensor]:
    """Yield $(b^x)^{(k)} / k!$, with zero where $b$ is zero."""
    term, k = base**x, 0
    logarithm = torch.where(base == 0, 1.0, base).log()
    while True:
        yield term
        k += 1
        term = term * (logarithm / k)


def _expanded(x: Jet, derivatives: Iterator[Tensor]) -> Tensor:
    r"""Return $\sum_k g_k (x - x_0)^k$, so that autograd differentiates $g_k$ too."""
    value, *values = islice(derivatives, x.truncation.order + 1)
    rest = without_value(x)
    result: Tensor = as_jet(values.pop(), x)
    while values:
        result = result * rest + as_jet(values.pop(), x)
    product = mul(result, rest)
    assert isinstance(product, Jet)
    coefficients = product.coefficients
    return Jet(torch.cat([value[None], coefficients[1:]]), x.truncation)


@rule("remainder")
def remainder(a: Operand, b: Operand) -> Tensor:
    r"""Return $a - b \lfloor a / b \rfloor$."""
    return a - b * _quotient(a, b).floor()


@rule(Tensor.__rmod__)
def rmod(b: Operand, a: Operand) -> Tensor:
    r"""Return $a - b \lfloor a / b \rfloor$ for the reflected operator."""
    return remainder(a, b)


@rule("fmod")
def fmod(a: Operand, b: Operand) -> Tensor:
    r"""Return $a - b t$, where $t$ is $a / b$ rounded toward zero."""
    return a - b * _quotient(a, b).trunc()


def _quotient(a: Operand, b: Operand) -> Tensor:
    """Return the value of $a / b$ as a constant."""
    return torch.as_tensor(value_of(a) / value_of(b)).detach()


@rule("addcmul")
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Return $x + c a b$."""
    return input + value * (tensor1 * tensor2)


@rule("addcdiv")
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Return $x + c a / b$."""
    return input + value * (tensor1 / tensor2)


@rule("lerp")
def lerp(input: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Return $a + w (b - a)$."""
    return input + weight * (end - input)
