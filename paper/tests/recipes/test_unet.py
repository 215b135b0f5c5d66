"""Scores and log-densities of networks have their formulas, and layers their known values."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from fdsm.derivatives import score_of
from paper.recipes.unet import UNet, UNetDensity, UNetScore, _Attention


class Fixed(nn.Module):
    """A network given as a function."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: Tensor, sigma: Tensor) -> Tensor:
        return self.function(z, sigma)


def test_score_of_one_point_is_that_of_its_noise_with_targets_of_unit_variance(
    generator: Generator,
) -> None:
    """Clean data $x_0$ have the score $(x_0 - x)/σ²$. The network has to return `target`."""
    clean = torch.randn(20_000, 1, generator=generator)
    for level in (0.05, 1.0, 10.0):
        sigma = torch.full((len(clean),), level)
        x = clean + level * torch.randn(clean.shape, generator=generator)
        target = (clean - x / (1 + level**2)) * (1 + level**2) ** 0.5 / level
        assert target.std().item() == pytest.approx(1, abs=0.03)
        score = UNetScore(Fixed(lambda z, sigma: target))(x, sigma)  # ruff: ignore[function-uses-loop-variable]
        torch.testing.assert_close(score, (clean - x) / level**2, rtol=1e-3, atol=1e-3)


def test_score_without_a_network_is_that_of_noisy_normal_data(generator: Generator) -> None:
    x, sigma = torch.randn(6, 1, 4, 4, generator=generator), torch.linspace(0.1, 10, 6)
    seen: list[Tensor] = []

    def network(z: Tensor, sigma: Tensor) -> Tensor:
        seen.append(z)
        return 0 * z

    actual = UNetScore(Fixed(network))(x, sigma)
    variance = 1 + sigma[:, None, None, None] ** 2
    torch.testing.assert_close(actual, -x / variance)
    torch.testing.assert_close(seen[0], x / variance.sqrt())


def test_log_density_is_a_normal_one_minus_the_error_of_reconstruction(
    generator: Generator,
) -> None:
    """For $g(z) = a z$ the score is $-(1 + (a - 1)²/σ) x / (1 + σ²)$."""
    x, sigma = torch.randn(6, 1, 4, 4, generator=generator), torch.linspace(0.1, 10, 6)
    column = sigma[:, None, None, None]
    for a in (1.0, 0.0, 3.0):
        f = UNetDensity(Fixed(lambda z, sigma: a * z))  # ruff: ignore[function-uses-loop-variable]
        expected = -(1 + (a - 1) ** 2 / column) * x / (1 + column**2)
        torch.testing.assert_close(score_of(f)(x, sigma), expected)


def test_attention_is_that_of_torch(generator: Generator) -> None:
    layer = _Attention(8, 4)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, generator=generator)
    x, level = torch.randn(2, 8, 3, 5, generator=generator), torch.randn(2, 4, generator=generator)
    query, key, value = (
        part.unflatten(1, (4, 2)).flatten(3).mT
        for part in layer.inputs(layer.norm(x, level)).chunk(3, 1)
    )
    attended = functional.scaled_dot_product_attention(query, key, value).mT
    expected = x + layer.output(attended.reshape(x.shape))
    torch.testing.assert_close(layer(x, level), expected)


def test_the_level_and_distant_pixels_matter_after_training_has_begun(
    generator: Generator,
) -> None:
    network = UNet((1, 16, 16), width=8)
    x, sigma = torch.randn(1, 1, 16, 16, generator=generator), torch.ones(1)
    torch.testing.assert_close(network(x, sigma), network(x, 2 * sigma))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    assert not torch.allclose(network(x, sigma), network(x, 2 * sigma))
    x.requires_grad_()
    (slope,) = torch.autograd.grad(network(x, sigma)[0, 0, 0, 0], x)
    assert slope[0, 0, -1, -1] != 0


@pytest.mark.parametrize(("shape", "width"), [((1, 6, 8), 8), ((8, 8), 8), ((1, 8, 8), 12)])
def test_sizes_that_do_not_fit_are_refused(shape: tuple[int, ...], width: int) -> None:
    with pytest.raises(ValueError, match=r"multiples of 4, but have .* must be a multiple of 8"):
        UNet(shape, width)
