"""Quantiles, which are piecewise linear in the sorted elements."""

import torch
from torch import Tensor

from ..algebra import value_of
from ..jet import Jet
from ..registry import MissingRule, rule
from .piecewise import warn_kink


@rule("quantile")
def quantile(
    input: Jet,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return quantiles along a dimension, or of all elements; NaN if there is any."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, ignore_nan=False)


@rule("nanquantile")
def nanquantile(
    input: Jet,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return quantiles along a dimension, or of all elements, without those that are NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, ignore_nan=True)


def _quantile(
    name: str,
    x: Tensor,
    q: Tensor | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Tensor:
    """Return quantiles, interpolated between the sorted elements below and above a rank.

    Raises:
        MissingRule: If `q` depends on the input of the model.
    """
    if isinstance(q, Jet) or not isinstance(x, Jet):
        raise MissingRule(f"Taylor has no rule for `torch.{name}` if `q` depends on the input")
    warn_kink(name, x)
    shape = [1] * x.ndim
    if dim is not None:
        shape = [n if d != dim % x.ndim else 1 for d, n in enumerate(x.shape)]
    rows = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    value = value_of(rows).detach()
    ordered = rows.gather(-1, value.argsort(-1))
    ranks = torch.as_tensor(q, dtype=x.dtype, device=x.device)
    below, above, weight = _neighbours(ranks.reshape(-1), value, interpolation, ignore_nan)
    low, high = ordered.gather(-1, below), ordered.gather(-1, above)
    result = (low + weight * (high - low)).movedim(-1, 0)
    if keepdim:
        result = result.reshape(-1, *shape)
    return result if ranks.ndim else result.squeeze(0)


def _neighbours(
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
    if interpolation == "nearest":
        rank = rank.round()
    below, above = rank.floor(), rank.ceil()
    weight: Tensor | float = rank - below
    if interpolation in _WEIGHTS:
        weight = _WEIGHTS[interpolation]
    return below.long(), above.long(), weight


_WEIGHTS = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}
