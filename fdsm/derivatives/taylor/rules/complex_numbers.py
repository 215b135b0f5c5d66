"""Complex numbers: real and imaginary parts, sums, products and what follows from them.

Functions that are not listed here are refused if an operand is complex.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import (
    Dims,
    Number,
    Operand,
    aligned,
    as_jet,
    bilinear,
    dims_of,
    stack_coefficients,
    value_of,
    view,
)
from ..jet import Jet
from ..registry import MissingRule, complex_rule, extend_to_complex, rule
from . import norm


@rule("view_as_complex")
def view_as_complex(input: Jet) -> Jet:
    """Return pairs of real numbers along the last dimension as complex numbers."""
    return view(input, torch.view_as_complex(input.coefficients))


@complex_rule("view_as_real")
def view_as_real(input: Jet) -> Jet:
    """Return complex numbers as pairs of real numbers along a new last dimension."""
    return view(input, torch.view_as_real(input.coefficients))


@rule("complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """Return $a + i b$."""
    return torch.view_as_complex(torch.stack(torch.broadcast_tensors(real, imag), -1))  # type: ignore[no-untyped-call]


@rule("polar")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    r"""Return $r e^{iφ}$."""
    return complex_(abs * angle.cos(), abs * angle.sin())


@rule("real", "conj", "conj_physical", "resolve_conj", "resolve_neg", Tensor.real)
def itself(input: Tensor) -> Tensor:
    """Return a real number unchanged."""
    return input


@complex_rule("real", Tensor.real)
def real(input: Jet) -> Jet:
    """Return real parts."""
    return view(input, input.coefficients.real)


@complex_rule("imag", Tensor.imag)
def imag(input: Jet) -> Jet:
    """Return imaginary parts."""
    return view(input, input.coefficients.imag)


@complex_rule("conj", "conj_physical")
def conj(input: Jet) -> Jet:
    """Return complex conjugates."""
    return Jet(input.coefficients.conj_physical(), input.truncation)


@complex_rule(Tensor.mH, Tensor.H, "adjoint")
def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose of matrices."""
    return x.conj().transpose(-2, -1)


def _pair(a: Operand, b: Operand) -> tuple[Jet, Jet]:
    """Return two operands as jets of the same type, with the same number of dimensions."""
    like: Any = a if isinstance(a, Jet) else b
    dtype = torch.result_type(value_of(a), value_of(b))
    jets = [x if isinstance(x, Jet) else as_jet(torch.as_tensor(x), like) for x in (a, b)]
    ndim = max(x.ndim for x in jets)
    first, second = (Jet(x.coefficients.to(dtype), x.truncation) for x in jets)
    return aligned(first, ndim), aligned(second, ndim)


@complex_rule("add")
def add(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a + α b$."""
    (a, b), like = stack_coefficients(*_pair(input, other))
    return Jet(torch.add(a, b, alpha=alpha), like.truncation)


@complex_rule("sub", "subtract")
def sub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $a - α b$."""
    return add(input, other, alpha=-alpha)


@complex_rule("rsub", Tensor.__rsub__)
def rsub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    r"""Return $b - α a$."""
    return add(other, input, alpha=-alpha)


@complex_rule("mul", "multiply")
def mul(input: Operand, other: Operand) -> Tensor:
    """Return $a b$."""
    return bilinear(torch.mul, *_pair(input, other))


@complex_rule("div", "divide", "true_divide")
def div(input: Operand, other: Operand, *, rounding_mode: None = None) -> Tensor:
    """Return $a / b$."""
    if isinstance(other, Jet):
        return mul(input, other.reciprocal())
    assert isinstance(input, Jet)
    a, b = _pair(input, other)
    return Jet(a.coefficients / b.value, a.truncation)


@complex_rule(Tensor.__rdiv__)
def rdiv(x: Tensor, other: Operand) -> Tensor:
    """Return $a / x$, which torch calls to divide a number by a tensor."""
    return mul(other, x.reciprocal())


@complex_rule("reciprocal")
def reciprocal(x: Tensor) -> Tensor:
    r"""Return $\bar z / |z|²$."""
    return mul(x.conj(), _square_of_modulus(x).reciprocal())


def _square_of_modulus(x: Tensor) -> Tensor:
    return x.real.square() + x.imag.square()


@complex_rule("square")
def square(x: Tensor) -> Tensor:
    """Return $z²$."""
    return mul(x, x)


@complex_rule("pow", Tensor.__pow__)
def pow_(input: Operand, exponent: Operand) -> Tensor:
    """Return $z^n$ for an integer.

    Raises:
        MissingRule: For other exponents.
    """
    if not isinstance(input, Tensor) or not isinstance(exponent, (int, float)) or exponent % 1:
        raise MissingRule("Taylor has no rule for powers of complex numbers but integer powers")
    if exponent < 0:
        return pow_(reciprocal(input), -exponent)
    result, power, n = torch.ones_like(input), input, int(exponent)
    while n:
        result = mul(result, power) if n % 2 else result
        power, n = mul(power, power) if n > 1 else power, n // 2
    return result


@complex_rule("exp")
def exp(x: Tensor) -> Tensor:
    r"""Return $e^a (\cos b + i \sin b)$ for $z = a + i b$."""
    return polar(x.real.exp(), x.imag)


@complex_rule("log")
def log(x: Tensor) -> Tensor:
    r"""Return $\log |z| + i \arg z$."""
    return complex_(_square_of_modulus(x).log() / 2, angle(x))


@complex_rule("angle")
def angle(input: Tensor) -> Tensor:
    r"""Return $\arg z$."""
    return torch.atan2(input.imag, input.real)


@rule("angle")
def angle_of_real(input: Jet) -> Tensor:
    """Return zero for positive numbers and $π$ for negative numbers, as a constant."""
    return input.value.detach().angle()


@complex_rule("abs", "absolute")
def absolute(x: Tensor) -> Tensor:
    r"""Return $|z|$, with zero derivatives where it is zero."""
    return torch.hypot(x.real, x.imag)


@complex_rule(torch.linalg.vector_norm)
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: None = None,
) -> Tensor:
    r"""Return $(\sum |z|^p)^{1/p}$ over some dimensions, or all of them."""
    dims = tuple(d % x.ndim for d in dims_of(x, dim))
    if ord == 1:
        return absolute(x).sum(dims, keepdim=keepdim)
    if ord != 2:
        return norm.vector_norm(absolute(x), ord, dims, keepdim)  # type: ignore[arg-type]
    parts: Any = torch.stack([x.real, x.imag])
    result = norm.vector_norm(parts, 2, (0, *(d + 1 for d in dims)), keepdim)
    return result.squeeze(0) if keepdim else result


