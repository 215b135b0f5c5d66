"""Noise levels are spread as they claim."""

import math

import pytest
import torch
from torch import Generator

from fdsm.noise import Arithmetic, ConstantNoise, Geometric, LogNormal, LogUniform


def test_geometric_levels_have_a_constant_ratio() -> None:
    levels = torch.tensor(Geometric(1.0, 0.01, 10).levels)
    torch.testing.assert_close(levels[1:] / levels[:-1], torch.full((9,), 0.01 ** (1 / 9)))
    torch.testing.assert_close(levels[[0, -1]], torch.tensor([1.0, 0.01]))


@pytest.mark.parametrize("levels", [Geometric(2.0, 0.5, 3), Arithmetic(2.0, 0.5, 3)])
def test_all_levels_have_the_same_probability(
    levels: Geometric | Arithmetic, generator: Generator
) -> None:
    sigma = levels.sample(torch.empty(30_000, 2), generator)
    expected = [0.5, 1.0, 2.0] if isinstance(levels, Geometric) else [0.5, 1.25, 2.0]
    values, counts = sigma.unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor(expected))
    assert (counts - 10_000).abs().max() < 5 * 30_000**0.5


def test_arithmetic_levels_are_spread_over_the_batch_in_order() -> None:
    sigma = Arithmetic(0.05, 1.2).sample(torch.empty(128, 3))
    torch.testing.assert_close(sigma, torch.linspace(0.05, 1.2, 128))


def test_each_part_of_the_logarithmic_range_has_one_level(generator: Generator) -> None:
    sigma = LogUniform(2.0, 0.05).sample(torch.empty(64, 3), generator)
    share = (sigma / 0.05).log() / math.log(2.0 / 0.05)
    assert torch.equal((64 * share).floor(), torch.arange(64.0))
    uniform = torch.rand(64, generator=Generator().manual_seed(0))
    torch.testing.assert_close(64 * share - torch.arange(64), uniform)


@pytest.mark.parametrize("batch", [1, 7])
def test_logarithms_of_levels_are_uniform(batch: int, generator: Generator) -> None:
    """Also without stratification, in batches of one row."""
    levels, x = LogUniform(2.0, 0.05), torch.empty(batch, 2)
    sigma = torch.cat([levels.sample(x, generator) for _ in range(4000 // batch)])
    assert sigma.min() >= 0.05
    assert sigma.max() <= 2.0
    share = (sigma / 0.05).log() / math.log(2.0 / 0.05)
    assert share.mean().item() == pytest.approx(1 / 2, abs=0.02)
    assert share.var().item() == pytest.approx(1 / 12, abs=0.005)


@pytest.mark.parametrize("batch", [1, 8])
def test_logarithms_of_levels_are_normal(batch: int, generator: Generator) -> None:
    """Mean, variance and fourth moment; one level in each part of equal probability."""
    levels, x = LogNormal(3.0, 0.5), torch.empty(batch, 2)
    sigma = torch.stack([levels.sample(x, generator) for _ in range(40_000 // batch)])
    z = (sigma / 3.0).log() / 0.5
    assert z.mean().item() == pytest.approx(0.0, abs=0.02)
    assert z.var().item() == pytest.approx(1.0, abs=0.03)
    assert (z**4).mean().item() == pytest.approx(3.0, abs=0.2)
    share = torch.special.ndtr(z)
    assert torch.equal(
        (batch * share).floor().clamp(0), torch.arange(batch).expand_as(share) * 1.0
    )


def test_log_normal_levels_are_never_zero_or_infinite() -> None:
    """In float32 the shares of the first and last of three million rows round to 0 and 1."""
    sigma = LogNormal(1.0, 5.0).sample(torch.empty(3_000_000, 1, dtype=torch.float32))
    assert sigma.min() > 0
    assert sigma.isfinite().all()


def test_constant_level() -> None:
    assert ConstantNoise(0.3).sample(torch.empty(2, 3)).tolist() == [0.3, 0.3]


def test_levels_have_the_dtype_of_the_data() -> None:
    x = torch.empty(4, 2).float()
    for levels in (
        ConstantNoise(0.3),
        Geometric(1.0, 0.1, 2),
        Arithmetic(1.0, 0.1),
        LogUniform(1.0, 0.1),
        LogNormal(1.0, 0.1),
    ):
        assert levels.sample(x).dtype == torch.float32
        with pytest.raises(TypeError, match="floating-point"):
            levels.sample(x.long())


def test_invalid_levels_are_refused() -> None:
    for make in (
        lambda: ConstantNoise(0.0),
        lambda: Geometric(1.0, -1.0, 3),
        lambda: Arithmetic(0.0, 1.0),
        lambda: LogUniform(1.0, 0.0),
        lambda: LogNormal(0.0, 1.0),
        lambda: ConstantNoise(float("nan")),
    ):
        with pytest.raises(ValueError, match="noise levels must be positive"):
            make()
    with pytest.raises(ValueError, match="std must be a number of at least zero"):
        LogNormal(1.0, -1.0)
    with pytest.raises(ValueError, match="at least one noise level"):
        Geometric(1.0, 0.1, 0)
    with pytest.raises(ValueError, match="at least one noise level"):
        Arithmetic(1.0, 0.1, 0)
