"""Normalization layers agree with Autodiff of their formulas.

The functions of torch cannot serve as the reference: `layer_norm` and `instance_norm` have wrong
third derivatives, which the gradients of a curvature need,
https://github.com/pytorch/pytorch/issues/175754.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fdsm.derivatives import Jet, Taylor

from ..agreement import assert_agrees

Op = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of an input of shape `(3, 4, 2, 5)`, a weight and a bias for each of its four channels."""


def normalized(x: Tensor, dims: tuple[int, ...], eps: float = 1e-5) -> Tensor:
    variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()


def on_jets(
    rule: Callable[..., Tensor], otherwise: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """Return a function that applies `rule` to jets, and `otherwise` to tensors."""
    return lambda x, *others: (rule if isinstance(x, Jet) else otherwise)(x, *others)


def channels(parameter: Tensor) -> Tensor:
    return parameter[:, None, None]


MEAN, VARIANCE = torch.arange(4.0).double() / 4, torch.arange(1.0, 5.0).double()

NORMS: dict[str, Op] = {
    "layer": on_jets(
        lambda x, w, b: F.layer_norm(x, (5,)) * F.layer_norm(x, [2, 5], eps=0.1),
        lambda x, w, b: normalized(x, (-1,)) * normalized(x, (2, 3), 0.1),
    ),
    "layer_affine": on_jets(
        lambda x, w, b: F.layer_norm(x.mT, (2,), w[:2], b[:2])
        + torch.layer_norm(x.mT, (2,), w[2:], None, 1e-2, False)
        + F.layer_norm(x.mT, (2,), bias=b[:2]),
        lambda x, w, b: normalized(x.mT, (-1,)) * (1 + w[:2])
        + 2 * b[:2] + normalized(x.mT, (-1,), 1e-2) * w[2:],
    ),
    "instance": on_jets(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b)
        + torch.instance_norm(x, w, None, None, None, True, 0.1, 0.2, False),
        lambda x, w, b: normalized(x, (2, 3)) * channels(w)
        + channels(b) + normalized(x, (2, 3), 0.2) * channels(w),
    ),
    "instance_running": on_jets(
        lambda x, w, b: F.instance_norm(x, MEAN, VARIANCE, w, b, use_input_stats=False, eps=0.3),
        lambda x, w, b: F.batch_norm(x, MEAN, VARIANCE, w, b, eps=0.3),
    ),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b) * torch.group_norm(x, 4),
    "group_shifted": on_jets(  # torch cannot differentiate that twice
        lambda x, w, b: F.group_norm(x, 1, bias=b, eps=0.2),
        lambda x, w, b: normalized(x, (1, 2, 3), 0.2) + channels(b),
    ),
    "rms": lambda x, w, b: F.rms_norm(x, (2, 5)) + torch.rms_norm(x.mT, [2], w[:2], 0.1).mT,
    "batch": lambda x, w, b: F.batch_norm(x, MEAN, VARIANCE, w, b).sin()
    + F.batch_norm(x, MEAN, VARIANCE, bias=b, eps=0.3)
    + torch.batch_norm(x, w, None, MEAN, VARIANCE, False, 0.1, 1e-3, False),
    "response": lambda x, w, b: F.local_response_norm(x, 2, 0.5) + F.local_response_norm(
        x.flatten(2), 3, alpha=0.3, beta=0.6, k=0.8
    ).reshape(x.shape),
}  # fmt: skip


def check(op: Op, orders: tuple[int, ...], directions: tuple[int, ...], rtol: float) -> None:
    x, w = torch.randn(3, 4, 2, 5), torch.randn(5, 5)
    weight, bias = torch.rand(4) + 0.5, torch.randn(4)

    def f(x: Tensor) -> Tensor:
        y = op(x @ w, weight, bias) * op((x @ w).sin(), bias, weight)
        return (torch.linspace(1, 2, y[0].numel()) * y.flatten(1)).sum(1)

    assert_agrees(f, x, w, weight, bias, orders=orders, directions=directions, rtol=rtol)


