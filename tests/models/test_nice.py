"""NICE: Jacobian, inverse, normalization, samples and layers."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.models import NICE
from fdsm.objectives import SM, ApproximateBackprop, CurvaturePropagation
from fdsm.typing import Elementwise, is_additive_coupling


def flow(shape: int | tuple[int, ...], generator: Generator, **settings: int) -> NICE:
    """A flow far from the identity."""
    model = NICE(shape, **{"hidden": 6, "depth": 2} | settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def test_number_of_parameters_is_the_published_one() -> None:
    with torch.device("meta"):
        model = NICE()
    hidden = (392 * 1000 + 1000) + 3 * (1000 * 1000 + 1000) + (1000 * 392 + 392)
    assert sum(p.numel() for p in model.parameters()) == 4 * hidden + 784 == 15_154_352


@pytest.mark.parametrize("d", [2, 5, 8])
def test_log_density_agrees_with_the_change_of_variables(d: int, generator: Generator) -> None:
    model, x = flow(d, generator), torch.randn(4, d, generator=generator)
    for row, value in zip(x, model(x), strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda r: model.encode(r[None])[0], row)
        normal = torch.distributions.Normal(0, 1).log_prob(model.encode(row[None])).sum()
        torch.testing.assert_close(value, normal + torch.linalg.slogdet(jacobian)[1])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("shape", [7, (2, 3, 2)])
def test_inverse(
    shape: int | tuple[int, ...], dtype: torch.dtype, tolerance: float, generator: Generator
) -> None:
    model = flow(shape, generator).to(dtype)
    x = torch.randn(20, *model.shape, generator=generator).to(dtype)
    assert (model.inverse(model.encode(x)) - x).abs().max() < tolerance
    assert (model.encode(model.inverse(x.flatten(1))) - x.flatten(1)).abs().max() < tolerance


def test_density_integrates_to_one(generator: Generator) -> None:
    model = flow(2, generator)
    grid = torch.linspace(-12, 12, 301)
    x = torch.cartesian_prod(grid, grid)
    with torch.no_grad():
        total = model(x).exp().sum() * (grid[1] - grid[0]) ** 2
    assert abs(total - 1) < 1e-6


def test_first_coupling_shifts_odd_coordinates(generator: Generator) -> None:
    model, x = flow(5, generator), torch.randn(3, 5, generator=generator)
    first, second = model.couplings[:2]
    assert torch.equal(first(x)[:, ::2], x[:, ::2])
    assert torch.equal(second(x)[:, 1::2], x[:, 1::2])
    assert (first(x)[:, 1::2] != x[:, 1::2]).all()
    torch.testing.assert_close(first(x)[:, 1::2], x[:, 1::2] + first.shift(x[:, ::2]))


def test_samples_are_drawn_from_the_density(generator: Generator) -> None:
    """`E[-log p]` of samples is the entropy of the latent less the log-determinant."""
    model = flow((2, 2), generator)
    x = model.sample(20_000, generator)
    assert x.shape == (20_000, 2, 2)
    assert not x.requires_grad
    surprise = -model(x).detach()
    entropy = 2 * math.log(2 * math.pi * math.e) - model.scale.log_scale.sum()
    assert abs(surprise.mean() - entropy) < 5 * surprise.std() / len(x) ** 0.5
    z = model.encode(x).detach()
    assert (z.mean(0).abs() < 5 / len(x) ** 0.5).all()
    assert (z.T.cov() - torch.eye(4)).abs().max() < 5 * (2 / len(x)) ** 0.5


def test_sampling_is_reproducible(generator: Generator) -> None:
    model = flow(3, generator)
    a, b = (model.sample(4, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(a, b)


def through(layers: list[nn.Module], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x.sum(1)


def test_layers_sum_to_the_log_density_up_to_a_constant(generator: Generator) -> None:
    model, x = flow((1, 2, 3), generator), torch.randn(6, 1, 2, 3, generator=generator)
    constants = model(x) - through(model.density_layers, x)
    expected = model.scale.log_scale.sum() - 3 * math.log(2 * math.pi)
    torch.testing.assert_close(constants, expected.expand(6))
    kinds = [
        is_additive_coupling(layer) or isinstance(layer, Elementwise)
        for layer in model.density_layers[1:]
    ]
    assert all(kinds)
    assert {id(p) for layer in model.density_layers for p in layer.parameters()} == {
        id(p) for p in model.parameters()
    }


def test_layerwise_curvature_is_that_of_the_model(generator: Generator) -> None:
    """One linear coupling is where approximate back-propagation is exact."""
    model, x = flow(5, generator, couplings=1, depth=0), torch.randn(6, 5, generator=generator)
    torch.testing.assert_close(ApproximateBackprop()(model.density_layers, x), SM()(model, x))


def test_curvature_propagation_is_unbiased(generator: Generator) -> None:
    model, x = flow(4, generator), torch.randn(2, 4, generator=generator)
    losses = CurvaturePropagation()(model.density_layers, x.repeat(4000, 1), generator=generator)
    losses = losses.detach().view(4000, 2)
    error = (losses.mean(0) - SM()(model, x)) / (losses.std(0) / 4000**0.5)
    assert error.abs().max() < 5


def test_width_and_depth_of_the_couplings() -> None:
    shift = NICE(10, hidden=7, depth=3).couplings[1].shift
    widths = [layer.weight.shape for layer in shift if isinstance(layer, nn.Linear)]
    assert widths == [(7, 5), (7, 7), (7, 7), (5, 7)]
    assert all(a != b for a, b in pairwise(type(layer) for layer in shift))


def test_events_with_one_element_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two elements"):
        NICE(1)
