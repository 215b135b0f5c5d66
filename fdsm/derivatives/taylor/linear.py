"""Rules of functions that are linear in their first argument."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, MissingRule, Rule, rule
from .products import shifted


def each(function: Callable[..., Any]) -> Rule:
    """Return the rule of a linear function: the function of each coefficient."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Any:
        results = torch.vmap(lambda c: function(c, *args, **kwargs))(x.coefficients)
        if isinstance(results, Tensor):
            return Jet(results, x.truncation)
        return type(results)([Jet(result, x.truncation) for result in results])

    return applied


def _convolution(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a convolution with constant weights over so many dimensions."""

    def convolved(
        x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not isinstance(x, Jet) or isinstance(weight, Jet) or isinstance(bias, Jet):
            raise MissingRule(
                f"Taylor has no rule for `torch.{function.__name__}` with weights that depend on "
                "the input of the model"
            )
        batched = x.ndim == dimensions + 2
        y = function(_rows(x, batched), weight, None, *args, **kwargs)
        if bias is not None:
            y = shifted(y, bias.view(-1, *[1] * dimensions), len(x) if batched else 1)
        return _jet(y, x, batched)

    return convolved


def _images(function: Callable[..., Tensor], dimensions: int) -> Rule:
    """Return the rule of a linear function of images, of so many dimensions without a batch."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        batched = x.ndim > dimensions
        return _jet(function(_rows(x, batched), *args, **kwargs), x, batched)

    return applied


def _rows(x: Jet, batched: bool) -> Tensor:
    """Return all coefficients as one batch."""
    return x.coefficients.flatten(0, 1) if batched else x.coefficients


def _jet(y: Tensor, x: Jet, batched: bool) -> Jet:
    """Undo `_rows`."""
    return Jet(y.view(-1, len(x), *y.shape[1:]) if batched else y, x.truncation)


for _n in (1, 2, 3):
    for _name in (f"conv{_n}d", f"conv_transpose{_n}d"):
        rule(_name)(_convolution(getattr(functional, _name), _n))
    for _name in (f"avg_pool{_n}d", f"adaptive_avg_pool{_n}d"):
        rule(_name)(_images(getattr(functional, _name), _n + 1))
rule(functional.interpolate)(_images(functional.interpolate, 1))
rule(functional.fold)(_images(functional.fold, 2))
rule(functional.unfold)(_images(functional.unfold, 3))

for _name in (
    "channel_shuffle", "cumsum", "diag", "diag_embed", "diagonal", "diff", "flip", "fliplr",
    "flipud", "gather", "moveaxis", "movedim", "pixel_shuffle", "pixel_unshuffle",
    "repeat_interleave", "roll", "rot90", "take", "take_along_dim", "trace", "tril", "triu",
):  # fmt: skip
    rule(_name)(each(getattr(torch, _name)))
rule(Tensor.unfold)(each(Tensor.unfold))


@rule("sum")
def sum_(
    x: Jet,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Jet:
    """Return the sum over some dimensions, or all."""
    dims = _dims(x, dim)
    if not dims:
        return Jet(x.coefficients.to(dtype or x.dtype), x.truncation)
    return Jet(x.coefficients.sum(dims, keepdim, dtype=dtype), x.truncation)


@rule("mean")
def mean(
    x: Jet,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Jet:
    """Return the mean over some dimensions, or all."""
    dims = _dims(x, dim)
    if not dims:
        return Jet(x.coefficients.to(dtype or x.dtype), x.truncation)
    return Jet(x.coefficients.mean(dims, keepdim, dtype=dtype), x.truncation)


def _dims(x: Jet, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return where dimensions of the value are among those of the coefficients."""
    if dim is None or dim in ((), []):
        return tuple(range(1, x.ndim + 1))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(d % x.ndim + 1 for d in dims) if x.ndim else ()


def _converted(name: str) -> Rule:
    """Return the rule of a method that changes how numbers are held, if at all."""

    def applied(x: Jet, *args: Any, **kwargs: Any) -> Jet:
        args = tuple(arg.value if isinstance(arg, Jet) else arg for arg in args)
        return Jet(getattr(x.coefficients, name)(*args, **kwargs), x.truncation)

    return applied


for _name in (
    "bfloat16", "clone", "contiguous", "cpu", "cuda", "double", "float", "half", "to", "type_as",
):  # fmt: skip
    rule(_name)(_converted(_name))
