"""Log-likelihoods by the probability flow against mixtures and Gaussians in closed form."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Independent, MultivariateNormal, Normal

from fdsm import MLE, Autodiff, FiniteDifference
from fdsm.evaluation import (
    FittedDensity,
    ProbabilityFlow,
    SolverError,
    bits_per_dim,
    dormand_prince,
    flow_of_log_density,
    flow_of_score,
    flow_of_velocity,
    log_likelihood,
    nll,
)
from fdsm.evaluation.dormand_prince import integrate
from fdsm.samplers import GaussianMixtureProposal, importance_log_partition
from fdsm.typing import Derivative

LEVELS = (50.0, 5.0, 0.01)


@dataclass
class Mixture:
    """A mixture of isotropic Gaussians, whose noisy densities are mixtures of the same kind."""

    weights: Tensor
    means: Tensor
    scales: Tensor

    @classmethod
    def random(cls, d: int) -> "Mixture":
        generator = Generator().manual_seed(d)
        weights = 0.2 + torch.rand(3, generator=generator)
        means = 2 * torch.randn(3, d, generator=generator)
        return cls(weights / weights.sum(), means, 0.3 + torch.rand(3, generator=generator))

    def log_joint(self, x: Tensor, sigma: Tensor) -> Tensor:
        variances = self.scales.square() + sigma.square()[:, None]
        squares = (x[:, None] - self.means).square().sum(2)
        return self.weights.log() - x.shape[1] / 2 * variances.log() - squares / (2 * variances)

    def energy(self, x: Tensor, sigma: Tensor) -> Tensor:
        """A log-density with another constant at every level."""
        return self.log_joint(x, sigma).logsumexp(1) + sigma.sin()

    def score(self, x: Tensor, sigma: Tensor) -> Tensor:
        variances = self.scales.square() + sigma.square()[:, None]
        weights = self.log_joint(x, sigma).softmax(1) / variances
        return ((self.means - x[:, None]) * weights[:, :, None]).sum(1)

    def at(self, sigma: float) -> FittedDensity:
        identity = torch.eye(self.means.shape[1])
        variances = self.scales.square() + sigma**2
        return FittedDensity(self.weights, self.means, variances[:, None, None] * identity)

    def flow(self, kind: str, tolerance: float = 1e-6) -> ProbabilityFlow:
        base = self.at(LEVELS[0])
        if kind == "energy":
            return flow_of_log_density(self.energy, base, LEVELS, tolerance=tolerance)
        return flow_of_score(self.score, base, LEVELS, tolerance=tolerance)


@pytest.mark.parametrize("kind", ["energy", "score"])
@pytest.mark.parametrize(("d", "rows"), [(2, 100), (16, 40), (64, 8)])
def test_mixtures_are_exact_to_less_than_the_stated_error(
    d: int, rows: int, kind: str, generator: Generator
) -> None:
    """A quarter of the rows are in the tails."""
    mixture = Mixture.random(d)
    truth = mixture.at(LEVELS[-1])
    x = truth.sample(rows, generator)
    x[::4] += 3 * torch.randn(x[::4].shape, generator=generator) / math.sqrt(d)
    result = log_likelihood(mixture.flow(kind), x)
    errors = (result.log_prob - truth.log_prob(x)).abs()
    assert errors.max() < 1e-4
    assert (errors <= result.error).double().mean() >= 0.95
    assert result.error.max() < 1e-3
    assert not result.divergence_error.any()


@pytest.mark.parametrize("kind", ["energy", "score"])
@pytest.mark.parametrize(("d", "directions"), [(2, 4), (16, 8), (64, 8)])
def test_random_directions_are_unbiased_and_their_error_covers_the_truth(
    d: int, directions: int, kind: str, generator: Generator
) -> None:
    mixture = Mixture.random(d)
    truth = mixture.at(LEVELS[-1])
    x = truth.sample(200 if d < 64 else 60, generator)
    flow = mixture.flow(kind, tolerance=1e-3)
    result = log_likelihood(flow, x, directions=directions, generator=generator)
    difference = result.log_prob - truth.log_prob(x)
    assert difference.mean().abs() < 4 * difference.std() / math.sqrt(len(x))
    assert (difference.abs() <= 2 * result.error).double().mean() >= 0.95
    factor = math.sqrt(1 + 25 / (directions - 3))
    spread = result.divergence_error.square().mean().sqrt() / factor
    assert spread.item() == pytest.approx(difference.std().item(), rel=0.3)


def test_errors_are_proportional_to_the_tolerance(generator: Generator) -> None:
    mixture = Mixture.random(3)
    truth = mixture.at(LEVELS[-1])
    x = truth.sample(10, generator)
    with torch.no_grad():
        errors = [
            (mixture.flow("energy", tolerance).log_prob(x) - truth.log_prob(x)).abs().mean()
            for tolerance in (1e-4, 1e-6, 1e-8)
        ]
    assert errors[0] > 30 * errors[1] > 900 * errors[2]


MEAN = torch.tensor([1.0, -2.0]).double()
COVARIANCE = torch.tensor([[1.5, 0.6], [0.6, 0.4]]).double()
STANDARD = Independent(Normal(torch.zeros(2).double(), 1.0), 1)
TARGET = MultivariateNormal(MEAN, COVARIANCE)


def straight(x: Tensor, t: Tensor) -> Tensor:
    """The velocity of flow matching: the mean of $x_1 - x_0$ given $x_t = (1 - t) x_0 + t x_1$."""
    t = t[:, None, None]
    variance = (1 - t).square() * torch.eye(2) + t.square() * COVARIANCE
    gain = (t * COVARIANCE - (1 - t) * torch.eye(2)) @ variance.inverse()
    return MEAN + (gain @ (x - t.squeeze(2) * MEAN)[:, :, None]).squeeze(2)


BACKWARD = lambda x, t: -straight(x, 1 - t)
FLOWS = {
    "forward": flow_of_velocity(straight, STANDARD),
    "backward": flow_of_velocity(BACKWARD, STANDARD, base_time=1.0, data_time=0.0),
}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_flow_matching_between_gaussians(flow: ProbabilityFlow, generator: Generator) -> None:
    x = TARGET.sample((50,))
    torch.testing.assert_close(flow.log_prob(x), TARGET.log_prob(x), rtol=0, atol=1e-5)
    samples = flow.sample(20_000, generator)
    errors = (COVARIANCE.diagonal() / len(samples)).sqrt()
    assert ((samples.mean(0) - MEAN).abs() < 4 * errors).all()
    torch.testing.assert_close(samples.T.cov(), COVARIANCE, rtol=0, atol=0.06)


def test_samples_have_the_likelihood_of_their_points(generator: Generator) -> None:
    mixture = Mixture.random(3)
    flow, again = mixture.flow("score"), Generator().set_state(generator.get_state())
    x, log_prob = flow.sample_with_log_prob(50, generator)
    torch.testing.assert_close(log_prob, mixture.at(LEVELS[-1]).log_prob(x), rtol=0, atol=1e-4)
    torch.testing.assert_close(log_prob, log_likelihood(flow, x).log_prob, rtol=0, atol=1e-4)
    torch.testing.assert_close(flow.sample(50, again), x, rtol=0, atol=1e-4)


def test_mean_likelihood_in_nats_and_bits_per_dimension(generator: Generator) -> None:
    flow, x = FLOWS["forward"], TARGET.sample((4000,))
    result = log_likelihood(flow, x, chunk=1500)
    entropy = TARGET.entropy().item()
    assert result.nll.error == pytest.approx(1 / math.sqrt(4000), rel=0.05)  # Var ‖z‖²/2 = d/2
    assert abs(result.nll.value - entropy) < 4 / math.sqrt(4000)
    bits = bits_per_dim(result.nll, 2)
    assert bits.value == pytest.approx(result.nll.value / (2 * math.log(2)))
    assert nll(flow, x[:100]).value == pytest.approx(-TARGET.log_prob(x[:100]).mean().item())


def test_gradients_in_the_data_and_in_parameters() -> None:
    r"""With $v = ax$ the density is $N(0, e^{2a} I)$."""
    a = nn.Parameter(torch.tensor(0.7))
    flow = flow_of_velocity(lambda x, t: a * x, STANDARD, tolerance=1e-9)
    x = torch.tensor([[0.3, -1.0], [2.0, 0.5]], requires_grad=True)
    MLE()(flow, x).sum().backward()
    shrunk = x.detach() * math.exp(-2 * 0.7)
    torch.testing.assert_close(x.grad, shrunk)
    assert a.grad is not None
    expected = (2 - (shrunk * x.detach()).sum(1)).sum()
    assert a.grad.item() == pytest.approx(expected.item())
    assert not log_likelihood(flow, x).log_prob.requires_grad


@pytest.mark.parametrize("derivative", [Autodiff(), FiniteDifference()], ids=["autodiff", "fd"])
@pytest.mark.parametrize("directions", [None, 4])
def test_engines_agree(derivative: Derivative, directions: int | None) -> None:
    mixture = Mixture.random(3)
    base, x = mixture.at(2.0), torch.randn(5, 3)
    for build, model in (
        (flow_of_score, mixture.score),
        (flow_of_log_density, mixture.energy),
    ):
        build_flow: Callable[..., ProbabilityFlow] = build
        values = [
            log_likelihood(
                build_flow(model, base, (2.0, 0.5), **engine),
                x,
                directions=directions,
                generator=Generator().manual_seed(0),
            ).log_prob
            for engine in ({}, {"derivative": derivative})
        ]
        torch.testing.assert_close(values[1], values[0], rtol=0, atol=2e-2)


def test_images_with_labels_in_float32(generator: Generator) -> None:
    """The label is the mean of all pixels; the noise level has the time of a logarithm."""
    shape = (1, 2, 2)

    def score(x: Tensor, sigma: Tensor, label: Tensor) -> Tensor:
        return (label.view(-1, 1, 1, 1) - x) / (1 + sigma.square()).view(-1, 1, 1, 1)

    base = GaussianMixtureProposal(torch.zeros(1, *shape, dtype=torch.float32), 101**0.5)
    flow = flow_of_score(score, base, (10.0, 0.1))
    labels = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float32)
    x = torch.randn(3, *shape, dtype=torch.float32, generator=generator)
    result = log_likelihood(flow, x, labels, chunk=2)
    mean = labels.double() * (1 - math.sqrt(1.01 / 101))  # that of the base is zero
    truth = Normal(mean.view(-1, 1, 1, 1), 1.01**0.5).log_prob(x.double()).sum((1, 2, 3))
    torch.testing.assert_close(result.log_prob, truth, rtol=0, atol=1e-4)
    samples, _ = flow.sample_with_log_prob(3, generator, (labels,))
    assert samples.shape == x.shape
    assert samples.dtype == torch.float32


def test_a_flow_is_a_proposal(generator: Generator) -> None:
    f = lambda x: 3 + TARGET.log_prob(x)
    estimate = importance_log_partition(f, FLOWS["forward"], 200, generator=generator)
    assert estimate.value == pytest.approx(3, abs=1e-5)
    assert estimate.effective_sample_size == pytest.approx(200, rel=1e-6)


@pytest.mark.parametrize("share", [0.05, 0.025])
def test_the_solver_has_order_five_and_estimates_order_four(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps stay constant if the size of the error is 0.9⁵. The solution is exp(sin t)."""

    def errors(share: float) -> tuple[float, float]:
        monkeypatch.setattr(dormand_prince, "FIRST_STEP", share)
        estimates = []

        def size(error: Tensor, y: Tensor) -> Tensor:
            estimates.append(error.item())
            return torch.tensor(0.9**5)

        rate = lambda t, y: math.cos(t) * y
        end = integrate(rate, torch.ones(1, 1), 0.0, 2.0, size).item()
        assert len(estimates) == round(1 / share)
        return abs(end - math.exp(math.sin(2.0))), abs(estimates[0])

    (error, estimate), (half_error, half_estimate) = errors(share), errors(share / 2)
    assert math.log2(error / half_error) == pytest.approx(5, abs=0.5)
    assert math.log2(estimate / half_estimate) == pytest.approx(5, abs=0.5)


def test_wrong_arguments_are_refused() -> None:
    x, score = torch.zeros(2, 2), lambda x, sigma: -x
    with pytest.raises(ValueError, match="levels must decrease from the noise of the base"):
        flow_of_score(score, STANDARD, (0.1, 10.0))
    with pytest.raises(ValueError, match="levels must be positive"):
        flow_of_log_density(score, STANDARD, (10.0, 0.0))
    with pytest.raises(TypeError, match="`log_prob` and `sample`"):
        flow_of_score(score, score, (10.0, 0.1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance must be a positive number, but is 0"):
        flow_of_velocity(score, STANDARD, tolerance=0)
    flow = flow_of_velocity(score, STANDARD)
    with pytest.raises(ValueError, match=r"directions must be at least 4.*but is 1"):
        log_likelihood(flow, x, directions=1)
    with pytest.raises(ValueError, match="must return the shape of its input"):
        log_likelihood(flow_of_velocity(lambda x, t: x.sum(1), STANDARD), x)
    infinite = flow_of_velocity(lambda x, t: x / (1 - t[:, None]), STANDARD)
    with pytest.raises(SolverError, match="Use a larger tolerance"):
        infinite.sample(3)
