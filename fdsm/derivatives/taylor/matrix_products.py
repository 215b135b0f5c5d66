"""Rules of products of matrices and vectors."""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional

from .einsum import tensordot
from .jet import Jet, rule
from .products import Number, aligned, bilinear, lifted
from .sums import shifted


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
