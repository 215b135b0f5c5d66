import pytest
import torch
from torch import Generator
from torch.nn import functional

from fdsm.models import GaussianTailMLP, QuadraticMLP


def test_quadratic_mlp_agrees_with_its_formula(generator: Generator) -> None:
    model, x = QuadraticMLP((2, 3), (4, 5)), torch.randn(3, 2, 3, generator=generator)
    take = iter(model.parameters()).__next__
    h = functional.silu(x.flatten(1) @ take().T + take())
    h = functional.silu(h @ take().T + take())
    (a, b), (a0, b0), c = take(), take(), take()[0]
    torch.testing.assert_close(model(x), (h @ a + a0) * (h @ b + b0) + (h * h) @ c)


def test_gaussian_tail_mlp_agrees_with_its_formula(generator: Generator) -> None:
    model, x = GaussianTailMLP((2, 3), (4, 5)), torch.randn(3, 2, 3, generator=generator)
    with torch.no_grad():
        model.log_precision.fill_(0.7)
    take = iter(model.network.parameters()).__next__
    h = functional.silu(x.flatten(1) @ take().T + take())
    h = functional.silu(h @ take().T + take()) @ take()[0]
    expected = h - torch.tensor(0.7).exp() * x.square().sum((1, 2)) / 2
    torch.testing.assert_close(model(x), expected)


def test_far_from_the_data_the_log_density_is_quadratic(generator: Generator) -> None:
    model, x = GaussianTailMLP(2), torch.randn(5, 2, generator=generator)
    ratio = model(1e6 * x) / (-(1e6**2) * x.square().sum(1) / 2)
    torch.testing.assert_close(ratio, torch.ones(5), rtol=1e-4, atol=0)


def test_gain_scales_only_the_first_layer() -> None:
    states = []
    for gain in (1.0, 3.0):
        torch.manual_seed(0)
        states.append(GaussianTailMLP(2, (4, 4), gain=gain).state_dict())
    for name, before in states[0].items():
        factor = 3.0 if name.startswith("network.1.") else 1.0
        torch.testing.assert_close(states[1][name], factor * before)


@pytest.mark.parametrize("kind", [QuadraticMLP, GaussianTailMLP])
def test_a_network_without_hidden_layers_is_refused(kind: type) -> None:
    with pytest.raises(ValueError, match="at least one hidden layer"):
        kind(3, ())
