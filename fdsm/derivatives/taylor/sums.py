"""Rules of sums; a constant is added to the value alone."""

from typing import Any

import torch
from torch import Tensor

from .jet import Jet, rule
from .products import Number, Operand, beside_operand, lifted


class _Shift(torch.autograd.Function):
    """A constant added to the first rows of a tensor: those that hold values.

    In place if the tensor is `fresh`, so that nobody else has seen it.
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
    """Return what a linear function has just made of coefficients, with a constant added.

    Args:
        c: The coefficients, which are changed in place.
        b: What to add to the values.
        rows: How many of the first rows are values.

    Returns:
        The coefficients.
    """
    result: Tensor = _Shift.apply(c, b.to(c.dtype) if isinstance(b, Tensor) else b, rows, True)  # type: ignore[no-untyped-call]
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
    return _sum(beside_operand(input, other), beside_operand(other, input), alpha)


def _plus(x: Jet, constant: Operand, fresh: bool = False) -> Jet:
    """Return a jet plus a constant, in place if the coefficients are `fresh`."""
    x = beside_operand(x, constant)
    if isinstance(constant, Tensor) and not _fits(constant, x):
        return _sum(x, lifted(constant, x), 1)
    return Jet(_Shift.apply(x.coefficients, constant, 1, fresh), x.truncation)  # type: ignore[no-untyped-call]


def _fits(constant: Tensor, x: Jet) -> bool:
    """Return whether a constant of no more dimensions can be added without changing the shape."""
    sizes = zip(reversed(constant.shape), reversed(x.shape), strict=False)
    return all(n in {1, m} for n, m in sizes)


def _sum(a: Jet, b: Jet, alpha: Number) -> Jet:
    """Return $a + α b$ for jets of as many dimensions."""
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
