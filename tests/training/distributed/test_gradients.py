"""Two processes with given directions or noise compute the gradient of one process."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fdsm.training.distributed import LossModule
from fdsm.training.distributed.fully_sharded import (
    InnerGradientError,
    fully_sharded,
    has_parameters,
)

from .gradient_cases import CASES, INNER, METHODS, Gradient, gradient_of

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}


@pytest.fixture
def _process_group() -> Iterator[None]:
    """A group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def largest_difference(actual: Gradient, expected: Gradient) -> float:
    pairs = zip(actual.gradient, expected.gradient, strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize(("name", "method", "dtype"), CASES)
def test_two_processes_compute_the_gradient_of_one(
    by_rank: dict[str, list[Any]], name: str, method: str, dtype: torch.dtype
) -> None:
    first, second = (gradients[name, method, dtype] for gradients in by_rank["all_gradients"])
    if method == "layers" and name in INNER:
        assert "takes gradients itself" in first
        assert first == second
        return
    expected = gradient_of(name, dtype)
    assert max(g.abs().max() for g in expected.gradient) > 1e-2
    for actual in (first, second):
        assert largest_difference(actual, expected) < TOLERANCE[dtype]
    mean = (first.loss + second.loss) / 2
    assert mean == pytest.approx(expected.loss, abs=TOLERANCE[dtype])
    assert abs(first.loss - second.loss) > 1e-3, "each process has its own rows"


@pytest.mark.usefixtures("_process_group")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["FD-SSM", "FD-DSM", "FD-SSMVR", "Taylor-SSM"])
def test_one_process_of_a_group_computes_the_same(name: str, method: str) -> None:
    actual = gradient_of(name, torch.float64, method)
    assert largest_difference(actual, gradient_of(name, torch.float64)) < 1e-13


@pytest.mark.usefixtures("_process_group")
@pytest.mark.parametrize("name", sorted(INNER))
def test_gradients_inside_need_all_weights_at_once(name: str) -> None:
    expected = gradient_of(name, torch.float64)
    for method in ("ddp", "root"):
        actual = gradient_of(name, torch.float64, method)
        assert largest_difference(actual, expected) < 1e-13
    with pytest.raises(InnerGradientError, match=r'units="root", or use FiniteDifference\(\)'):
        gradient_of(name, torch.float64, "layers")


def test_single_numbers_cannot_be_divided() -> None:
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ValueError, match="parameters that are a single number: scale"):
        fully_sharded(LossModule(torch.zeros_like, model))


def test_layers_with_parameters_of_their_own_are_gathered_one_by_one() -> None:
    assert has_parameters(nn.Linear(1, 1))
    assert not has_parameters(nn.Softplus())
    assert not has_parameters(nn.Sequential(nn.Linear(1, 1)))
    assert not has_parameters(nn.ParameterList([nn.Parameter(nn.Linear(1, 1).weight)]))
