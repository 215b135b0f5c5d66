"""Convolutions, and folding and unfolding of images."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

from ..algebra import as_batch, from_batch, map_images
from ..jet import Jet
from ..registry import MissingRule, Rule, rule
from .arithmetic import shifted


def _convolution(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a convolution over `dimensions` dimensions, with constant weights."""

    def convolved(
        x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not isinstance(x, Jet) or isinstance(weight, Jet) or isinstance(bias, Jet):
            raise MissingRule(
                f"Taylor has no rule for `torch.{function.__name__}` with weights that depend on "
                "the input of the model"
            )
        batched = x.ndim == dimensions + 2
        y = function(as_batch(x, batched), weight, None, *args, **kwargs)
        if bias is not None:
            y = shifted(y, bias.view(-1, *[1] * dimensions), len(x) if batched else 1)
        return from_batch(y, x, batched)

    return convolved


for _n in (1, 2, 3):
    for _name in (f"conv{_n}d", f"conv_transpose{_n}d"):
        rule(_name)(_convolution(getattr(functional, _name), _n))
rule(functional.fold)(map_images(functional.fold, 2))
rule(functional.unfold)(map_images(functional.unfold, 3))
