"""Log-densities of noisy data: without a network they are Gaussians, with one they are smooth."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import score_of
from fdsm.models import (
    AtNoiseLevel,
    MeanOfMembers,
    NoiseConditionalEnsemble,
    NoiseConditionalMLP,
    NoiseScaled,
    OneMember,
    ProductOfMembers,
)


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


def member_by_hand(model: NoiseConditionalEnsemble, k: int, x: Tensor, sigma: Tensor) -> Tensor:
    """The formula of a member, with plain linear layers that have its weights."""
    state = {name: tensor[k] for name, tensor in model.state_dict().items()}

    def linear(name: str, inputs: Tensor) -> Tensor:
        return inputs @ state[f"{name}.weight"] + state[f"{name}.bias"]

    silu = nn.functional.silu
    z = x / (1 + sigma.square()).sqrt()[:, None]
    h = linear("rows", z) + linear("level", sigma.log()[:, None])
    for i in range(len(model.blocks)):
        inner = linear(f"blocks.{i}.1", silu(h))
        h = h + linear(f"blocks.{i}.3", silu(inner))
    reconstruction = linear("reconstruction.1", silu(h))
    error = (reconstruction - z).square().sum(1)
    return -x.square().sum(1) / (2 * (1 + sigma.square())) - error / (2 * sigma)


def test_each_member_is_a_network_with_its_own_weights(generator: Generator) -> None:
    model = NoiseConditionalEnsemble(3, members=4, width=8, blocks=2)
    x = torch.randn(4, 10, 3, generator=generator)
    sigma = torch.rand(4, 10, generator=generator) + 0.05
    found = model(x, sigma)
    assert found.shape == (4, 10)
    for k in range(4):
        torch.testing.assert_close(found[k], member_by_hand(model, k, x[k], sigma[k]))


def test_rows_of_a_member_do_not_depend_on_other_members_or_rows(generator: Generator) -> None:
    model = NoiseConditionalEnsemble(2, members=3, width=8)
    x = torch.randn(3, 5, 2, generator=generator).requires_grad_()
    sigma = torch.full((3, 5), 0.3)
    (gradient,) = torch.autograd.grad(model(x, sigma)[1, 2], x)
    assert gradient[1, 2].abs().min() > 0
    gradient[1, 2] = 0
    assert gradient.abs().max() == 0


def test_ensemble_without_reconstruction_error_is_the_density_of_noisy_normal_data(
    generator: Generator,
) -> None:
    """If g(z) = 0, the two terms are -‖z‖²/2 and -‖z‖²/(2σ): the precision is known."""
    model = NoiseConditionalEnsemble(3, members=2, width=8)
    last = model.reconstruction[1]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    x = torch.randn(20, 3, generator=generator)
    for sigma in (0.1, 2.0):
        f = AtNoiseLevel(MeanOfMembers(model), sigma)
        precision = (1 + 1 / sigma) / (1 + sigma**2)
        torch.testing.assert_close(score_of(f)(x), -precision * x)


def test_layers_start_like_those_of_torch() -> None:
    """Uniform between ±1/√n for n inputs, so the variance is 1/(3n), for each member."""
    model = NoiseConditionalEnsemble(100, members=3, width=100)
    weight = model.rows.weight
    assert weight.abs().max() <= 0.1
    variance = weight.detach().var(dim=(1, 2))
    torch.testing.assert_close(variance, torch.full((3,), 1 / 300), rtol=0.05, atol=0)
    reference = nn.Linear(100, 100).weight.detach().var()
    torch.testing.assert_close(variance.mean(), reference, rtol=0.05, atol=0)
    assert not torch.equal(weight[0], weight[1])


def test_mean_and_single_members_are_those_of_the_ensemble(generator: Generator) -> None:
    model = NoiseConditionalEnsemble(3, members=4, width=8)
    x = torch.randn(6, 3, generator=generator)
    sigma = torch.linspace(0.1, 2.0, 6)
    members = torch.stack([member_by_hand(model, k, x, sigma) for k in range(4)])
    torch.testing.assert_close(MeanOfMembers(model)(x, sigma), members.mean(0))
    for k in range(4):
        torch.testing.assert_close(OneMember(model, k)(x, sigma), members[k])


def test_product_is_the_density_of_one_row_for_each_member(generator: Generator) -> None:
    model = NoiseConditionalEnsemble(3, members=4, width=8)
    x = torch.randn(6, 4, 3, generator=generator)
    sigma = torch.linspace(0.1, 2.0, 6)
    members = [member_by_hand(model, k, x[:, k], sigma) for k in range(4)]
    torch.testing.assert_close(ProductOfMembers(model)(x, sigma), torch.stack(members).sum(0))
