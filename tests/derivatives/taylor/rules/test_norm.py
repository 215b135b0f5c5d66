"""Norms and distances, where they are smooth and where they have kinks."""

import math

import pytest
import torch
from torch import Tensor, linalg
from torch.nn import functional as F

from fdsm.derivatives import Autodiff, KinkWarning, Taylor

from .operand_cases import MatrixOp, check_matrices, on_jets


def _distances(a: Tensor, b: Tensor, p: float) -> Tensor:
    return linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


def _many(a: Tensor) -> Tensor:
    """Return thirty rows, for which torch uses inner products."""
    return torch.cat([k / 3 + a for k in range(8)])[:30]


SMOOTH: dict[str, MatrixOp] = {
    "norm": lambda a, b, c: a.norm() + torch.norm(b, dim=1).sum() + b.norm(2, 0, True),
    "norm_dtype": lambda a, b, c: torch.norm(a, 2, 1, False, None, torch.float64)
    + b.norm(2, 1, False, torch.float64),
    "norm_4": lambda a, b, c: torch.norm(a, 4, dim=(0, 1)) + b.norm(p=3.5, dim=-1),
    "spectral": lambda a, b, c: linalg.norm(b, 2) + linalg.matrix_norm(a * b, -2)
    + linalg.matrix_norm(torch.stack([a, b, c * b], 2), 2, (0, 1), keepdim=True),
    "nuclear": lambda a, b, c: (a + b).norm("nuc") + linalg.matrix_norm(b, "nuc", keepdim=True)
    + linalg.matrix_norm(torch.stack([a, b, c * b], 1), "nuc", (2, 0)),
    "linalg_norm": lambda a, b, c: linalg.norm(a) + linalg.norm(b, dim=1, keepdim=True),
    "linalg_norm_fro": lambda a, b, c: linalg.norm(b, "fro") + linalg.norm(a, 4, dim=1),
    "vector_norm": lambda a, b, c: linalg.vector_norm(b - c, 2, dim=(0,)).sum()
    + linalg.vector_norm(a, ord=3, dtype=torch.float64),
    "matrix_norm": lambda a, b, c: linalg.matrix_norm(b) * linalg.matrix_norm(a, keepdim=True),
    "dist": lambda a, b, c: torch.dist(a, b) + a.dist(c, 3) + torch.dist(c, b, p=2),
    "pairwise": lambda a, b, c: F.pairwise_distance(a, b, keepdim=True)
    + torch.pairwise_distance(c, b, 4, 1e-3)[:, None],
    "cosine": lambda a, b, c: F.cosine_similarity(a, b) + torch.cosine_similarity(c[0], b, dim=-1),
    "normalize": lambda a, b, c: F.normalize(a) * F.normalize(b, p=4, dim=0) + F.normalize(
        b, dim=-1, eps=1e-3
    ),
}  # fmt: skip
REPLACED: dict[str, MatrixOp] = {
    "cdist": on_jets(
        lambda a, b, c: torch.cdist(a, b) * torch.cdist(c, b, p=3.0)
        + torch.cdist(a, c[:3], 4.0).sum(),
        lambda a, b, c: _distances(a, b, 2) * _distances(c, b, 3) + _distances(a, c[:3], 4).sum(),
    ),
    "cdist_of_many": on_jets(
        lambda a, b, c: torch.cdist(_many(a), b) * torch.cdist(_many(c), b),
        lambda a, b, c: _distances(_many(a), b, 2) * _distances(_many(c), b, 2),
    ),
    "cdist_of_batches": on_jets(
        lambda a, b, c: torch.cdist(torch.stack([a, b]), c) + torch.cdist(c, torch.stack([b, a])),
        lambda a, b, c: _distances(torch.stack([a, b]), c, 2)
        + _distances(c, torch.stack([b, a]), 2),
    ),
    "cdist_to_itself": on_jets(
        lambda a, b, c: torch.cdist(b, b),
        lambda a, b, c: torch.stack([
            (p - q).norm() if i != j else p.sum() * 0
            for i, p in enumerate(b) for j, q in enumerate(b)
        ]),
    ),
    "pdist": on_jets(
        lambda a, b, c: F.pdist(b) + torch.pdist(a, 4.0),
        lambda a, b, c: torch.stack([
            (b[i] - b[j]).norm() + (a[i] - a[j]).norm(4) for i in range(4) for j in range(i + 1, 4)
        ]),
    ),
    "norm_of_zero": on_jets(
        lambda a, b, c: (a * 0).norm(dim=1) + b.norm(), lambda a, b, c: b.norm() + torch.zeros(4)
    ),
}  # fmt: skip
"""Functions that Autodiff cannot differentiate twice, with replacements for it."""


@pytest.mark.parametrize("op", (SMOOTH | REPLACED).values(), ids=SMOOTH | REPLACED)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("name", ["norm", "norm_4", "cosine"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


KINKED: dict[str, MatrixOp] = {
    "1": lambda a, b, c: a.norm(1) + torch.norm(b, p=1, dim=1),
    "inf": lambda a, b, c: linalg.vector_norm(a, math.inf, dim=0) + linalg.norm(b, math.inf, 0),
    "-inf": lambda a, b, c: torch.norm(b - c, -math.inf, dim=0) + a.norm(-math.inf),
    "of_columns": lambda a, b, c: linalg.matrix_norm(a, 1) + linalg.norm(b, -1, keepdim=True),
    "of_rows": lambda a, b, c: linalg.matrix_norm(b, math.inf) * linalg.norm(a, -math.inf),
}


@pytest.mark.parametrize("op", KINKED.values(), ids=KINKED)
def test_norms_with_kinks_agree_and_warn(op: MatrixOp) -> None:
    with pytest.warns(KinkWarning, match="`norm` has kinks"):
        check_matrices(op)


@pytest.mark.parametrize("p", [1, math.inf, -math.inf])
def test_norms_break_ties_as_autodiff_does(p: float) -> None:
    f, x, v = (lambda x: (x + 1).norm(p, 1) + x.norm(p, 1)), torch.zeros(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))


def test_the_number_of_nonzeros_is_constant() -> None:
    check_matrices(lambda a, b, c: linalg.vector_norm(b, 0, dim=1) * b.sum())
