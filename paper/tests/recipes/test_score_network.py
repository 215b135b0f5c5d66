"""Score networks: the true score of simple images draws these images."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.noise import Geometric
from fdsm.objectives import AnnealedDSM
from paper.data import Dataset, Digits
from paper.recipes import Frechet, RandomFeatures, ScoreNetwork
from paper.recipes.frechet import for_validation

from .recipe_cases import silent, splits

LEVELS = Geometric(1.0, 0.05, 6)


class TrueScore(nn.Module):
    """The score of noisy images that are all 0.3 or all 0.7 with equal probability."""

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        variance = sigma.square()[:, None, None, None]
        both = torch.stack([x - 0.3, x - 0.7])
        weights = (-both.square().sum((2, 3, 4), keepdim=True) / (2 * variance)).softmax(0)
        return -(weights * both).sum(0) / variance


def two_grays() -> Dataset:
    images = torch.tensor([0.3, 0.7]).repeat(250)[:, None, None, None].expand(-1, 1, 4, 4)
    return splits(images, images, images)


def network(samples: int = 500) -> ScoreNetwork:
    distance = Frechet(RandomFeatures((4, 8)), samples)
    return ScoreNetwork(
        "network",
        AnnealedDSM(LEVELS),
        Digits(),
        LEVELS,
        width=8,
        steps=10,
        step_size=7.5e-4,
        denoise=True,
        distance=distance,
        watched=replace(distance, reference=for_validation),
    )


def test_true_score_draws_the_images_and_has_no_distance(generator: Generator) -> None:
    recipe = network()
    measured = recipe.evaluate(TrueScore(), two_grays(), generator)
    zero = recipe.evaluate(cast(nn.Module, lambda x, sigma: 0 * x), two_grays(), generator)
    assert measured["fid"].value < zero["fid"].value / 100
    assert measured["denoising"].value == pytest.approx(0, abs=0.1)
    assert zero["denoising"].value == pytest.approx(1, abs=0.1)
    assert measured["fid"].settings["fake"] == 500
    x = recipe.sample(TrueScore(), torch.Size([1, 4, 4]), 400, generator, silent)
    dark, light = (x.mean((1, 2, 3)) < 0.5), (x.mean((1, 2, 3)) > 0.5)
    assert x[dark].mean().item() == pytest.approx(0.3, abs=0.01)
    assert x[light].mean().item() == pytest.approx(0.7, abs=0.01)
    assert 0.35 < dark.float().mean().item() < 0.65


def test_distance_at_validation_is_optional(generator: Generator) -> None:
    watched = network(60).validate(TrueScore(), two_grays(), generator)
    assert list(watched) == ["denoising", "fid"]
    alone = replace(network(), watched=None).validate(TrueScore(), two_grays(), generator)
    assert list(alone) == ["denoising"]


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="are not those of the network"):
        replace(network(), levels=Geometric(5.0, 0.01, 10))
    with pytest.raises(ValueError, match=r"needs images, but an event has shape \(3,\)"):
        network().build(torch.Size([3]))
