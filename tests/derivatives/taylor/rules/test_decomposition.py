"""Eigenvalues, singular values and QR factors."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, linalg

from fdsm.derivatives import Autodiff, MissingRule, Taylor

from ..agreement import assert_agrees
from .operand_cases import MatrixOp, check_matrices


def symmetric(a: Tensor, b: Tensor) -> Tensor:
    """Return a symmetric matrix that depends on two jets."""
    return a @ b.mT + b @ a.mT


def product(factors: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    r"""Return $U^{∘2} \sin(Σ) V^T$, which depends on all factors."""
    u, s, vh = factors
    return u.square() @ (s.sin()[..., None] * vh.square()) + u @ (s.cos()[..., None] * vh)


SMOOTH: dict[str, MatrixOp] = {
    "eigh_values": lambda a, b, c: linalg.eigh(symmetric(a, b)).eigenvalues
    + linalg.eigvalsh(symmetric(b, c)),
    "eigh_vectors": lambda a, b, c: linalg.eigh(symmetric(a, b)).eigenvectors.square()
    * linalg.eigh(symmetric(a, c), UPLO="U")[1].square(),
    "eigh_of_batches": lambda a, b, c: linalg.eigh(
        torch.stack([symmetric(a, b), symmetric(b, c)])
    )[1].square(),
    "svdvals": lambda a, b, c: linalg.svdvals(b + c) + linalg.svdvals(a.mT),
    "svd_of_wide_matrices": lambda a, b, c: product(linalg.svd(a * b + c, full_matrices=False)),
    "svd_of_tall_matrices": lambda a, b, c: product(linalg.svd(b.mT, full_matrices=False))
    + product(linalg.svd(torch.stack([a.mT, c.mT * b.mT]), False)),
    "svd_of_square_matrices": lambda a, b, c: product(linalg.svd(b[:, 1:] + c[:, 1:])),
    "svd_with_v": lambda a, b, c: (b + c).svd().U.square()
    @ torch.svd(a * b).V.mT.square(),
    "qr_of_wide_matrices": lambda a, b, c: linalg.qr(b + c).R * a + linalg.qr(a + c).Q @ c,
    "qr_of_tall_matrices": lambda a, b, c: linalg.qr(b.mT).Q @ linalg.qr(a.mT * b.mT)[1].square(),
    "qr_of_square_matrices": lambda a, b, c: linalg.qr(b[:, 1:], mode="complete").Q
    + linalg.qr(torch.stack([a[:, 1:], c[:, 1:] * b[:, 1:]])).R,
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_high_orders_agree_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op, orders=(3, 4), directions=(), rtol=1e-8)


@pytest.mark.parametrize("mode", ["reduced", "r"])
def test_the_triangular_factor_alone(mode: str) -> None:
    f = lambda x: linalg.qr(x.view(-1, 3, 2).sin(), mode=mode).R.flatten(1).exp().sum(1)
    x = torch.randn(2, 6)
    found = Taylor().jet(f, x, x.cos(), 4)
    truth = Autodiff().jet(
        lambda x: linalg.qr(x.view(-1, 3, 2).sin()).R.flatten(1).exp().sum(1), x, x.cos(), 4
    )
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def two_by_two(t: Tensor) -> Tensor:
    r"""Return matrices with the eigenvalues $±\sqrt{1 + t²}$."""
    return torch.stack([torch.stack([t + 0, 1 + 0 * t], -1), torch.stack([1 + 0 * t, -t], -1)], -2)


def test_eigenvalues_in_closed_form() -> None:
    r"""The largest eigenvalue is $\sqrt{1 + t²} = 1 + t²/2 - t⁴/8 + t⁶/16 - …$."""
    x = torch.zeros(1, 1)
    found = Taylor().jet(lambda x: linalg.eigvalsh(two_by_two(x[:, 0]))[:, 1], x, x + 1, 6)
    assert [y.item() for y in found] == pytest.approx([1, 0, 1, 0, -3, 0, 45], abs=1e-12)


@pytest.mark.parametrize("UPLO", ["L", "U", "l"])
def test_only_one_triangle_is_used(UPLO: str) -> None:
    """Derivatives are those of the function that torch evaluates, also if it is asymmetric."""

    def f(x: Tensor) -> Tensor:
        values, vectors = linalg.eigh(x.view(-1, 3, 3).sin(), UPLO=UPLO)
        return values[:, 0] + vectors[:, 1, 2].square()

    def g(x: Tensor) -> Tensor:
        y = x.view(-1, 3, 3).sin()
        y = y.mT if UPLO == "U" else y
        values, vectors = linalg.eigh(y.tril() + y.tril(-1).mT)
        return values[:, 0] + vectors[:, 1, 2].square()

    x, v = torch.randn(2, 9), torch.randn(2, 9)
    torch.testing.assert_close(Taylor().jet(f, x, v, 3), Autodiff().jet(g, x, v, 3))


def test_types_are_kept() -> None:
    def f(x: Tensor) -> Tensor:
        a = x.view(-1, 3, 2)
        values = linalg.svdvals(a).sum(1) + linalg.eigvalsh(a.mT @ a).sin().sum(1)
        return values + linalg.qr(a).Q.sum((1, 2))

    assert_agrees(f, torch.randn(3, 6, dtype=torch.float32), rtol=1e-3)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: linalg.eigvalsh(x.mT @ x * 0 + torch.eye(3)),
        lambda x: linalg.eigh(torch.ones(3, 3) + 0 * x[:3]).eigenvalues,
        lambda x: linalg.svdvals(x * 0 + torch.eye(4)[:, :3]),
        lambda x: linalg.svdvals(x @ torch.ones(3, 3)),
        lambda x: linalg.svd(x * torch.tensor([1, 1, 0]), full_matrices=False).U,
    ],
)
def test_values_that_coincide_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(1, 4, 3)
    with pytest.raises(linalg.LinAlgError, match="coincide"):
        Taylor().jet(lambda x: f(x[0]).sum()[None], x, x.cos(), 2)


def test_dependent_columns_are_refused() -> None:
    x = torch.randn(1, 4, 3)
    for f in (lambda x: x @ torch.ones(3, 3), lambda x: x.mT @ x @ torch.eye(3, 5).roll(2, 1)):
        with pytest.raises(linalg.LinAlgError, match="dependent"):
            Taylor().jet(lambda x, f=f: linalg.qr(f(x[0])).Q.sum()[None], x, x.cos(), 2)
    scaled = lambda x: linalg.qr(x[0] * torch.tensor([1.0, 1e-20, 1.0])).Q.square().sum(0)[:1]
    Taylor().jet(scaled, x, x.cos(), 2)


def test_a_single_eigenvalue_may_be_zero() -> None:
    x = torch.zeros(1, 1)
    found = Taylor().jet(lambda x: linalg.eigvalsh(x.sin()[:, None])[:, 0], x, x + 1, 3)
    assert [y.item() for y in found] == [0, 1, 0, -1]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: linalg.svd(x).S, "full_matrices=False"),
        (lambda x: linalg.qr(x, mode="complete").R, 'mode="reduced"'),
        (lambda x: x.svd(compute_uv=False).S, "compute_uv"),
    ],
)
def test_arbitrary_vectors_are_refused(f: Callable[[Tensor], Tensor], message: str) -> None:
    x = torch.randn(1, 4, 3)
    with pytest.raises(MissingRule, match=message):
        Taylor().jet(lambda x: f(x[0]).sum()[None], x, x, 2)
