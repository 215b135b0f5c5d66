"""Rules of sums, and of what is linear in each of two arguments."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .elementwise import power
from .jet import Jet, MissingRule, rule

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
    top = min(truncation.order, a.degree + b.degree)
    whole = product(a.coefficients, b.value)
    terms = {k: [whole[truncation.block(k)]] for k in range(a.degree + 1)}
    if b.degree:
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


@rule("mul", "multiply")
def mul(a: Operand, b: Operand) -> Tensor:
    """Return $a b$."""
    if not isinstance(a, Jet):
        a, b = b, a
    assert isinstance(a, Jet)
    if not isinstance(b, Jet):
        return Jet(aligned(a, _ndim(b)).coefficients * b, a.truncation)
    ndim = max(a.ndim, b.ndim)
    return bilinear(torch.mul, aligned(a, ndim), aligned(b, ndim))


def _ndim(x: Operand) -> int:
    return x.ndim if isinstance(x, Tensor) else 0


@rule("neg", "negative")
def neg(x: Jet) -> Tensor:
    """Return $-x$."""
    return Jet(-x.coefficients, x.truncation)


@rule("div", "divide", "true_divide")
def div(a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return $a / b$; a quotient that is rounded has no derivatives."""
    if rounding_mode is not None:
        return torch.div(value_of(a), value_of(b), rounding_mode=rounding_mode)
    if isinstance(b, Jet):
        return mul(a, b.reciprocal())
    assert isinstance(a, Jet)
    return Jet(aligned(a, _ndim(b)).coefficients / b, a.truncation)


def value_of(x: Any) -> Any:
    """Return the value of a jet, and anything else as it is."""
    return x.value if isinstance(x, Jet) else x


@rule(Tensor.__rdiv__)
def rdiv(x: Tensor, other: Operand) -> Tensor:
    """Return $a / x$, which is how torch divides numbers by tensors."""
    return other * x.reciprocal()


