"""Inverses, determinants and Cholesky factors."""

import pytest
import torch
from torch import Tensor, linalg

from .operand_cases import MatrixOp, check_matrices


def spd(a: Tensor, b: Tensor) -> Tensor:
    """Return a positive definite matrix that depends on two jets."""
    return a @ a.mT + b @ b.mT + torch.eye(4)


SMOOTH: dict[str, MatrixOp] = {
    "inverse": lambda a, b, c: torch.inverse(spd(a, b)) + linalg.inv(spd(b, c))
    + spd(a, c).inverse(),
    "solve": lambda a, b, c: linalg.solve(spd(a, b), c) * linalg.solve(spd(c, c), a)
    + linalg.solve(spd(b, c), a),
    "solve_vectors": lambda a, b, c: linalg.solve(spd(a, b), a[:, 0])
    + linalg.solve(spd(a, b), c.mT, left=False).sum()
    + linalg.solve(torch.stack([spd(a, b), spd(a, c)]), torch.stack([c[:, 0], b[:, 1]])).sum(),
    "solve_triangular": lambda a, b, c: linalg.solve_triangular(b[:, :4].cosh(), a, upper=True)
    + linalg.solve_triangular(c[:, :4].exp(), b, upper=False)
    + linalg.solve_triangular(b[:, 1:], c.mT, upper=False, left=False, unitriangular=True).mT,
    "slogdet": lambda a, b, c: torch.slogdet(spd(a, b))[1] + linalg.slogdet(-spd(a, c)).logabsdet,
    "logdet": lambda a, b, c: spd(a, b).logdet()
    + torch.logdet(torch.stack([spd(b, c), spd(a, a)])),
    "det": lambda a, b, c: torch.det(a[:, :4] + 3 * torch.eye(4)) + linalg.det(spd(b, c)),
    "cholesky": lambda a, b, c: linalg.cholesky(spd(a, b))
    + linalg.cholesky(spd(b, c), upper=True).mT,
    "cholesky_not_symmetric": lambda a, b, c: linalg.cholesky(spd(a, b) + (a * b)[:, :4] / 9)
    + linalg.cholesky(spd(b, c) + (a * c)[:, 1:] / 9, upper=True).mT,
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("name", ["inverse", "solve", "slogdet", "det", "cholesky"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)
