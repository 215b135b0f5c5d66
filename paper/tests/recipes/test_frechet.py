"""Fréchet distances of samples, compared with closed forms."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Generator, Tensor

from fdsm.evaluation import Features, Pixels, fid
from paper.data import Affine, Chain, Dataset, Digits, Noise, ToFloat
from paper.recipes.frechet import (
    Frechet,
    RandomFeatures,
    for_test,
    for_training,
    for_validation,
)
from paper.recipes.random_features import RandomConvolutions

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _double(_float32: None) -> None:
    torch.set_default_dtype(torch.float64)


@dataclass(frozen=True)
class OfPixels:
    def load(self) -> Features:
        return Pixels()


def normal(n: int, mean: float, sigma: float, seed: int) -> Tensor:
    noise = torch.randn(n, 1, 2, 2, generator=Generator().manual_seed(seed))
    return mean + sigma * noise


def three() -> Dataset:
    """Return data whose three splits have the means 0.3, 0.4 and 0.5."""
    train, validation, test = (normal(20_000, m, 0.05, seed=0) for m in (0.3, 0.4, 0.5))
    return Dataset(train, validation, test, Chain(()), {})


@pytest.mark.parametrize(
    ("reference", "mean"), [(for_training, 0.3), (for_validation, 0.4), (for_test, 0.5)]
)
def test_distance_of_two_gaussians_is_the_closed_form(reference: object, mean: float) -> None:
    """For four pixels it is $4 (μ_1 - μ_2)² + 4 (σ_1 - σ_2)²$."""
    how = Frechet(OfPixels(), 20_000, reference, images=20_000, at_once=6000)  # type: ignore[arg-type]
    counts: list[int] = []

    def draw(n: int) -> Tensor:
        counts.append(n)
        return normal(n, 0.6, 0.08, seed=10 + len(counts))

    measured = how(draw, three(), CPU)
    expected = 4 * (0.6 - mean) ** 2 + 4 * (0.08 - 0.05) ** 2
    assert measured.value == pytest.approx(expected, rel=0.03)
    assert counts == [6000, 6000, 6000, 2000]
    assert measured.settings["fake"] == measured.settings["real"] == 20_000
    assert measured.settings["on"] == reference.__name__  # type: ignore[attr-defined]


def test_images_are_compared_as_they_are_stored(generator: Generator) -> None:
    """They do not depend on the transform of the model or its noise."""
    images = torch.randint(256, (500, 3, 4, 4), generator=generator, dtype=torch.uint8)
    images[0] = 255
    chain = Chain((ToFloat(), Affine(2.0, -1.0), Noise(0.3)))
    data = Dataset(images, images, images, chain, {})
    how = Frechet(RandomFeatures((4, 8)), 500)
    same = how(lambda n: chain.deterministic(images[:n]), data, CPU)
    assert same.value == pytest.approx(0, abs=1e-6)
    darker = how(lambda n: chain.deterministic(images[:n] // 2), data, CPU)
    expected = fid(RandomConvolutions((4, 8)), images, images // 2)
    assert darker.value == pytest.approx(expected.value, rel=1e-6)


def test_distance_with_random_features_grows_with_noise() -> None:
    data = Digits(transform=ToFloat(16)).load()
    rows = data.transform.deterministic(data.test)
    noise = torch.randn(rows.shape, generator=Generator().manual_seed(0))
    how = Frechet(RandomFeatures((8, 16)), len(rows))
    noisy = [rows + sigma * noise for sigma in (0.0, 0.1, 0.3, 0.9)]
    found = [how(partial(torch.narrow, x, 0, 0), data, CPU).value for x in noisy]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found == sorted(found)


def test_seed_decides_random_features() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = (RandomConvolutions((4, 8), seed) for seed in (0, 0, 1))
    images = torch.rand(5, 1, 8, 8)
    torch.set_rng_state(before)
    assert torch.equal(first(images), again(images))
    assert not torch.equal(first(images), other(images))
    assert "seed 1" in other.name
    gray = images.expand(-1, 3, -1, -1)
    torch.testing.assert_close(first(images), first(gray))
