"""Noise-conditional recipes: the true score of simple images, and where their rows are from."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.data import Chain, Dataset, ImageFolder
from fdsm.paper.tables import table5 as ncsn
from fdsm.recipes.frechet import Frechet, RandomFeatures, for_validation
from fdsm.recipes.score_network import ScoreNetwork


@pytest.fixture(autouse=True)
def _as_users_have_it() -> None:
    torch.set_default_dtype(torch.float32)


class TrueScore(nn.Module):
    """The score of images that are all grey, 0.3 or 0.7 with equal probability, and noise."""

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        variance = sigma.square()[:, None, None, None]
        both = torch.stack([x - 0.3, x - 0.7])
        weights = (-both.square().sum((2, 3, 4), keepdim=True) / (2 * variance)).softmax(0)
        return -(weights * both).sum(0) / variance


def greys() -> Dataset:
    images = torch.tensor([0.3, 0.7]).repeat(250)[:, None, None, None].expand(-1, 1, 4, 4)
    return Dataset(images, images, images, Chain(()), {})


def recipe(samples: int = 500) -> ScoreNetwork:
    distance = Frechet(RandomFeatures((4, 8)), samples)
    return replace(
        ncsn.CPU[0], distance=distance, watched=replace(distance, reference=for_validation)
    )


def test_the_true_score_draws_the_images_and_has_no_distance(generator: Generator) -> None:
    measured = recipe().evaluate(TrueScore(), greys(), generator)
    none = recipe().evaluate(cast(nn.Module, lambda x, sigma: 0 * x), greys(), generator)
    assert measured["fid"].value < none["fid"].value / 100
    assert measured["denoising"].value == pytest.approx(0, abs=0.1)
    assert none["denoising"].value == pytest.approx(1, abs=0.1)
    assert measured["fid"].settings["fake"] == 500
    x = recipe().sample(TrueScore(), torch.Size([1, 4, 4]), 400, generator, iter)
    dark, light = (x.mean((1, 2, 3)) < 0.5), (x.mean((1, 2, 3)) > 0.5)
    assert x[dark].mean().item() == pytest.approx(0.3, abs=0.01)
    assert x[light].mean().item() == pytest.approx(0.7, abs=0.01)
    assert 0.35 < dark.float().mean().item() < 0.65


def test_the_distance_is_watched_with_fewer_samples(generator: Generator) -> None:
    watched = recipe(60).validate(TrueScore(), greys(), generator)
    assert list(watched) == ["denoising", "fid"]
    alone = replace(recipe(), watched=None).validate(TrueScore(), greys(), generator)
    assert list(alone) == ["denoising"]


def test_other_images_are_compared_by_features_that_fit_them() -> None:
    """A classifier of grey digits would not take photographs."""
    other = ncsn.CPU[0].with_data(ImageFolder("photos"))
    assert other.watched is not None
    assert other.distance.features == other.watched.features == RandomFeatures()
    assert other.distance.name == other.watched.name == "frechet_random"
