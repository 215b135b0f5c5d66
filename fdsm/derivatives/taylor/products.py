"""Rules of sums, and of what is linear in each of two arguments."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

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


def _beside(x: Jet, other: Operand) -> Jet:
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
        return Jet(_beside(input, other).coefficients * other, input.truncation)
    a, b = _beside(input, other), _beside(other, input)
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
    return Jet(_beside(input, other).coefficients / other, input.truncation)


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
        x = _beside(input, exponent)
        return _expanded(x, _powers(x.value, exponent.to(x.dtype)))
    assert isinstance(exponent, Jet)
    x = _beside(exponent, input)
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
    return _sum(_beside(input, other), _beside(other, input), alpha)


def _plus(x: Jet, constant: Operand, fresh: bool = False) -> Jet:
    """Return a jet plus a constant, in place if the coefficients are `fresh`."""
    x = _beside(x, constant)
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


@rule("matmul", "vdot")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the product of matrices or vectors."""
    if isinstance(input, Jet) and not isinstance(other, Jet) and input.ndim > 1 >= other.ndim - 1:
        return Jet(input.coefficients @ other, input.truncation)
    like = input if isinstance(input, Jet) else other
    assert isinstance(like, Jet)
    a = lifted(input.unsqueeze(0) if input.ndim == 1 else input, like)
    b = lifted(other.unsqueeze(-1) if other.ndim == 1 else other, like)
    ndim = max(a.ndim, b.ndim)
    result: Tensor = bilinear(torch.matmul, aligned(a, ndim), aligned(b, ndim))
    result = result.squeeze(-1) if other.ndim == 1 else result
    return result.squeeze(-2 if other.ndim > 1 else -1) if input.ndim == 1 else result


@rule("mm", "bmm")
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of matrices."""
    return matmul(input, mat2)


@rule("mv")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Return the product of a matrix and a vector."""
    return matmul(input, vec)


@rule("dot")
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return the product of two vectors."""
    return matmul(input, tensor)


@rule(torch.linalg.multi_dot)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices."""
    return reduce(torch.matmul, tensors)


@rule(torch.chain_matmul)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of several matrices."""
    return reduce(torch.matmul, matrices)


@rule(torch.linalg.vecdot)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sums of products over a dimension."""
    return (x * y).sum(dim)


@rule("cross")
def first_cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the products of vectors in space, along the first dimension of length three."""
    sizes = torch.broadcast_shapes(input.shape, other.shape)  # type: ignore[no-untyped-call]
    return cross(input, other, dim=sizes.index(3) if dim is None else dim)


@rule(torch.linalg.cross)
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the products of vectors in space."""
    forward = input.roll(-1, dim) * other.roll(-2, dim)
    return forward - input.roll(-2, dim) * other.roll(-1, dim)


@rule("kron")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the blocks of one matrix times each element of another."""
    a, b = (_with_dimensions(x, max(input.ndim, other.ndim)) for x in (input, other))
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    a = a.reshape([n for size in a.shape for n in (size, 1)])
    b = b.reshape([n for size in b.shape for n in (1, size)])
    return (a * b).reshape(sizes)


def _with_dimensions(x: Tensor, ndim: int) -> Tensor:
    return x.reshape([1] * (ndim - x.ndim) + list(x.shape))


@rule("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return $W x + b$."""
    if not isinstance(input, Jet) or isinstance(weight, Jet) or isinstance(bias, Jet):
        product = input @ (weight.T if weight.ndim == 2 else weight)
        return product if bias is None else product + bias
    y = functional.linear(input.coefficients, weight)
    return Jet(y if bias is None else shifted(y, bias), input.truncation)


@rule("addmm")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    r"""Return $β x + α A B$."""
    return beta * input + alpha * (mat1 @ mat2)


@rule("addmv")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    r"""Return $β x + α A b$."""
    return beta * input + alpha * (mat @ vec)


@rule("baddbmm")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    r"""Return $β x_i + α A_i B_i$."""
    return beta * input + alpha * (batch1 @ batch2)


@rule("addbmm")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    r"""Return $β x + α \sum_i A_i B_i$."""
    return beta * input + alpha * (batch1 @ batch2).sum(0)


@rule("addr")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    r"""Return $β x + α a b^T$."""
    return beta * input + alpha * outer(vec1, vec2)


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


@rule("outer", "ger")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Return $a b^T$."""
    return input[:, None] * vec2


@rule("inner")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Return the sums of products over the last dimensions."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


@rule("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
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
def bilinear_layer(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    r"""Return $a^T W_k b$ for all $k$."""
    result = torch.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Return sums of products by Einstein's convention; jets are multiplied two at a time."""
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
