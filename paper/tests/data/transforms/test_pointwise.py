"""Tests of elementwise transforms."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator

from paper.data import Affine, Binarize, Dequantize, Jitter, Logit, Noise, ToFloat, Transform

from .transform_cases import LEVELS


def test_dequantized_levels_are_uniform_in_their_interval(generator: Generator) -> None:
    x = torch.arange(17).repeat(20_000, 1)
    y = Dequantize(17).sample(x, generator)
    assert torch.equal((y * 17).floor().long(), x)
    error = 1 / 17 / math.sqrt(12 * len(x))
    torch.testing.assert_close(
        y.mean(0), Dequantize(17).deterministic(x[:1])[0], atol=5 * error, rtol=0
    )
    torch.testing.assert_close(y.var(0), torch.full((17,), 1 / 12 / 17**2), rtol=0.05, atol=0)


@pytest.mark.parametrize(
    ("transform", "variance"), [(Jitter(0.3), 0.3**2 / 12), (Noise(0.3), 0.3**2)]
)
def test_noise_has_mean_zero_and_the_expected_variance(
    transform: Transform, variance: float, generator: Generator
) -> None:
    x = torch.full((100_000, 1), 2.0)
    y = transform.sample(x, generator) - x
    assert abs(y.mean()) < 5 * math.sqrt(variance / len(y))
    assert y.var() == pytest.approx(variance, rel=0.03)


def test_jitter_stays_within_its_width(generator: Generator) -> None:
    y = Jitter(0.3).sample(torch.zeros(10_000, 1), generator)
    assert 0.149 < y.abs().max() <= 0.15


def test_the_frequency_of_ones_is_the_pixel_value(generator: Generator) -> None:
    x = torch.tensor([0.0, 0.2, 0.7, 1.0]).repeat(50_000, 1)
    y = Binarize().sample(x, generator)
    assert set(y.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(y.mean(0), x[0], atol=5 * 0.5 / math.sqrt(len(x)), rtol=0)
    assert Binarize().deterministic(x[:1]).tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_the_logit_is_clamped_at_the_margin() -> None:
    y = Logit(1e-3).deterministic(torch.tensor([[0.0, 1e-4, 0.5, 1.0]]))
    edge = math.log(0.001 / 0.999)
    torch.testing.assert_close(y, torch.tensor([[edge, edge, 0.0, -edge]]))


def test_integers_are_converted_to_the_default_dtype() -> None:
    for transform in (ToFloat(), Dequantize(), Affine(1.0), Noise(0.0)):
        assert transform.sample(LEVELS).dtype == torch.float64


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "levels": (lambda: Dequantize(1), "levels must be at least 2, but is 1"),
    "max_value": (lambda: ToFloat(0), "max_value must be at least 1, but is 0"),
    "scale": (lambda: Affine(0.0), "scale must not be 0"),
    "margin": (lambda: Logit(0.5), r"margin must be in \(0, 0\.5\), but is 0\.5"),
    "sigma": (lambda: Noise(-1.0), r"sigma must be finite and not negative, but is -1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_arguments_raise(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()
