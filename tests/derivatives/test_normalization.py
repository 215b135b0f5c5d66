"""Decomposed norms have the values and first derivatives of torch's own."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from fdsm.derivatives.normalization import DECOMPOSED

Norm = Callable[..., Tensor]
EPS = 0.1  # large, so that its sign and place matter

CALLS: dict[
    str, tuple[Norm, tuple[int, ...], Callable[[Norm, Tensor, Tensor, Tensor], Tensor]]
] = {
    "layer norm": (
        functional.layer_norm,
        (4,),
        lambda norm, x, weight, bias: norm(x, (4,), weight, bias, EPS),
    ),
    "layer norm of two dimensions": (
        functional.layer_norm,
        (3, 4),
        lambda norm, x, weight, bias: norm(x, (3, 4), weight, bias, EPS),
    ),
    "torch.layer_norm": (
        torch.layer_norm,
        (4,),
        lambda norm, x, weight, bias: norm(x, (4,), weight, bias, EPS, False),
    ),
    "instance norm": (
        functional.instance_norm,
        (3,),
        lambda norm, x, weight, bias: norm(x, weight=weight, bias=bias, eps=EPS),
    ),
    "torch.instance_norm": (
        torch.instance_norm,
        (3,),
        lambda norm, x, weight, bias: norm(x, weight, bias, None, None, True, 0.1, EPS, False),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_and_first_derivatives_are_those_of_torch(
    name: str, dtype: torch.dtype, generator: Generator
) -> None:
    function, shape, call = CALLS[name]
    x = (3 + torch.randn(2, 3, 4, generator=generator)).to(dtype)
    weight, bias = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    inputs = [t.requires_grad_() for t in (x, weight, bias)]
    results = []
    for norm in (DECOMPOSED[function], function):
        y = call(norm, *inputs)
        weights = torch.linspace(-1, 1, y.numel(), dtype=dtype).view_as(y)
        results.append((y, *torch.autograd.grad((weights * y).sum(), inputs)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32(
    name: str, dtype: torch.dtype, generator: Generator
) -> None:
    """The mean, 30, is canceled without a loss. Only the result is rounded."""
    function, shape, call = CALLS[name]
    x = (30 + torch.randn(2, 3, 4, generator=generator)).to(dtype)
    one, zero = torch.ones(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    y = call(DECOMPOSED[function], x, one, zero)
    truth = call(function, x.double(), one.double(), zero.double())
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), truth, rtol=torch.finfo(dtype).eps, atol=1e-5)
