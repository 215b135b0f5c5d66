"""The demonstration learns the density it is shown, the same for the same seed."""

import math
from unittest.mock import Mock

import pytest
import torch
from torch import Generator, Tensor

from fdsm.data import GaussianRing
from fdsm.experiments.density import (
    METHODS,
    RECORDS,
    ConfinedMLP,
    Grid,
    Learnt,
    compare,
    fisher_divergence,
)

RING = GaussianRing()


def brief(iterations: int = 20, seed: int = 0) -> dict[str, Learnt]:
    return compare(RING, METHODS, iterations=iterations, seed=seed)


def test_samples_and_model_are_float32_whatever_the_default() -> None:
    assert torch.get_default_dtype() == torch.float64
    x = RING.sample(3)
    model = ConfinedMLP()
    assert {x.dtype, model(x).dtype, *(p.dtype for p in model.parameters())} == {torch.float32}


def test_the_untrained_model_is_confined_by_a_unit_precision() -> None:
    model = ConfinedMLP()
    x = 1e3 * torch.tensor([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]], dtype=torch.float32)
    torch.testing.assert_close(
        model(x) / x.square().sum(1), torch.full((3,), -0.5).float(), atol=0.01, rtol=0
    )


def test_the_fisher_divergence_of_a_shifted_gaussian_is_the_squared_shift_of_its_score() -> None:
    target = GaussianRing(modes=1, radius=0.0, scale=0.5)
    shifted = lambda x: -(x - torch.tensor([0.3, 0.4], dtype=x.dtype)).square().sum(1) / 0.5
    x = target.sample(50)
    expected = (0.5 / 0.25) ** 2
    assert fisher_divergence(shifted, target, x) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [0.3, 0.5, 0.8])
def test_the_divergence_on_a_grid_is_that_of_two_gaussians(scale: float) -> None:
    grid = Grid()

    def gaussian(s: float) -> Tensor:
        return grid.log_density(lambda x: 7 - x.square().sum(1) / (2 * s**2))

    ratio = 0.5**2 / scale**2
    expected = ratio - 1 - math.log(ratio)
    assert grid.divergence(gaussian(0.5), gaussian(scale)) == pytest.approx(expected, abs=1e-5)


def test_a_density_on_a_grid_is_normalised_and_has_x_first() -> None:
    grid = Grid()
    peak = torch.tensor([1.0, -2.0], dtype=torch.float32)
    log_density = grid.log_density(lambda x: -20 * (x - peak).square().sum(1))
    assert log_density.exp().sum() * grid.cell() == pytest.approx(1)
    i, j = divmod(int(log_density.argmax()), grid.points)
    assert (grid.axis()[i].item(), grid.axis()[j].item()) == pytest.approx((1, -2), abs=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_asks_of_the_model_what_the_table_says(
    name: str, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradient = Mock(wraps=torch.autograd.grad)
    monkeypatch.setattr(torch.autograd, "grad", gradient)
    rows = 0

    def density(x: Tensor) -> Tensor:
        nonlocal rows
        rows += len(x)
        return RING.log_density(x)

    METHODS[name].objective(density, RING.sample(10, generator), generator=generator)
    assert rows == 10 * METHODS[name].values
    assert gradient.call_count == METHODS[name].gradients


def test_every_method_divides_the_fisher_divergence() -> None:
    learnt = brief(iterations=400)
    factors = {name: r.curve[0].fisher / r.curve[-1].fisher for name, r in learnt.items()}
    assert factors["SSM"] > 40
    assert factors["FD-SSM"] > 40
    assert factors["FD-DSM"] > 6
    assert learnt["SSM"].kl < 0.05
    assert learnt["FD-SSM"].kl < 0.05
    assert learnt["FD-DSM"].kl < 0.4


def test_methods_differ_by_their_objective_alone() -> None:
    ssm, fd_ssm, fd_dsm = brief().values()
    assert ssm.curve[0].fisher == fd_ssm.curve[0].fisher == fd_dsm.curve[0].fisher
    torch.testing.assert_close(ssm.log_density, fd_ssm.log_density, rtol=0, atol=0.02)
    assert (ssm.log_density - fd_dsm.log_density).abs().max() > 1


def test_the_divergence_is_of_the_model_from_the_target(generator: Generator) -> None:
    x = RING.sample(20_000, generator)
    grid = Grid()
    nearest = ((x + grid.half_width) * (grid.points - 1) / (2 * grid.half_width)).round().long()
    for result in brief(iterations=5).values():
        excess = RING.log_density(x).double() - result.log_density[nearest[:, 0], nearest[:, 1]]
        assert abs(excess.mean() - result.kl) < 5 * excess.std() / len(x) ** 0.5


def test_the_seed_decides_everything_but_the_times() -> None:
    first = brief(iterations=5, seed=1)
    torch.manual_seed(7)
    second, other = brief(iterations=5, seed=1), brief(iterations=5, seed=2)
    for name in METHODS:
        assert [r.fisher for r in first[name].curve] == [r.fisher for r in second[name].curve]
        assert first[name].kl == second[name].kl
        assert first[name].log_density.equal(second[name].log_density)
        assert first[name].kl != other[name].kl


def test_the_curve_is_recorded_at_even_intervals_with_the_time_spent() -> None:
    (learnt,) = compare(RING, {"FD-SSM": METHODS["FD-SSM"]}, iterations=40, seed=0).values()
    assert [record.iteration for record in learnt.curve] == list(range(0, 41, 40 // RECORDS))
    seconds = [record.seconds for record in learnt.curve]
    assert seconds == sorted(seconds)
    assert seconds[0] == 0
    assert 0.02 * learnt.milliseconds <= seconds[-1]


def test_a_comparison_leaves_no_trace_in_torch() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(3)
    brief(iterations=1)
    after = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert after == 3
    assert torch.get_rng_state().equal(state)


def test_no_iterations_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one iteration, but got 0"):
        brief(iterations=0)
