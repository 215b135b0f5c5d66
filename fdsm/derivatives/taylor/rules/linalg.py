"""Linear equations, inverses, determinants, Cholesky factors and powers, for any order."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..algebra import aligned, as_jet, without_value
from ..jet import Jet
from ..registry import rule


@rule(torch.linalg.solve)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    r"""Return $x = A^{-1} b$, or $b A^{-1}$, from $x ← A_0^{-1} (b - (A - A_0) x)$."""
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]):
        return solve(A, B.unsqueeze(-1), left=left).squeeze(-1)
    return _solved(A, B, left, torch.linalg.solve, lambda x: x)


@rule(torch.linalg.solve_triangular)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    r"""Return $x = A^{-1} b$, or $b A^{-1}$, for a triangular matrix."""

    def solution(a: Tensor, b: Tensor, left: bool) -> Tensor:
        result: Tensor = torch.linalg.solve_triangular(
            a, b, upper=upper, left=left, unitriangular=unitriangular
        )
        return result

    def triangle(x: Tensor) -> Tensor:
        return x.triu(int(unitriangular)) if upper else x.tril(-int(unitriangular))

    return _solved(A, B, left, solution, triangle)


def _solved(
    a: Tensor,
    b: Tensor,
    left: bool,
    solution: Callable[..., Tensor],
    used: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the solution of a linear equation.

    Args:
        a: The matrix.
        b: The right-hand side.
        left: Whether the equation is $A x = b$ or $x A = b$.
        solution: Solves the equation for a constant matrix.
        used: Selects the part of the matrix that the solution depends on.

    Returns:
        The solution.
    """
    like: Any = a if isinstance(a, Jet) else b
    matrix, target = as_jet(a, like), as_jet(b, like)
    ndim = max(a.ndim, b.ndim)
    matrix, target = aligned(matrix, ndim), aligned(target, ndim)

    def divided(x: Any) -> Jet:
        return Jet(solution(matrix.value[None], x.coefficients, left=left), x.truncation)

    result = divided(target)
    if matrix.degree:
        rest = used(without_value(matrix))
        for _ in range(matrix.truncation.order):
            result = divided(target - (rest @ result if left else result @ rest))
    return result


@rule("inverse", torch.linalg.inv)
def inverse(A: Jet) -> Tensor:
    """Return the inverse of matrices."""
    return solve(A, torch.eye(A.shape[-1], dtype=A.dtype, device=A.device))


def _log_ratio(a: Jet) -> Tensor:
    r"""Return $\log \det(1 + E) = -\sum_k \mathrm{tr}((-E)^k) / k$ for $E = A_0^{-1} A - 1$."""
    excess: Tensor = Jet(
        torch.linalg.solve(a.value[None], without_value(a).coefficients), a.truncation
    )
    power, total = excess, torch.einsum("...ii->...", excess)
    for k in range(2, a.truncation.order + 1):
        power = -(power @ excess)
        total = total + torch.einsum("...ii->...", power) / k
    return total


@rule("slogdet")
def slogdet(A: Jet) -> Any:
    """Return the sign of the determinant and the logarithm of its absolute value."""
    determinant = torch.linalg.slogdet(A.value)
    return type(determinant)((determinant.sign, as_jet(determinant.logabsdet, A) + _log_ratio(A)))


@rule("logdet")
def logdet(A: Jet) -> Tensor:
    """Return the logarithm of the determinant."""
    return as_jet(torch.logdet(A.value), A) + _log_ratio(A)


@rule("det")
def det(A: Jet) -> Tensor:
    """Return the determinant of invertible matrices."""
    return as_jet(torch.linalg.det(A.value), A) * _log_ratio(A).exp()


@rule("cholesky")
def cholesky(A: Jet, upper: bool = False) -> Tensor:
    r"""Return $L$ with $A = L L^T$, from $L ← L + L_0 Φ(L_0^{-1} (A - L L^T) L_0^{-T})$.

    $Φ$ takes the lower triangle and half of the diagonal. As in torch, the value uses one triangle
    of $A$, and the derivatives are those along symmetric matrices.
    """
    return _cholesky_from(torch.linalg.cholesky(A.value, upper=upper), A, upper)


@rule(torch.linalg.cholesky_ex)
def cholesky_ex(A: Jet, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return $L$, and zero, or a positive number for matrices that are not positive definite."""
    factor = torch.linalg.cholesky_ex(A.value, upper=upper, check_errors=check_errors)
    return type(factor)((_cholesky_from(factor.L, A, upper), factor.info))


def _cholesky_from(value: Tensor, A: Jet, upper: bool) -> Tensor:
    """Return the Cholesky factor, given its value."""
    first, symmetric = as_jet(value.mT if upper else value, A), (A + A.mT) / 2
    result: Tensor = first
    for _ in range(A.truncation.order):
        rest: Any = symmetric - result @ result.mT
        scaled = torch.linalg.solve_triangular(first.value, without_value(rest), upper=False)
        scaled = torch.linalg.solve_triangular(first.value.mT, scaled, upper=True, left=False)
        result = result + first @ (scaled.tril(-1) + scaled.tril()) / 2
    return result.mT if upper else result


@rule("cholesky_solve")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    r"""Return $(L L^T)^{-1} b$, or $(L^T L)^{-1} b$ if the factor is an upper triangle."""
    lower = input2.mT if upper else input2
    half = torch.linalg.solve_triangular(lower, input, upper=False)
    result: Tensor = torch.linalg.solve_triangular(lower.mT, half, upper=True)
    return result


@rule("cholesky_inverse")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    r"""Return $(L L^T)^{-1}$, or $(L^T L)^{-1}$ if the factor is an upper triangle."""
    return cholesky_solve(torch.eye(L.shape[-1], dtype=L.dtype, device=L.device), L, upper)


@rule("matrix_power")
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Return $A^n$, by repeated squaring."""
    if n < 0:
        return matrix_power(torch.linalg.inv(input), -n)
    power: Tensor | None = None
    while n:
        if n % 2:
            power = input if power is None else power @ input
        input, n = input @ input if n > 1 else input, n // 2
    eye = torch.eye(input.shape[-1], dtype=input.dtype, device=input.device)
    return eye.expand(input.shape) if power is None else power


_TERMS = 22
"""Of the exponential series, for a relative error below $10^{-16}$ in four derivatives."""


@rule("matrix_exp")
def matrix_exp(A: Jet) -> Tensor:
    r"""Return $e^A = (\sum_k (2^{-s} A)^k / k!)^{2^s}$ with $‖2^{-s} A‖ \le 1$."""
    size = float(torch.linalg.matrix_norm(A.value.detach(), 1).max())
    squarings = max(0, math.ceil(math.log2(size))) if size else 0
    result = eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    scaled = A * 2.0**-squarings
    for k in range(_TERMS, 0, -1):
        result = eye + scaled @ result / k
    for _ in range(squarings):
        result = result @ result
    return result
