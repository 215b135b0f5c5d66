"""Vision functions: resampling, shuffling and padding of images."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import as_batch, from_batch, map_coefficients, map_images
from ..jet import Jet
from ..registry import MissingRule, rule

rule(functional.interpolate)(map_images(functional.interpolate, 1))


@rule(functional.grid_sample)
def grid_sample(input: Tensor, grid: Tensor, *args: Any, **kwargs: Any) -> Jet:
    """Return images sampled at the points of a grid.

    Raises:
        MissingRule: If the grid depends on the input of the model.
    """
    if not isinstance(input, Jet) or isinstance(grid, Jet):
        raise MissingRule(
            "Taylor has no rule for `torch.nn.functional.grid_sample` with a grid that depends on "
            "the input of the model"
        )
    grids = grid.repeat(len(input.coefficients), *[1] * (grid.ndim - 1))
    return from_batch(
        functional.grid_sample(as_batch(input, True), grids, *args, **kwargs), input, True
    )


for _name in ("channel_shuffle", "pixel_shuffle", "pixel_unshuffle"):  # fmt: skip
    rule(_name)(map_coefficients(getattr(torch, _name)))


@rule(functional.pad)
def pad(x: Jet, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad a tensor on its borders."""
    if mode != "constant":
        return Jet(
            torch.vmap(lambda c: functional.pad(c, pad, mode))(x.coefficients), x.truncation
        )
    result = Jet(functional.pad(x.coefficients, pad), x.truncation)
    if not value:
        return result
    return result + functional.pad(torch.zeros_like(x.value.detach()), pad, value=value)