@pytest.mark.parametrize("op", NORMS.values(), ids=NORMS)
def test_agrees_with_autodiff(op: Op) -> None:
    check(op, (1, 2), (3,), 1e-10)


@pytest.mark.parametrize("name", ["layer", "group", "rms", "batch"])
def test_higher_orders(name: str) -> None:
    check(NORMS[name], (4,), (), 1e-8)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_have_gradients(order: int) -> None:
    x, v, w = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    f = lambda w: Taylor().jet(lambda x: F.layer_norm(x @ w, (3,))[:, 0], x, v, order)
    assert torch.autograd.gradgradcheck(f, w)


@pytest.mark.parametrize(
    "module",
    [nn.GroupNorm(2, 4), nn.BatchNorm1d(4).eval(), nn.RMSNorm(6), nn.LocalResponseNorm(2)],
    ids=lambda module: type(module).__name__,
)
def test_modules(module: nn.Module) -> None:
    module.double()
    x, w = torch.randn(3, 4, 6), torch.randn(6, 6)
    assert_agrees(
        lambda x: module((x @ w).sin()).square().sum((1, 2)),
        x,
        w,
        *module.parameters(),
        directions=(3,),
    )


def test_running_statistics_of_instances_are_kept() -> None:
    """Once for each evaluation, as with tensors."""
    module, other = (
        nn.InstanceNorm2d(4, momentum=0.3, track_running_stats=True) for _ in range(2)
    )
    x = torch.randn(3, 4, 6, 2) + 2
    Taylor().jet(lambda x: module(x).square().sum((1, 2, 3)), x, x, 2)
    other(x)
    torch.testing.assert_close(module.state_dict(), other.state_dict())


@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.LayerNorm(6), nn.RMSNorm(6)])
def test_empty_batches(norm: nn.Module) -> None:
    norm.double()
    x = torch.randn(0, 4, 6)
    value, slope, curvature = Taylor().jet(lambda x: norm(x.sin()).sum((1, 2)), x, x, 2)
    assert value.shape == slope.shape == curvature.shape == (0,)
    total = (value + slope + curvature).sum()
    assert all(g.eq(0).all() for g in torch.autograd.grad(total, tuple(norm.parameters())))


BATCH: dict[str, Callable[[Tensor], Any]] = {
    "module": nn.BatchNorm1d(3, dtype=torch.float64),
    "without_statistics": nn.BatchNorm1d(3, track_running_stats=False).eval(),
    "function": lambda x: F.batch_norm(x, None, None, training=True),
    "torch": lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False),
}


@pytest.mark.parametrize("norm", BATCH.values(), ids=BATCH)
def test_statistics_of_the_batch_are_refused(norm: Callable[[Tensor], Any]) -> None:
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"mixes the examples with each other: call `.eval\(\)`"):
        Taylor().jet(lambda x: norm(x).sum(1), x, x, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "norm",
    [
        lambda x: F.layer_norm(x, (8,)),
        lambda x: F.group_norm(x, 2),
        lambda x: F.rms_norm(x, (8,)),
    ],
    ids=["layer", "group", "rms"],
)
def test_few_digits(norm: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    """Means are taken in single precision at least, and inputs of any size are no trouble."""
    x, v = torch.randn(4, 8).to(dtype), torch.randn(4, 8).to(dtype)
    for scale in (1, 1e4):
        f = lambda x: norm(x * scale)[:, :3].sum(1)  # ruff: ignore[function-uses-loop-variable]
        truth, found = (Taylor().jet(f, *data, 2) for data in ((x.double(), v.double()), (x, v)))
        for a, b in zip(found, truth, strict=True):
            assert a.dtype == dtype
            rtol = 30 * torch.finfo(dtype).eps
            torch.testing.assert_close(a.double(), b, rtol=rtol, atol=rtol * b.abs().max().item())
