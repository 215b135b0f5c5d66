"""Products of matrices and vectors, and sums of products over any dimensions."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import Number, aligned, as_jet, bilinear
from ..common_slopes import CommonActivation
from ..jet import Jet
from ..registry import rule
from ..series import ClosedForm
from .arithmetic import shifted


@rule("matmul", "vdot")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the product of matrices or vectors."""
    if isinstance(input, Jet) and not isinstance(other, Jet) and input.ndim > 1 >= other.ndim - 1:
        return Jet(input.coefficients @ other, input.truncation)
    like = input if isinstance(input, Jet) else other
    assert isinstance(like, Jet)
    a = as_jet(input.unsqueeze(0) if input.ndim == 1 else input, like)
    b = as_jet(other.unsqueeze(-1) if other.ndim == 1 else other, like)
    ndim = max(a.ndim, b.ndim)
    result: Tensor = bilinear(torch.matmul, aligned(a, ndim), aligned(b, ndim))
    result = result.squeeze(-1) if other.ndim == 1 else result
    return result.squeeze(-2 if other.ndim > 1 else -1) if input.ndim == 1 else result


@rule("mm", "bmm")
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of matrices."""
    return matmul(input, mat2)


@rule(Tensor.__rmatmul__)
def rmatmul(x: Tensor, other: Tensor) -> Tensor:
    """Return $A x$ for the reflected operator."""
    return other @ x


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
    """Return the cross product, along the first dimension of length three by default."""
    sizes = torch.broadcast_shapes(input.shape, other.shape)  # type: ignore[no-untyped-call]
    return cross(input, other, dim=sizes.index(3) if dim is None else dim)


@rule(torch.linalg.cross)
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross product along a dimension."""
    forward = input.roll(-1, dim) * other.roll(-2, dim)
    return forward - input.roll(-2, dim) * other.roll(-1, dim)


@rule("kron")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product."""
    a, b = (_with_dimensions(x, max(input.ndim, other.ndim)) for x in (input, other))
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    a = a.reshape([n for size in a.shape for n in (size, 1)])
    b = b.reshape([n for size in b.shape for n in (1, size)])
    return (a * b).reshape(sizes)


def _with_dimensions(x: Tensor, ndim: int) -> Tensor:
    """Return a tensor with leading dimensions of length one, so that it has `ndim`."""
    return x.reshape([1] * (ndim - x.ndim) + list(x.shape))


@rule("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return $W x + b$."""
    if not isinstance(input, Jet) or isinstance(weight, Jet) or isinstance(bias, Jet):
        product = input @ (weight.T if weight.ndim == 2 else weight)
        return product if bias is None else product + bias
    if input.factors is not None and weight.ndim == 2:
        value, slopes = input.factors
        mapped = functional.linear(value, weight, bias), functional.linear(slopes, weight)
        return Jet.with_common_slopes(*mapped, input.truncation)
    if isinstance(input.source, CommonActivation) and weight.ndim == 2 and bias is not None:
        value, slopes, *others = input.source
        mapped = _LinearOfActivation.apply(value, slopes, weight, bias, *others)
        return Jet(mapped, input.truncation)
    x = input.coefficients
    if bias is None or weight.ndim == 1 or x.is_complex() or weight.is_complex():
        y = functional.linear(x, weight)
        return Jet(y if bias is None else shifted(y, bias), input.truncation)
    return Jet(_Linear.apply(x, weight, bias), input.truncation)


class _Linear(ClosedForm):
    """The coefficients of $W x + b$. The bias is added to the value alone, in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.shape = bias.shape
        return _mapped(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            _gradient_of_input(grad, weight) if wanted[0] else None,
            _gradient_of_weight(grad, x) if wanted[1] else None,
            grad[0].sum_to_size(ctx.shape) if wanted[2] else None,
        )


class _LinearOfActivation(ClosedForm):
    """The coefficients of $W g(z) + b$, where the slopes of $z$ are the same in all rows.

    It saves the values and the slopes, and the backward pass computes the coefficients of $g(z)$
    again, which are many times larger.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, s: Tensor, weight: Tensor, bias: Tensor, *others: Any
    ) -> Tensor:
        ctx.save_for_backward(z, s, weight)
        ctx.shape, ctx.others = bias.shape, others
        return _mapped(CommonActivation(z, s, *others).coefficients(), weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, s, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        activation = CommonActivation(z, s, *ctx.others)
        return (
            *activation.gradients(_gradient_of_input(grad, weight).to(z.dtype)),
            _gradient_of_weight(grad, activation.coefficients()) if wanted[2] else None,
            grad[0].sum_to_size(ctx.shape) if wanted[3] else None,
            None, None, None,
        )  # fmt: skip


def _mapped(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return $W x_k$ for all coefficients, and $W x_0 + b$ for the value."""
    y = functional.linear(x, weight)
    y[0].add_(bias.to(y.dtype))
    return y


def _gradient_of_input(grad: Tensor, weight: Tensor) -> Tensor:
    r"""Return $W^T \bar y_k$ for all $k$."""
    bar = grad.reshape(-1, grad.shape[-1])
    return bar.mm(weight.to(bar.dtype)).view(*grad.shape[:-1], weight.shape[1])


def _gradient_of_weight(grad: Tensor, x: Tensor) -> Tensor:
    r"""Return $\sum_k \bar y_k x_k^T$."""
    bar = grad.reshape(-1, grad.shape[-1])
    return bar.t().mm(x.to(bar.dtype).reshape(-1, x.shape[-1]))


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
    result = [letter for i, letter in enumerate(first) if i not in left]
    result += [letter for j, letter in enumerate(second) if j not in right]
    return torch.einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", a, b)


@rule(functional.bilinear)
def bilinear_layer(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    r"""Return $a^T W_k b + c_k$ for all $k$."""
    result = torch.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Return sums of products in Einstein notation. Jets are multiplied two at a time."""
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
    return _einsum_of_two_jets(terms, right, factors, jets)


def _einsum_of_two_jets(
    terms: list[str], right: str, factors: list[Tensor], jets: list[int]
) -> Tensor:
    """Return the sums of products if at most two of the factors are jets."""
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