@complex_rule(torch.norm, Tensor.norm)
def norm_(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    dtype: None = None,
) -> Tensor:
    """Return a vector norm, or the Frobenius norm."""
    return vector_norm(input, 2 if p in {None, "fro"} else float(p), dim, keepdim)


@complex_rule("vdot")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\bar a^T b$."""
    return input.conj() @ other


@complex_rule(torch.linalg.vecdot)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    r"""Return the sums of $\bar a b$ over a dimension."""
    return (x.conj() * y).sum(dim)


extend_to_complex(  # functions that are linear, or written in sums and products
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "atleast_1d", "atleast_2d",
    "atleast_3d", "baddbmm", "block_diag", "bmm", "broadcast_tensors", "broadcast_to", "cat",
    "chunk", "clone", "column_stack", "concat", "concatenate", "contiguous", "cpu", "cuda",
    "cumprod", "cumsum", "detach", "diag", "diag_embed", "diagonal", "diagonal_scatter",
    "diff", "dot", "dsplit", "dstack", "einsum", "empty_like", "expand", "expand_as", "fill_",
    "flatten", "flip", "fliplr", "flipud", "full_like", "gather", "ger", "hsplit", "hstack",
    "index_add", "index_copy", "index_fill", "index_put", "index_select", "inner", "kron",
    "lerp", "linear", "masked_fill", "masked_scatter", "masked_select", "matmul", "mean", "mm",
    "moveaxis", "movedim", "multi_dot", "mv", "narrow", "neg", "negative", "new_empty",
    "new_full", "new_ones", "new_tensor", "new_zeros", "ones_like", "outer", "permute",
    "positive", "prod", "put", "ravel", "repeat", "repeat_interleave", "reshape", "reshape_as",
    "resolve_conj", "resolve_neg", "roll", "rot90", "row_stack", "scatter", "scatter_add",
    "select", "select_scatter", "slice_scatter", "split", "split_with_sizes", "squeeze",
    "squeeze_", "stack", "sum", "swapaxes", "swapaxes_", "swapdims", "swapdims_", "t", "t_",
    "take", "take_along_dim", "tensor_split", "tensordot", "tile", "to", "trace", "transpose",
    "transpose_", "tril", "triu", "type", "type_as", "unbind", "unflatten", "unsqueeze",
    "unsqueeze_", "view", "view_as", "vsplit", "vstack", "where", "zero_", "zeros_like",
    functional.pad, Tensor.T, Tensor.__eq__, Tensor.__getitem__, Tensor.__ne__,
    Tensor.__reversed__, Tensor.__rmatmul__, Tensor.__setitem__, Tensor.copy_, Tensor.data,
    Tensor.mT, Tensor.unfold,
)  # fmt: skip
