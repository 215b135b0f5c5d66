"""Log-densities of noisy data: without a network they are Gaussians, with one they are smooth."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.models import AtNoiseLevel, NoiseConditionalMLP, NoiseScaled


class Square(nn.Module):
    """The correction ‖x‖²/2 times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x.flatten(1).square().sum(1) / 2


def without_correction(kind: str) -> nn.Module:
    if kind == "scaled":
        return NoiseScaled(Square(0.0))
    model = NoiseConditionalMLP(3, (8,))
    assert isinstance(model.network[-1], nn.Linear)
    nn.init.zeros_(model.network[-1].weight)
    return model


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["mlp", "scaled"])
def test_model_without_correction_is_the_density_of_noisy_standard_normal_data(
    kind: str, sigma: float, generator: Generator
) -> None:
    """It is N(0, (1 + σ²) I): differences of its values and its score have closed forms."""
    f = AtNoiseLevel(without_correction(kind), sigma)
    x = 3 * torch.randn(50, 3, generator=generator)
    normal = torch.distributions.Normal(0.0, (1 + sigma**2) ** 0.5)
    expected = normal.log_prob(x).sum(1)
    torch.testing.assert_close(f(x) - f(x[:1]), expected - expected[:1])
    torch.testing.assert_close(score_of(f)(x), -x / (1 + sigma**2))


@pytest.mark.parametrize("sigma", [0.1, 2.0])
def test_correction_is_divided_by_the_noise_level(sigma: float, generator: Generator) -> None:
    """With g(y) = -‖y‖²/2 of the scaled input, the precision grows by 1/σ."""
    f = AtNoiseLevel(NoiseScaled(Square(-1.0)), sigma)
    x = torch.randn(20, 3, generator=generator)
    precision = (1 + 1 / sigma) / (1 + sigma**2)
    torch.testing.assert_close(score_of(f)(x), -precision * x)


def test_each_row_has_its_own_noise_level(generator: Generator) -> None:
    torch.manual_seed(0)
    model = NoiseConditionalMLP((1, 2, 2), (8,))
    x = torch.randn(4, 1, 2, 2, generator=generator)
    sigma = torch.tensor([0.1, 0.5, 1.0, 3.0])
    together = model(x, sigma)
    alone = torch.cat([
        AtNoiseLevel(model, s.item())(row[None]) for row, s in zip(x, sigma, strict=True)
    ])
    torch.testing.assert_close(together, alone)
    assert together.shape == (4,)


def test_network_needs_a_hidden_layer() -> None:
    with pytest.raises(ValueError, match="at least one hidden layer"):
        NoiseConditionalMLP(2, ())
