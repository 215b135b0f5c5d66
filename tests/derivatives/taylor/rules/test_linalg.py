"""Inverses, determinants, Cholesky factors and powers."""

import pytest
import torch
from torch import Tensor, linalg

from fdsm.derivatives import Taylor

from .operand_cases import MatrixOp, check_matrices, on_jets


def spd(a: Tensor, b: Tensor) -> Tensor:
    """Return a positive definite matrix that depends on two jets."""
    return a @ a.mT + b @ b.mT + torch.eye(4)


def triangle(a: Tensor) -> Tensor:
    """Return a Cholesky factor that depends on a jet."""
    return a[:, 1:].tril(-1) + a.new_ones(4).diag() * a[:, 1:].exp()


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
    "cholesky_ex": lambda a, b, c: linalg.cholesky_ex(spd(a, b)).L
    + linalg.cholesky_ex(spd(b, c), upper=True)[0].mT,
    "cholesky_solve": lambda a, b, c: torch.cholesky_solve(a, linalg.cholesky(spd(b, c)))
    + torch.cholesky_solve(c, triangle(b)) + b.cholesky_solve(triangle(c).mT, upper=True),
    "cholesky_solve_batches": lambda a, b, c: torch.cholesky_solve(
        torch.stack([c, c]), torch.stack([triangle(b), triangle(a)])
    )
    + torch.cholesky_solve(torch.stack([a, b]), triangle(c)),
    "cholesky_inverse": lambda a, b, c: torch.cholesky_inverse(triangle(a))
    + triangle(b).mT.cholesky_inverse(upper=True),
    "matrix_power": lambda a, b, c: linalg.matrix_power(b[:, 1:], 5)
    + a[:, 1:].matrix_power(2) + linalg.matrix_power(spd(a, b), -3)
    + linalg.matrix_power(b[:, 1:], 1) + linalg.matrix_power(b[:, 1:], 0),
    "matrix_exp": lambda a, b, c: torch.matrix_exp(b[:, 1:]) + linalg.matrix_exp(3 * a[:, 1:]) / 9
    + torch.stack([b[:, 1:] / 5, 0 * a[:, 1:]]).matrix_exp(),
    "cholesky_not_symmetric": lambda a, b, c: linalg.cholesky(spd(a, b) + (a * b)[:, :4] / 9)
    + linalg.cholesky(spd(b, c) + (a * c)[:, 1:] / 9, upper=True).mT,
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize(
    "name", ["inverse", "solve", "slogdet", "det", "cholesky", "cholesky_solve", "matrix_exp"]
)
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


def test_a_triangular_system_has_no_vectors_on_the_right() -> None:
    """A matrix with the shape of a batch of vectors is the right-hand side of every factor."""
    factors = lambda b: torch.stack([k * b[:, 1:].exp() for k in (1, 2, 3, 4)])
    check_matrices(lambda a, b, c: linalg.solve_triangular(factors(b), a[:, 1:], upper=True))


def test_matrices_that_are_not_positive_definite_are_reported() -> None:
    x = torch.eye(3)[None]
    reported = []

    def f(x: Tensor) -> Tensor:
        reported.append(linalg.cholesky_ex(-x).info.item())
        return x.sum((1, 2))

    Taylor().jet(f, x, x, 1)
    assert reported == [1]


def test_only_one_triangle_of_a_factor_is_used() -> None:
    full = lambda a, b, c: torch.cholesky_solve(c, b[:, 1:].exp())
    triangular = lambda a, b, c: torch.cholesky_solve(c, b[:, 1:].exp().tril())
    check_matrices(on_jets(full, triangular))
