"""Hamiltonian Monte Carlo: properties of leapfrog, moments and acceptance rates."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import score_of
from fdsm.samplers import StepAdaptation, hmc, leapfrog

from .sampler_cases import assert_moments, correlated, standard_normal

N = 10_000


def bent(x: Tensor) -> Tensor:
    """A density that is neither normal nor a product."""
    return -x[:, 0].pow(4) / 4 - (x[:, 1] - x[:, 0].square()).square() / 2


def quartic(x: Tensor) -> Tensor:
    return -x.pow(4).sum(1) / 4


def energy(log_density: object, x: Tensor, p: Tensor) -> Tensor:
    return p.square().sum(1) / 2 - log_density(x)  # type: ignore[operator]


def test_leapfrog_by_hand() -> None:
    """With score -x³ from (1, 2) and h = 0.1: p = 1.95, x = 1.195, p = 1.95 - 0.05 · 1.195³."""
    x, p = leapfrog(score_of(quartic), *torch.tensor([[[1.0]], [[2.0]]]), 1, torch.tensor([0.1]))
    torch.testing.assert_close(x.detach(), torch.tensor([[1.195]]))
    torch.testing.assert_close(p.detach(), torch.tensor([[1.95 - 0.05 * 1.195**3]]))


def test_leapfrog_is_reversible(generator: Generator) -> None:
    x, p = torch.randn(2, 50, 2, generator=generator)
    step = torch.linspace(0.01, 0.2, 50)
    x_end, p_end = leapfrog(score_of(bent), x, p, 20, step)
    x_back, p_back = leapfrog(score_of(bent), x_end, -p_end, 20, step)
    assert (x_end - x).norm(dim=1).median() > 0.5
    torch.testing.assert_close(x_back.detach(), x, rtol=0, atol=1e-9)
    torch.testing.assert_close(-p_back.detach(), p, rtol=0, atol=1e-9)


def test_leapfrog_preserves_volume() -> None:
    def flow(state: Tensor) -> Tensor:
        x, p = state[None, :2], state[None, 2:]
        return torch.cat(leapfrog(score_of(bent), x, p, 7, torch.tensor([0.15])), 1)[0]

    start = torch.tensor([0.3, -0.7, 1.1, 0.4])
    jacobian = torch.autograd.functional.jacobian(flow, start)
    assert torch.linalg.det(jacobian).item() == pytest.approx(1, abs=1e-12)
    assert torch.linalg.matrix_norm(jacobian - torch.eye(4)) > 0.5


def test_the_error_of_leapfrog_is_of_second_order() -> None:
    """Over the same time, in the energy and in the place."""
    x, p = torch.tensor([[[0.5, -0.2]], [[1.0, 0.7]]])
    steps = [8, 16, 32, 64]
    ends = [leapfrog(score_of(bent), x, p, n, torch.tensor([1 / n])) for n in steps]
    exact, _ = leapfrog(score_of(bent), x, p, 512, torch.tensor([1 / 512]))
    drift = [abs(energy(bent, *end) - energy(bent, x, p)).item() for end in ends]
    miss = [(end[0] - exact).norm().item() for end in ends]
    for errors in (drift, miss):
        orders = [math.log2(a / b) for a, b in pairwise(errors)]
        assert orders == pytest.approx([2, 2, 2], abs=0.1)


def test_moments_of_a_correlated_normal(generator: Generator) -> None:
    target = correlated()
    found = hmc(
        target.log_density, torch.zeros(N, 2), 25, leapfrog=5, step_size=0.4, adapt=None,
        generator=generator,
    )  # fmt: skip
    assert found.acceptance.mean() < 0.98  # there was something to correct
    assert_moments(found.samples, target.mean, target.covariance)


def test_moments_of_a_quartic_at_any_step(generator: Generator) -> None:
    """$E x² = 2Γ(¾)/Γ(¼)$ and $E x⁴ = 1$, though the step accepts about half of the moves."""
    found = hmc(
        quartic,
        torch.zeros(N, 1),
        80,
        leapfrog=3,
        step_size=0.9,
        jitter=0.0,
        adapt=None,
        generator=generator,
    )
    assert 0.3 < found.acceptance.mean() < 0.8
    second = 2 * math.gamma(0.75) / math.gamma(0.25)
    x2 = found.samples.square()
    assert abs(x2.mean() - second) < 5 * math.sqrt((1 - second**2) / N)
    x4 = x2.square()  # E x⁸ = 5
    assert abs(x4.mean() - 1) < 5 * math.sqrt(4 / N)


@pytest.mark.parametrize(("step", "steps"), [(1.0, 1), (1.4, 2), (0.7, 4)])
def test_acceptance_of_a_normal_in_closed_form(
    step: float, steps: int, generator: Generator
) -> None:
    r"""$E \min(1, e^{-ΔH}) = \frac4π \arctan μ^{-1/2}$, `μ` the largest eigenvalue of $M^T M$.

    $M$ takes $(x, p)$ through a move and has determinant one, so $-2ΔH = (1-μ) a² + (1-1/μ) b²$
    for independent normal `a` and `b`, and $E \min(1, e^{-ΔH}) = 2 P(ΔH < 0)$ by reversibility.
    """
    kick = torch.tensor([[1.0, 0.0], [-step / 2, 1.0]])
    drift = torch.tensor([[1.0, step], [0.0, 1.0]])
    m = torch.linalg.matrix_power(kick @ drift @ kick, steps)
    mu = torch.linalg.eigvalsh(m.T @ m).max().item()
    exact = 4 / math.pi * math.atan(mu**-0.5)
    x = torch.randn(N, 1, generator=generator)
    found = hmc(
        standard_normal,
        x,
        10,
        leapfrog=steps,
        step_size=step,
        jitter=0.0,
        adapt=None,
        generator=generator,
    )
    error = found.acceptance.std() / math.sqrt(N)
    assert abs(found.acceptance.mean() - exact) < 5 * error
    moved = hmc(
        standard_normal,
        x,
        1,
        leapfrog=steps,
        step_size=step,
        jitter=0.0,
        adapt=None,
        generator=generator,
    )
    share = (moved.samples != x).double().mean().item()
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / N)


def test_moves_out_of_the_support_are_rejected(generator: Generator) -> None:
    """Gamma(3), whose log-density is not a number below zero, has mean and variance 3."""
    gamma = lambda x: (2 * x.log() - x).sum(1)
    found = hmc(
        gamma,
        torch.ones(N, 1),
        60,
        leapfrog=4,
        step_size=0.8,
        jitter=0.0,
        adapt=None,
        generator=generator,
    )
    x = found.samples
    assert x.min() > 0
    assert found.acceptance.min() < 0.9
    assert abs(x.mean() - 3) < 5 * math.sqrt(3 / N)
    assert abs(x.var() - 3) < 5 * math.sqrt(36 / N)  # E(x-3)⁴ = 45


@pytest.mark.parametrize("wrong", [torch.inf, -torch.inf, torch.nan])
def test_moves_to_points_without_finite_density_are_rejected(
    wrong: float, generator: Generator
) -> None:
    def log_density(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 0.5, wrong, standard_normal(x))

    found = hmc(log_density, torch.zeros(500, 1), 30, step_size=0.3, generator=generator)
    assert found.samples.max() <= 0.5
    assert found.samples.isfinite().all()
    assert found.samples.std() > 0.3


def test_step_sizes_adapt_to_the_target_acceptance(generator: Generator) -> None:
    """Whether the first step is too short or too long, and in 100 dimensions."""
    for first in (0.1, 1.9):
        found = hmc(
            standard_normal, torch.randn(100, 100, generator=generator), 40, burn_in=150,
            leapfrog=5, step_size=first, adapt=StepAdaptation(max_step=2.0), generator=generator,
        )  # fmt: skip
        assert found.acceptance.mean() == pytest.approx(0.65, abs=0.04)
        assert found.step_sizes.std() / found.step_sizes.mean() < 0.2


def test_step_sizes_adapt_only_during_the_burn_in(generator: Generator) -> None:
    x = torch.randn(50, 1, generator=generator)
    shape = {"leapfrog": 1, "step_size": 1e-3, "generator": generator}
    flat = lambda x: 1e-9 * x.sum(1)
    grown = hmc(flat, x, 30, burn_in=10, **shape).step_sizes
    torch.testing.assert_close(grown, torch.full((50,), 1e-3 * 1.02**10))
    for unchanged in (
        hmc(flat, x, 30, **shape),
        hmc(flat, x, 3, burn_in=10, adapt=None, **shape),
    ):
        assert torch.equal(unchanged.step_sizes, torch.full((50,), 1e-3))


def test_states_are_kept_after_the_burn_in(generator: Generator) -> None:
    found = hmc(
        standard_normal, torch.zeros(40, 3), 200, burn_in=20, every=2, leapfrog=4, step_size=0.4,
        generator=generator,
    )  # fmt: skip
    assert found.history.shape == (100, 40, 3)
    assert torch.equal(found.history[-1], found.samples)
    chains = found.history.square().mean((0, 2))
    assert abs(chains.mean() - 1) < 5 * chains.std() / math.sqrt(40)
    assert hmc(standard_normal, torch.zeros(4, 3), 3).history.shape == (0, 4, 3)


def test_jitter_prevents_periodic_chains(generator: Generator) -> None:
    """A step of 1 turns a normal by 60°, so six of them bring every chain back."""
    x = torch.zeros(500, 1)
    moves = {"leapfrog": 6, "step_size": 1.0, "adapt": None, "generator": generator}
    fixed = hmc(standard_normal, x + 1, 30, jitter=0.0, **moves)
    torch.testing.assert_close(fixed.samples, x + 1)
    jittered = hmc(standard_normal, x + 1, 60, jitter=0.3, **moves)
    assert_moments(jittered.samples, torch.zeros(1), torch.eye(1))


def test_starting_points_outside_of_the_support_are_refused() -> None:
    with pytest.raises(ValueError, match=r"not finite at the starting points in rows \[1\] of 2"):
        hmc(lambda x: x.log().sum(1), torch.tensor([[1.0], [-1.0]]), 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"leapfrog": 0}, "leapfrog must be an integer of at least 1, but is 0"),
        ({"burn_in": -1}, "burn_in must be an integer of at least 0"),
        ({"every": 0}, "every must be"),
        ({"jitter": 1.0}, "jitter must be at least 0 and less than 1"),
        ({"step_size": 0.6}, "between 0.0001 and 0.5"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hmc(standard_normal, torch.zeros(1, 1), 1, **wrong)  # type: ignore[arg-type]
