"""Quantiles, which are piecewise linear in the sorted elements."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..algebra import value_of
from ..jet import Jet
from ..registry import MissingRule, Rule, rule
from .piecewise import warn_kink


def _quantiles(name: str, ignore_nan: bool) -> Rule:
    """Return the rule of quantiles along a dimension, or of all elements."""

    def applied(
        input: Tensor,
        q: Tensor | float,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        if isinstance(q, Jet) or not isinstance(input, Jet):
            raise MissingRule(f"Taylor has no rule for `torch.{name}` if `q` depends on the input")
        warn_kink(name, input)
        shape = [1] * input.ndim
        if dim is not None:
            shape = [n if d != dim % input.ndim else 1 for d, n in enumerate(input.shape)]
        rows = input.reshape(-1) if dim is None else input.movedim(dim, -1)
        value = value_of(rows).detach()
        ordered = rows.gather(-1, value.argsort(-1))
        ranks = torch.as_tensor(q, dtype=input.dtype, device=input.device)
        below, above, weight = _neighbors(ranks.reshape(-1), value, interpolation, ignore_nan)
        low, high = ordered.gather(-1, below), ordered.gather(-1, above)
        result = (low + weight * (high - low)).movedim(-1, 0)
        if keepdim:
            result = result.reshape(-1, *shape)
        return result if ranks.ndim else result.squeeze(0)

    return applied


rule("quantile")(_quantiles("quantile", ignore_nan=False))
rule("nanquantile")(_quantiles("nanquantile", ignore_nan=True))


def _neighbors(
    q: Tensor, value: Tensor, interpolation: str, ignore_nan: bool
) -> tuple[Tensor, Tensor, Tensor | float]:
    """Return the ranks below and above the quantiles, and the weight of the latter.

    Elements that are NaN are sorted last, so a row that has one has its last element as quantile.
    """
    missing = value.isnan().sum(-1, keepdim=True)
    last = value.shape[-1] - 1
    if ignore_nan:
        rank = q * (last - missing).clamp(min=0).to(q.dtype)
    else:
        rank = torch.where(missing > 0, last, q * last)
    rank = _ROUNDED[interpolation](rank)
    below, above = rank.floor(), rank.ceil()
    weight = 0.5 if interpolation == "midpoint" else rank - below
    return below.long(), above.long(), weight


_ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": torch.positive,
    "midpoint": torch.positive,
    "lower": torch.floor,
    "higher": torch.ceil,
    "nearest": torch.round,
}
