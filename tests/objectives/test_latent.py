"""SUMO is unbiased, and the bound is one: tight with common random numbers, useless without."""

import math
from functools import partial

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, SUMO
from fdsm.objectives.latent import draw_terms, iwae, log_likelihood, sumo
from fdsm.projections import Sphere

NOISE, SLACK = 0.5, 1.3


def log_weight(x: Tensor, noise: Tensor, gain: float = 1.0) -> Tensor:
    """Return a weight for $z ∼ N(0, I)$, $x|z ∼ N(z, s²I)$ and an encoder that is too wide.

    Its mean is that of the posterior if `gain` is one; otherwise its error depends on `x`.
    """
    variance = NOISE**2
    mean, spread = gain * x / (1 + variance), SLACK * math.sqrt(variance / (1 + variance))
    z = mean + spread * noise
    d = x.shape[1]
    return (
        -z.square().sum(1) / 2
        - (x - z).square().sum(1) / (2 * variance)
        + noise.square().sum(1) / 2
        + d * math.log(spread / (math.sqrt(2 * math.pi) * NOISE))
    )


def log_p(x: Tensor) -> Tensor:
    variance = 1 + NOISE**2
    return -x.square().sum(1) / (2 * variance) - x.shape[1] * math.log(2 * math.pi * variance) / 2


def test_numbers_of_terms_follow_their_distribution(generator: Generator) -> None:
    terms = draw_terms(torch.empty(400_000, 1), 20, generator)
    assert (terms.min(), terms.max()) == (1, 20)
    for k in range(1, 21):
        found = (terms >= k).double().mean().item()
        assert abs(found - 1 / k) <= 5 * math.sqrt((1 / k) * (1 - 1 / k) / len(terms))


def test_bounds_are_logarithms_of_means(generator: Generator) -> None:
    w = torch.rand(3, 5, generator=generator)
    expected = torch.stack([w[:, : k + 1].mean(1).log() for k in range(5)], 1)
    torch.testing.assert_close(iwae(w.log()), expected)


def test_series_computed_by_hand(generator: Generator) -> None:
    log_w = torch.randn(2, 4, generator=generator)
    log_w[0, 2:] = -torch.inf
    bound = iwae(log_w)
    first = bound[0, 0] + (bound[0, 1] - bound[0, 0])
    second = (
        bound[1, 0]
        + (bound[1, 1] - bound[1, 0])
        + 2 * (bound[1, 2] - bound[1, 1])
        + 3 * (bound[1, 3] - bound[1, 2])
    )
    actual = sumo(log_w, torch.tensor([1, 3]))
    torch.testing.assert_close(actual, torch.stack([first, second]))


def estimates(x: Tensor, generator: Generator) -> Tensor:
    terms = draw_terms(x, 80, generator)
    noise = torch.randn(len(x), int(terms.max()) + 1, x.shape[1], generator=generator)
    return log_likelihood(log_weight)(x, noise, terms)


def test_estimate_is_unbiased(generator: Generator) -> None:
    x = torch.tensor([[0.3, -1.2]]).expand(2000, 2)
    sample = torch.cat([estimates(x, generator) for _ in range(100)])
    error = sample.std() / len(sample) ** 0.5
    truth = log_p(x[:1]).item()
    assert error < 0.01
    assert abs(sample.mean() - truth) < 5 * error
    assert iwae(log_weight(x, torch.randn(2000, 2))[:, None]).mean() < truth - 10 * error


def mean_and_error(sample: Tensor) -> tuple[float, float]:
    return sample.mean().item(), (sample.std() / len(sample) ** 0.5).item()


@pytest.mark.filterwarnings("ignore:the step is too large")
@pytest.mark.parametrize("radius", [0.3, 0.1])
@pytest.mark.parametrize(("gain", "slack"), [(1.0, 0.05), (0.7, 1.0)])
def test_bound_holds_and_does_not_grow_as_the_step_shrinks(
    radius: float, gain: float, slack: float, generator: Generator
) -> None:
    x = torch.tensor([[0.3, -1.2]]).expand(10_000, 2)
    objective = SSM(FiniteDifference(), Sphere(radius))
    truth = -1 / (1 + NOISE**2) + x[0].square().sum().item() / (2 * 2 * (1 + NOISE**2) ** 2)
    shared = torch.cat([
        SUMO((2,), objective)(partial(log_weight, gain=gain), x, generator=generator)
        for _ in range(6)
    ])
    mean, error = mean_and_error(shared)
    assert error < 0.1
    assert truth - 5 * error < mean < truth + slack

    if gain != 1:
        return
    independent = []
    for _ in range(2):
        v = Sphere(radius).sample(x, generator)
        plus, minus, center = (estimates(y, generator) for y in (x + v, x - v, x))
        independent.append((plus + minus - 2 * center + (plus - minus) ** 2 / 8) / radius**2)
    assert torch.cat(independent).mean() > truth + 0.1 / radius**2


def test_only_used_samples_are_evaluated() -> None:
    rows = []

    def counted(x: Tensor, noise: Tensor) -> Tensor:
        rows.append(len(x))
        return log_weight(x, noise)

    terms = torch.tensor([1, 4, 2])
    log_likelihood(counted)(torch.ones(3, 2), torch.randn(3, 5, 2), terms)
    assert rows == [2 + 5 + 3]


def test_conditions_reach_the_weight(generator: Generator) -> None:
    shifted = lambda x, noise, shift: log_weight(x - shift[:, None], noise)
    x, shift = torch.randn(6, 2, generator=generator), torch.randn(6, generator=generator)
    a = SUMO((2,))(shifted, x, shift, generator=Generator().manual_seed(1))
    b = SUMO((2,))(log_weight, x - shift[:, None], generator=Generator().manual_seed(1))
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_invalid_settings_are_refused() -> None:
    for make in (lambda: SUMO(2), lambda: SUMO((2,), terms=0)):
        with pytest.raises(ValueError, match="latent must be a shape"):
            make()
    assert SUMO((2,))(log_weight, torch.ones(0, 2)).shape == (0,)
