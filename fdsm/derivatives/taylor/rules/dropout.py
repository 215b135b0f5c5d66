"""Dropout. All coefficients share one mask."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..jet import Jet, assign_, snapshot
from ..registry import rule


def _dropping(mask: Callable[[Tensor, float, bool], Tensor]) -> Callable[..., Jet]:
    """Return the rule of a dropout function, given how to draw its mask."""

    def applied(
        input: Jet, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: bool
    ) -> Jet:
        if p == 0 or not kwargs.get("train", training):
            return input
        scale = mask(torch.ones_like(input.value.detach()), p, True)
        x = snapshot(input) if inplace else input
        result = Jet(x.coefficients * scale, x.truncation)
        return assign_(input, result) if inplace else result

    return applied


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"):
    rule(_name)(_dropping(getattr(functional, _name, torch.feature_dropout)))


def _alpha_dropping(shape: Callable[[Tensor], Sequence[int]]) -> Callable[..., Tensor]:
    r"""Return the rule of a dropout to $-α$ that preserves mean and variance."""

    def applied(
        input: Jet, p: float = 0.5, training: bool = False, inplace: bool = False, **kwargs: bool
    ) -> Tensor:
        if p == 0 or not kwargs.get("train", training):
            return input
        if p == 1:
            return input * 0
        noise = input.value.new_empty(shape(input.value)).bernoulli_(1 - p)
        scale = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5
        x = snapshot(input) if inplace else input
        result: Any = x * (scale * noise) + _ALPHA * scale * (noise - 1 + p)
        return assign_(input, result) if inplace else result

    return applied


_ALPHA = 1.7580993408473766
rule("alpha_dropout")(_alpha_dropping(lambda x: x.shape))
rule("feature_alpha_dropout")(_alpha_dropping(lambda x: [*x.shape[:2], *[1] * (x.ndim - 2)]))
