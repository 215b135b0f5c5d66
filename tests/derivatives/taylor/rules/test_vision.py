"""Resampling, shuffling and padding of images."""

import pytest
import torch
from torch.nn import functional

from fdsm.derivatives import MissingRule, Taylor
from fdsm.derivatives.taylor.rules import vision

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, parameters

C, F = constant, functional
CASES: dict[str, tuple[Rule, ...]] = {
    "interpolate": (
        lambda x: F.interpolate(x, 7),
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        lambda x: F.interpolate(x, 6, mode="nearest-exact"),
        lambda x: F.interpolate(x[:, None], (5, 6), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x[:, None], scale_factor=(2, 1.5), mode="bicubic"),
        lambda x: F.interpolate(x[:, None], (2, 2), mode="bilinear", antialias=True),
        lambda x: F.interpolate(x[:, None], size=(2, 3), mode="area"),
        lambda x: F.interpolate(x[:, None, None], scale_factor=2, mode="trilinear"),
        lambda x: F.interpolate(x, scale_factor=1.3, mode="linear", recompute_scale_factor=True),
    ),
    "grid_sample": (
        lambda x: F.grid_sample(x[:, None], C(2, 3, 3, 2).tanh(), align_corners=False),
        lambda x: F.grid_sample(
            x[:, None], C(2, 3, 3, 2), "nearest", "border", align_corners=True
        ),
    ),
    "channel_shuffle": (lambda x: F.channel_shuffle(x.mT[:, :, :, None], 2),),
    "pixel_shuffle": (
        lambda x: F.pixel_shuffle(x.mT[:, :, :, None], 2),
        lambda x: torch.pixel_shuffle(x.mT[0, :, :, None], 2),
    ),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[:, None, :2], 2),),
    "pad": (
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, [0, 1, 2, 0], value=3.5),
        lambda x: F.pad(x, (-1, 1, 1, -1, 0, 2), "constant", -1.0),
        lambda x: F.pad(x, (1, 2), mode="reflect"),
        lambda x: F.pad(x[:, None], (1, 2, 1, 0), mode="replicate"),
        lambda x: F.pad(x, (1, 2), "circular"),
        lambda x: F.pad(x[0], (1, 2), mode="reflect"),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(vision) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


def test_a_grid_that_depends_on_the_input_is_refused() -> None:
    f = lambda x: functional.grid_sample(constant(2, 1, 3, 3), x[:, None, None, :2])
    with pytest.raises(MissingRule, match="Taylor"):
        Taylor().jet(lambda x: f(x).reshape(2, -1).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
