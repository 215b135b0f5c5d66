"""Softmax, logsumexp and related functions, for large and infinite exponents too."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fdsm.derivatives import Jet, Taylor

from ..agreement import assert_agrees
from .operand_cases import MatrixOp, check_matrices

SMOOTH: dict[str, MatrixOp] = {
    "logsumexp": lambda a, b, c: a.logsumexp(1, True) + torch.logsumexp(b + c, (0, 1)),
    "special_logsumexp": lambda a, b, c: torch.special.logsumexp(b, -1, keepdim=False),
    "softmax": lambda a, b, c: a.softmax(0) * torch.softmax(b, -1) + F.softmax(a + c, dim=1),
    "softmax_dtype": lambda a, b, c: F.softmax(b, -1, dtype=torch.float64) * torch.softmax(
        a, 1, torch.float64
    ) + torch.special.softmax(b, 0, dtype=torch.float64),
    "log_softmax": lambda a, b, c: a.log_softmax(1) * F.log_softmax(b, -1) + torch.log_softmax(
        b + c, 0
    ) + torch.special.log_softmax(a, -2),
    "softmin": lambda a, b, c: F.softmin(a, dim=1) + F.softmin(b, dim=0),
    "logaddexp": lambda a, b, c: torch.logaddexp(a, b) + torch.logaddexp(c, a) + b.logaddexp(c),
    "logaddexp2": lambda a, b, c: torch.logaddexp2(a, b) + torch.logaddexp2(c[0], b),
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax", "logaddexp"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_have_gradients(order: int) -> None:
    x, v, w = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    f = lambda w: Taylor().jet(lambda x: (x @ w).softmax(1)[:, 0], x, v, order)
    assert torch.autograd.gradgradcheck(f, w)


STABLE = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: x.logsumexp(-1, True),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "logaddexp": lambda x: torch.logaddexp(x, 3 * x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("op", STABLE.values(), ids=STABLE)
def test_stable_for_large_exponents(op: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.tensor([[1e4, -1e4, 9.99e3], [-1e4, -1e4, -9.999e3]], dtype=dtype)
    w, v = torch.ones(3, dtype=dtype, requires_grad=True), torch.randn(2, 3, dtype=dtype)
    for order in (2, 3):
        found = Taylor().jet(lambda x: op(x * w).square().sum(1), x, v, order)
        truth = op(x).square().sum(1)
        torch.testing.assert_close(found[0], truth, rtol=0.02, atol=1e-3)
        gradient = torch.autograd.grad(sum(term.sum() for term in found), w)[0]  # type: ignore[union-attr]
        assert all(term.isfinite().all() and term.dtype == dtype for term in (*found, gradient))


@pytest.mark.parametrize("order", [2, 3])
def test_infinite_exponents_count_for_nothing(order: int) -> None:
    mask = torch.tensor([0, -torch.inf, 0])
    x, w = torch.randn(2, 3), torch.randn(3, 3)

    def f(x: Tensor) -> Tensor:
        y = x @ w
        masked = y + mask
        return (
            masked.softmax(1)[:, 0]
            + masked.logsumexp(1)
            + y.masked_fill(mask < 0, -torch.inf).log_softmax(1)[:, 2]
        )

    def without(x: Tensor) -> Tensor:
        y = (x @ w)[:, ::2]
        return y.softmax(1)[:, 0] + y.logsumexp(1) + y.log_softmax(1)[:, 1]

    assert_agrees(
        lambda x: (f if isinstance(x, Jet) else without)(x), x, w, orders=(order,), directions=(3,)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_in_few_digits(dtype: torch.dtype) -> None:
    x, v, w = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8, 8) / 2
    f = lambda x: (x @ w.to(x.dtype)).softmax(1)[:, 0]
    truth = Taylor().jet(f, x, v, 2)
    found = Taylor().jet(f, x.to(dtype), v.to(dtype), 2)
    rtol = 20 * torch.finfo(dtype).eps
    for a, b in zip(found, truth, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=rtol, atol=rtol * b.abs().max().item())
