"""Solving linear equations, inverses, determinants and Cholesky factors, for any order."""

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
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return _solved(a, b.unsqueeze(-1), left, solution, used).squeeze(-1)
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
    found = torch.linalg.slogdet(A.value)
    return type(found)((found.sign, as_jet(found.logabsdet, A) + _log_ratio(A)))


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
    value: Tensor = torch.linalg.cholesky(A.value, upper=upper)
    first, symmetric = as_jet(value.mT if upper else value, A), (A + A.mT) / 2
    result: Tensor = first
    for _ in range(A.truncation.order):
        rest: Any = symmetric - result @ result.mT
        scaled = torch.linalg.solve_triangular(first.value, without_value(rest), upper=False)
        scaled = torch.linalg.solve_triangular(first.value.mT, scaled, upper=True, left=False)
        result = result + first @ (scaled.tril(-1) + scaled.tril()) / 2
    return result.mT if upper else result
