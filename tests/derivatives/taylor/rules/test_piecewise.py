"""Piecewise functions agree with Autodiff, break ties as it does, and warn about kinks."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fdsm.derivatives import Autodiff, Jet, KinkWarning, Taylor
from fdsm.derivatives.taylor.series import Truncation

from ..agreement import assert_agrees
from .operand_cases import BatchOp, check_batches


def hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """Return the function of torch, whose own derivative is 1/6 in single precision."""
    if isinstance(x, Jet):
        return F.hardsigmoid(x, inplace)
    y = (x / 6 + 0.5).clamp(0, 1)
    return x.copy_(y) if inplace else y


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x) + x.relu() * torch.relu(2 * x),
    "relu6": lambda x: F.relu6(5 * x),
    "leaky_relu": lambda x: F.leaky_relu(x) + F.leaky_relu(x, 0.3),
    "rrelu": lambda x: F.rrelu(x) + torch.rrelu(x, 0.2, 0.4),
    "threshold": lambda x: F.threshold(x, 0.2, 3.0) + torch.threshold(x, -0.1, -1.0),
    "hardtanh": lambda x: F.hardtanh(x) + F.hardtanh(x, -0.3, max_val=2.0),
    "hardsigmoid": lambda x: hardsigmoid(3 * x),
    "hardswish": lambda x: F.hardswish(2 * x),
    "hardshrink": lambda x: F.hardshrink(x) + x.hardshrink(1.1),
    "softshrink": lambda x: F.softshrink(x) + F.softshrink(x, 1.1),
    "abs": lambda x: x.abs() * torch.abs(x) + abs(x),
    "clamp": lambda x: x.clamp(-0.5, 0.7) + torch.clip(x, min=0.1) * x.clamp(max=0.2),
    "clamp_min": lambda x: x.clamp_min(0.1),
    "clamp_max": lambda x: torch.clamp_max(x, 0.1),
    "elu": lambda x: F.elu(x) + F.elu(x, 0.4),
    "selu": lambda x: F.selu(x) + torch.selu(2 * x),
    "celu": lambda x: F.celu(x) + torch.celu(x, 0.5),
    "softsign": F.softsign,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    op = ACTIVATIONS[name]
    with pytest.warns(KinkWarning, match=f"^`{name}` has") as caught:
        check_batches(lambda a, b, c: op(a) + op(b) * c)
    assert len(caught) == 1, "once"


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "softsign"])
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_higher_orders(name: str) -> None:
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    f = lambda x: ACTIVATIONS[name]((x @ w).sin()).sum(1)
    assert_agrees(f, x, w, orders=(6,), directions=(), rtol=1e-8)
    large = [y.isfinite().all() for y in Taylor().jet(f, 1e3 * x, x, 3)]
    assert all(large), "what is not chosen does not overflow"


IN_PLACE = [
    "relu", "relu6", "leaky_relu", "rrelu", "hardtanh", "hardsigmoid", "hardswish", "elu", "selu",
    "celu",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_in_place(name: str) -> None:
    """The tensor itself changes, whether or not the result is used."""
    function = hardsigmoid if name == "hardsigmoid" else getattr(F, name)

    def f(x: Tensor) -> Tensor:
        y, z = x.sin(), x.cos() - 0.5
        function(y, inplace=True)
        return (y.square() * function(z, inplace=True) * z).sum(1)

    assert_agrees(f, torch.randn(3, 8))


TWO: dict[str, BatchOp] = {
    "prelu": lambda a, b, c: F.prelu(a, c[0, :, 0]) * torch.prelu(b, c[0, 0, :1])
    + a.flatten().prelu(c[0, 0, :1]).reshape(a.shape),
    "clamp": lambda a, b, c: a.clamp(b, c + 1) + torch.clamp(c, min=b - 1) + b.clip(c[:, :, :1]),
    "clamp_max": lambda a, b, c: torch.clamp_max(c, a) + a.clamp_max(b),
    "maximum": lambda a, b, c: torch.maximum(a, b) * a.maximum(c) + torch.maximum(c, b),
    "minimum": lambda a, b, c: torch.minimum(a, b) * a.minimum(c) + torch.minimum(c[:1], b),
    "fmax": lambda a, b, c: torch.fmax(a, b) * a.fmax(c) + torch.fmax(c, b),
    "fmin": lambda a, b, c: torch.fmin(a, b) * a.fmin(c) + torch.fmin(c, b),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name: str) -> None:
    with pytest.warns(KinkWarning, match=f"^`{name}` has kinks"):
        check_batches(TWO[name])


def _each(function: Callable[[Tensor], Tensor]) -> BatchOp:
    """Return a function of each example, so that examples are not mixed."""
    return lambda a, b, c: torch.stack([function(x) for x in (a + c) * b])


SELECTIONS: dict[str, BatchOp] = {
    "max": lambda a, b, c: a.max(1).values * torch.max(b, -1, keepdim=True)[0][:, 0],
    "max_of_all": _each(lambda x: x.max()),
    "max_of_two": lambda a, b, c: torch.max(a, b) + a.max(other=c),
    "min": lambda a, b, c: torch.min(b + c, dim=2).values * a.min(-2)[0].sum(1)[:, None],
    "min_of_all": _each(torch.min),
    "min_of_two": lambda a, b, c: torch.min(c, b),
    "amax": lambda a, b, c: a.amax(1, True) + torch.amax(b * c, (1, 2), keepdim=True),
    "amax_of_all": _each(lambda x: x.amax() * x.amin(())),
    "amin": lambda a, b, c: torch.amin(b, dim=-1) * a.amin((-1,)),
    "aminmax": lambda a, b, c: torch.aminmax(b, dim=1).max
    * a.aminmax(dim=1, keepdim=True).min[:, 0],
    "aminmax_of_all": _each(lambda x: x.aminmax().min + x.aminmax()[1]),
    "median": lambda a, b, c: a.median(1).values * torch.median(b, dim=1, keepdim=True)[0][:, 0],
    "median_of_all": _each(lambda x: x.median() + torch.nanmedian(x)),
    "mode": lambda a, b, c: torch.mode(b)[0],
    "sort": lambda a, b, c: a.sort().values * torch.sort(b * c, 1, True)[0]
    + b.sort(dim=-1, descending=True, stable=True)[0],
    "msort": lambda a, b, c: torch.stack([torch.msort(row) for row in a * b]),
    "topk": lambda a, b, c: a.topk(2).values * torch.topk(b, 3, 1, largest=False)[0][:, :1, :2],
    "kthvalue": lambda a, b, c: a.kthvalue(2).values
    + torch.kthvalue(b, 3, dim=2, keepdim=True)[0][..., 0],
    "cummax": lambda a, b, c: a.cummax(1).values + torch.cummin(b * c, dim=-1)[0],
}  # fmt: skip


@pytest.mark.parametrize("op", SELECTIONS.values(), ids=SELECTIONS)
def test_selections(op: BatchOp) -> None:
    with pytest.warns(KinkWarning, match="has kinks"):
        check_batches(op)


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_indices_of_the_selected_elements() -> None:
    def f(x: Tensor) -> Tensor:
        values, places = x.sort(1)
        torch.testing.assert_close(values.detach(), x.detach().gather(1, places))
        return values.gather(1, x.topk(2, dim=1).indices).sum(1)

    assert_agrees(f, torch.randn(3, 5))


POOLS: dict[str, Callable[[Tensor], Any]] = {
    "1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2, padding=1, ceil_mode=True),
    "1d_places": lambda x: F.max_pool1d(x.flatten(2), 2, return_indices=True)[0],
    "1d_torch": lambda x: torch.max_pool1d(x.flatten(2), 3, 2, 1, 2),
    "2d": lambda x: F.max_pool2d(x, 2) + F.max_pool2d(x, (3, 2), stride=2, padding=(1, 0)),
    "2d_places": lambda x: F.max_pool2d(x, 3, 1, return_indices=True)[0],
    "2d_torch": lambda x: torch.max_pool2d(x, [3, 2], [1, 2], dilation=1),
    "2d_alone": lambda x: torch.stack([F.max_pool2d(image, 2) for image in x]),
    "3d": lambda x: F.max_pool3d(x[:, None], 2, stride=1),
    "3d_places": lambda x: F.max_pool3d_with_indices(x[:, None], 2)[0],
    "1d_adaptive": lambda x: F.adaptive_max_pool1d(x.flatten(2), 5),
    "2d_adaptive": lambda x: F.adaptive_max_pool2d(x, (2, None)),
    "2d_adaptive_places": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True)[0],
    "3d_adaptive": lambda x: F.adaptive_max_pool3d(x[:, None], (1, 2, 3)),
    "1d_adaptive_torch": lambda x: torch.adaptive_max_pool1d(x.flatten(2), 4)[0],
}  # fmt: skip


TIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": lambda x: F.relu6(x) + F.relu6(x + 6),
    "hardtanh": lambda x: F.hardtanh(x + 1) + F.hardtanh(x - 1),
    "hardsigmoid": lambda x: F.hardsigmoid(x + 3) + F.hardsigmoid(x - 3),
    "leaky_relu": lambda x: F.leaky_relu(x) + F.prelu(x, torch.tensor([0.2])),
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "hardshrink": lambda x: F.hardshrink(x + 0.5) + F.hardshrink(x - 0.5),
    "softshrink": lambda x: F.softshrink(x + 0.5) + F.softshrink(x - 0.5),
    "abs": lambda x: x.abs(),
    "clamp": lambda x: x.clamp(0, 1) + x.clamp(-1, 0) + x.clamp(torch.zeros(4)),
    "elu": lambda x: F.elu(x, 0.5) + F.celu(x) + F.selu(x) + F.softsign(x),
    "maximum": lambda x: torch.maximum(x, -x) + torch.minimum(x, 2 * x) + torch.maximum(x, x * 0),
    "fmax": lambda x: torch.fmax(x, -x) + torch.fmin(x, 3 * x),
    "max": lambda x: x.max(1)[0] + x.min(1)[0] + x.sort(1)[0][:, 1] + x.cummax(1)[0][:, 2],
    "max_of_all": lambda x: torch.stack([row.max() + row.min() + row.median() for row in x]),
    "amax": lambda x: x.amax(1) + x.amin(1),
}  # fmt: skip


@pytest.mark.parametrize("op", TIES.values(), ids=TIES)
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_ties_are_broken_as_by_autodiff(op: Callable[[Tensor], Tensor]) -> None:
    def f(x: Tensor) -> Tensor:
        y = op(x)
        return y if y.ndim == 1 else (y * torch.arange(1.0, y.shape[1] + 1)).sum(1)

    x, v = torch.zeros(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))


NONE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "hardtanh": F.hardtanh,
    "clamp": lambda x: x.clamp(0, 2),
    "maximum": lambda x: torch.maximum(x, 2 * torch.ones_like(x)),
    "fmax": lambda x: torch.fmax(x, 2 * torch.ones_like(x)),
    "fmin": lambda x: torch.fmin(2 * torch.ones_like(x), x),
    "elu": F.elu,
}


@pytest.mark.parametrize("op", NONE.values(), ids=NONE)
def test_values_of_nan_and_infinity(op: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    jet: Any = op(Jet(torch.stack([x, torch.ones(4)]), Truncation(1)))
    torch.testing.assert_close(jet.value, op(x), equal_nan=True)


def test_random_slopes_are_the_same_for_all_coefficients() -> None:
    x, v = -torch.rand(2, 5) - 0.1, torch.ones(2, 5)
    f = lambda x: F.rrelu(x, 0.1, 0.9, training=True)[:, 0]
    value, slope = Taylor().jet(f, x, v, 1)
    torch.testing.assert_close(value, slope * x[:, 0])
    assert (slope > 0.1).all()
    assert (slope < 0.9).all()
    assert slope[0] != slope[1]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.ReLU(), "zero if they are straight.*softplus, SiLU or average pooling"),
        (nn.ELU(), "parameter gradients of second derivatives miss the jump"),
        (nn.ELU(0.5), "`elu` has kinks"),
        (nn.MaxPool1d(2), "`max_pool1d` has kinks"),
    ],
)
def test_the_warning_names_the_problem_and_the_place_once(module: nn.Module, words: str) -> None:
    f, x, v = (lambda x: module(x).square().sum(1)), torch.randn(2, 4), torch.randn(2, 4)
    Taylor().jet(f, x, v, 1)
    with pytest.warns(KinkWarning, match=words) as caught:
        Taylor().jet(f, x, v, 2)
    assert caught[0].filename == __file__
    Taylor().sliced(f, x, v[None])


def test_every_model_is_warned_about() -> None:
    x, models = torch.randn(2, 4), [nn.Sequential(nn.ReLU(), nn.Flatten(0)) for _ in range(3)]
    for model in models:
        with pytest.warns(KinkWarning, match="`relu` has kinks"):
            Taylor().jet(model, x[:, :1], x[:, 1:2], 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Taylor().jet(model, x[:, :1], x[:, 1:2], 2)


def test_no_warning_without_derivatives() -> None:
    x = torch.randn(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Taylor().jet(lambda y: y.sum(1) + torch.zeros_like(y).relu().sum(1), x, x, 2)
