"""Reductions agree with Autodiff in all their forms."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Autodiff, Taylor
from fdsm.derivatives.taylor.rules import reduction

from ..agreement import assert_rule, names_of_rules
from .operand_cases import MASK, MatrixOp, check_matrices, on_jets, with_gaps
from .tensor_cases import SHAPE, Rule, constant, parameters, written

C = constant
LINEAR: dict[str, tuple[Rule, ...]] = {
    "sum": (
        lambda x: x.sum(),
        lambda x: x.sum(1),
        lambda x: torch.sum(x, (0, -1), keepdim=True),
        lambda x: x.sum(axis=0),
        lambda x: x.sum(dim=[]),
        lambda x: x.sum(dim=[1, 2], dtype=torch.float64),
        lambda x: x[0, 0, 0].sum(),
        lambda x: x[0, 0, 0].sum(0),
        lambda x: x.sum(None, True),
        lambda x: written(x, lambda y: y[0, 0, 0].sum().add_(1)),
        lambda x: written(x, lambda y: y[0, 0, 0].sum(0, dtype=torch.float64).add_(1)),
    ),
    "mean": (
        lambda x: x.mean(),
        lambda x: x.mean((0, 1)),
        lambda x: x.mean(dim=-1, keepdim=True),
        lambda x: x.mean(axis=(0, 2), keepdims=True),
        lambda x: torch.mean(x, 1, dtype=torch.float64),
        lambda x: written(x, lambda y: y[0, 0, 0].mean().add_(1)),
    ),
    "cumsum": (
        lambda x: x.cumsum(1),
        lambda x: torch.cumsum(x, dim=-1),
        lambda x: torch.cumsum(x, axis=0),
        lambda x: x.clone().cumsum_(2),
    ),
    "trace": (lambda x: x[0].trace(),),
    "diff": (
        lambda x: x.diff(),
        lambda x: torch.diff(x, 2, 1),
        lambda x: torch.diff(x, dim=0, prepend=C(1, 3, 4), append=x[:1].sin()),
        lambda x: torch.diff(C(2, 3, 4), prepend=x[:, :, :1].sin()),
    ),
}
ELSEWHERE = {
    "corrcoef", "cov", "cumprod", "cumulative_trapezoid", "logcumsumexp", "nanmean", "nansum",
    "prod", "std", "std_mean", "trapezoid", "trapz", "var", "var_mean",
}  # fmt: skip

SMOOTH: dict[str, MatrixOp] = {
    "nansum": lambda a, b, c: torch.nansum(with_gaps(b), 1, True) * with_gaps(a).nansum(0)
    + with_gaps(b).nansum(),
    "nanmean": lambda a, b, c: torch.nanmean(with_gaps(b), 1, True) * with_gaps(a).nanmean(0)
    + with_gaps(b).nanmean(),
    "cov": lambda a, b, c: torch.cov(b) + a.cov(correction=0) + b[0].cov(),
    "corrcoef": lambda a, b, c: torch.corrcoef(b) + (a + b).corrcoef(),
    "trapezoid": lambda a, b, c: torch.trapezoid(b, dx=0.5) + torch.trapz(a, b) * torch.trapezoid(
        a, c[:, 0], dim=0
    ).sum(),
    "cumulative_trapezoid": lambda a, b, c: torch.cumulative_trapezoid(b)
    * torch.cumulative_trapezoid(c, a[0], dim=1),
    "var": lambda a, b, c: a.var(),
    "var_dim": lambda a, b, c: b.var(1, False, True) * c,
    "var_unbiased": lambda a, b, c: torch.var(b, False),
    "var_correction": lambda a, b, c: torch.var(a, dim=(0, 1), correction=2, keepdim=True),
    "var_none": lambda a, b, c: torch.var(a * c, None, correction=0),
    "std": lambda a, b, c: b.std(-1) + torch.std(a, (0,), unbiased=False, keepdim=True).sum(),
    "var_mean": lambda a, b, c: torch.var_mean(b, 0, keepdim=True),
    "std_mean": lambda a, b, c: torch.std_mean(b * c, dim=1, correction=0),
    "prod": lambda a, b, c: (a * c).prod(),
    "prod_dim": lambda a, b, c: torch.prod(b, 1, True) + b.prod(-2, dtype=torch.float64).sum(),
    "prod_of_zero": lambda a, b, c: (a * MASK).prod(1) + (b * MASK).prod(-1, keepdim=True),
    "prod_of_zeros": lambda a, b, c: ((a - a.detach()) * b).prod(1),
    "cumprod": lambda a, b, c: a.cumprod(0) + torch.cumprod(b * MASK, dim=-1),
}  # fmt: skip
REPLACED: dict[str, MatrixOp] = {
    "std_of_equal": on_jets(
        lambda a, b, c: (a * 0).std() + b.norm(), lambda a, b, c: b.norm()
    ),
    "logcumsumexp": on_jets(
        lambda a, b, c: a.logcumsumexp(0) + torch.logcumsumexp(b + c, dim=-1),
        lambda a, b, c: a.exp().cumsum(0).log() + (b + c).exp().cumsum(-1).log(),
    ),
}  # fmt: skip
"""Functions that Autodiff cannot differentiate twice, with replacements for it."""


@pytest.mark.parametrize("op", (SMOOTH | REPLACED).values(), ids=SMOOTH | REPLACED)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("name", ["var_dim", "prod_of_zeros", "cumprod"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(reduction) == set(LINEAR) | ELSEWHERE


@pytest.mark.parametrize("f", parameters(LINEAR))
def test_linear_reductions_agree_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


@pytest.mark.parametrize(
    "reduce",
    [
        lambda y: y.prod(), lambda y: y[:1].prod(0), lambda y: y[0].prod(0), lambda y: y[0].prod(),
        lambda y: y[:1].cumprod(0), lambda y: y[:1].logcumsumexp(0), lambda y: y[0].amax(),
        lambda y: y[0].max(), lambda y: y[0].sort()[0], lambda y: y[0].cumprod(0),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_results_are_new(reduce: Callable[[Tensor], Tensor]) -> None:
    """Even of one element, so that writing into them leaves the input as it was."""

    def f(x: Tensor) -> Tensor:
        y = x[0].sin()
        reduce(y).add_(1)
        return y.cos().sum()[None]

    x, v = torch.randn(2, 1, 3)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))
