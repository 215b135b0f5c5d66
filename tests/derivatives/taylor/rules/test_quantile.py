"""Quantiles agree with Autodiff for all interpolations, with and without NaN."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import KinkWarning, MissingRule, Taylor

from ..agreement import assert_agrees
from .operand_cases import MatrixOp, check_matrices, with_gaps

Q = torch.tensor([0.05, 0.4, 0.9], dtype=torch.float64)
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
CASES: dict[str, MatrixOp] = {
    "of_all": lambda a, b, c: torch.quantile(b, 0.3) + a.quantile(Q),
    "along": lambda a, b, c: b.quantile(Q, 1) * torch.quantile(a, 0.7, 1),
    "keepdim": lambda a, b, c: b.quantile(0.2, dim=0, keepdim=True) + a.quantile(Q, 0, True)
    + b.quantile(0.4, keepdim=True),
    "axis": lambda a, b, c: torch.stack([a, b]).quantile(Q, dim=-2, keepdim=True),
    "nan": lambda a, b, c: torch.nanquantile(with_gaps(b), Q, 1) + with_gaps(a).nanquantile(0.3),
    "nan_keepdim": lambda a, b, c: with_gaps(a * b).nanquantile(
        0.3, 0, True
    ),
}  # fmt: skip
ignoring_kinks = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


@ignoring_kinks
@pytest.mark.parametrize("op", CASES.values(), ids=CASES)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op, orders=(1, 2, 4))


@ignoring_kinks
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_interpolations(interpolation: str) -> None:
    options = {"dim": 1, "interpolation": interpolation}
    check_matrices(lambda a, b, c: b.quantile(Q, **options) + a.nanquantile(0.55, **options))


@ignoring_kinks
def test_gradients_of_the_level() -> None:
    q = torch.rand(3)
    assert_agrees(lambda x: (x.sin() * x).quantile(q, 1).sum(0), torch.randn(2, 7), q)


@ignoring_kinks
@pytest.mark.parametrize("f", [torch.quantile, torch.nanquantile])
def test_rows_with_nan(f: Callable[..., Tensor]) -> None:
    x, known = torch.randn(3, 4), torch.ones(3, 4)
    known[1, 2] = known[2] = torch.nan
    value, slope = Taylor().jet(lambda x: f(x * known, 0.4, 1), x, torch.ones(3, 4), 1)
    torch.testing.assert_close(value, f(x * known, 0.4, 1), equal_nan=True)
    assert slope[0] == 1


def test_kinks_are_reported() -> None:
    with pytest.warns(KinkWarning, match="quantile"):
        Taylor().jet(lambda x: x.quantile(0.4, 1), torch.randn(2, 4), torch.randn(2, 4), 2)


def test_a_level_that_depends_on_the_input_is_refused() -> None:
    with pytest.raises(MissingRule, match="quantile"):
        Taylor().jet(lambda x: x.quantile(x[0, 0], 1), torch.rand(2, 4), torch.rand(2, 4), 1)