@rule("pow", "float_power")
def pow_(base: Operand, exponent: Operand) -> Tensor:
    r"""Return $a^b$; where the exponent is no number, $e^{b \log a}$."""
    if isinstance(base, Jet) and not isinstance(exponent, Tensor):
        return power(base, exponent)
    if isinstance(base, Jet):
        return (exponent * base.log()).exp()
    assert isinstance(exponent, Jet)
    logarithm = base.log() if isinstance(base, Tensor) else torch.tensor(float(base)).log().item()
    return (exponent * logarithm).exp()


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
def add(a: Operand, b: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a + α b$."""
    if alpha != 1:
        b = b * alpha
    if not isinstance(a, Jet):
        a, b = b, a
    assert isinstance(a, Jet)
    if isinstance(b, Jet):
        return _sum(a, b)
    c = a.coefficients
    if not isinstance(b, Tensor) or _fits(b, a):
        return Jet(_Shift.apply(c, b, 1, False), a.truncation)  # type: ignore[no-untyped-call]
    return _sum(a, lifted(b, a))


def _fits(constant: Tensor, x: Jet) -> bool:
    """Return whether a constant can be added to a jet without changing its shape or type."""
    shape = torch.broadcast_shapes(x.shape, constant.shape)  # type: ignore[no-untyped-call]
    return shape == x.shape and torch.result_type(x.coefficients, constant) == x.dtype


def _sum(a: Jet, b: Jet) -> Jet:
    ndim = max(a.ndim, b.ndim)
    short, long = sorted((aligned(a, ndim), aligned(b, ndim)), key=lambda jet: jet.degree)
    rows = len(short.coefficients)
    both = short.coefficients + long.coefficients[:rows]
    if rows < len(long.coefficients):
        alone = long.coefficients[rows:].to(both.dtype).expand(-1, *both.shape[1:])
        both = torch.cat([both, alone])
    return Jet(both, a.truncation)


@rule("sub", "subtract")
def sub(a: Operand, b: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a - α b$."""
    return add(a, b, alpha=-alpha)


@rule("rsub", Tensor.__rsub__)
def rsub(a: Operand, b: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $b - α a$."""
    return sub(b, a, alpha=alpha)


@rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices or vectors."""
    if isinstance(a, Jet) and not isinstance(b, Jet) and a.ndim > 1 and b.ndim <= 2:
        return Jet(a.coefficients @ b, a.truncation)
    like = a if isinstance(a, Jet) else b
    assert isinstance(like, Jet)
    x = lifted(a.unsqueeze(0) if a.ndim == 1 else a, like)
    y = lifted(b.unsqueeze(-1) if b.ndim == 1 else b, like)
    ndim = max(x.ndim, y.ndim)
    result: Tensor = bilinear(torch.matmul, aligned(x, ndim), aligned(y, ndim))
    result = result.squeeze(-1) if b.ndim == 1 else result
    return result.squeeze(-2 if b.ndim > 1 else -1) if a.ndim == 1 else result


@rule("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return $W x + b$."""
    if isinstance(weight, Jet) or not isinstance(x, Jet):
        product = x @ weight.mT
        return product if bias is None else product + bias
    y = functional.linear(x.coefficients, weight)
    if isinstance(bias, Jet):
        return Jet(y, x.truncation) + bias
    return Jet(y if bias is None else shifted(y, bias), x.truncation)


@rule("addmm", "addmv", "baddbmm")
def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    r"""Return $β x + α a b$."""
    return beta * x + alpha * (a @ b)


@rule("addbmm")
def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    r"""Return $β x + α \sum_i a_i b_i$."""
    return beta * x + alpha * (a @ b).sum(0)


@rule("addcmul")
def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: Number = 1) -> Tensor:
    """Return $x + c a b$."""
    return x + value * (a * b)


@rule("addcdiv")
def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: Number = 1) -> Tensor:
    """Return $x + c a / b$."""
    return x + value * (a / b)


@rule("lerp")
def lerp(start: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Return $a + w (b - a)$."""
    return start + weight * (end - start)


@rule("outer", "ger")
def outer(a: Tensor, b: Tensor) -> Tensor:
    """Return $a b^T$."""
    return a[:, None] * b


@rule("inner")
def inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of products over the last dimensions."""
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, ([-1], [-1]))


@rule("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: None = None) -> Tensor:
    """Return the sums of products over pairs of dimensions."""
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = [d % a.ndim for d in dims[0]], [d % b.ndim for d in dims[1]]
    letters = iter("abcdefghijklmnopqrstuvwxy")
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    kept = [letter for i, letter in enumerate(first) if i not in left]
    kept += [letter for j, letter in enumerate(second) if j not in right]
    return torch.einsum(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", a, b)


@rule(functional.bilinear)
def bilinear_layer(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Return $a^T W_k b$ for all $k$."""
    result = torch.einsum("...i,kij,...j->...k", a, weight, b)
    return result if bias is None else result + bias


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Return sums of products by Einstein's convention; jets are multiplied two at a time.

    Raises:
        MissingRule: If the equation is not a string.
    """
    if not isinstance(equation, str):
        raise MissingRule(
            "Taylor has no rule for `torch.einsum` with lists of dimensions: write the equation "
            "as a string"
        )
    factors = list(operands[0]) if isinstance(operands[0], (list, tuple)) else list(operands)
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "->" not in equation:
        letters = sorted(set(left) - {",", "."})
        right = ("..." if "..." in left else "") + "".join(
            x for x in letters if left.count(x) == 1
        )
    jets = [i for i, x in enumerate(factors) if isinstance(x, Jet)]
    while len(jets) > 2:
        first, second = jets[:2]
        others = [t for i, t in enumerate(terms) if i not in (first, second)] + [right]
        kept = "".join(
            x for x in dict.fromkeys(terms[first] + terms[second])
            if x != "." and any(x in other for other in others)
        )  # fmt: skip
        kept = ("..." if "..." in terms[first] + terms[second] else "") + kept
        pair = torch.einsum(
            f"{terms[first]},{terms[second]}->{kept}", factors[first], factors[second]
        )
        terms[first], factors[first] = kept, pair
        del terms[second], factors[second]
        jets = [i for i, x in enumerate(factors) if isinstance(x, Jet)]
    return _einsum_of_two(terms, right, factors, jets)


def _einsum_of_two(terms: list[str], right: str, factors: list[Tensor], jets: list[int]) -> Tensor:
    """Return the sums where at most two of the factors are jets."""
    first, second = jets[0], jets[-1]
    ndims = [x.ndim for x in factors]
    axis = next(x for x in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if x not in "".join(terms))

    def product(a: Tensor, b: Tensor | None) -> Tensor:
        values = list(factors)
        values[first] = a
        if b is not None:
            values[second] = b
        stacked = [x.ndim > n for x, n in zip(values, ndims, strict=True)]
        left = [axis * more + term for more, term in zip(stacked, terms, strict=True)]
        return torch.einsum(f"{','.join(left)}->{axis * any(stacked)}{right}", *values)

    a, b = factors[first], factors[second]
    assert isinstance(a, Jet)
    assert isinstance(b, Jet)
    if first == second:
        return Jet(product(a.coefficients, None), a.truncation)
    return bilinear(product, a, b)
