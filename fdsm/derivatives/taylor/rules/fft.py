"""Fourier transforms, which are linear."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..algebra import Dims, dims_of, shift_dim
from ..jet import Jet
from ..registry import MissingRule, Rule, extend_to_complex, rule


def _along_one(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a transform along one dimension."""

    def applied(input: Jet, n: int | None = None, dim: int = -1, norm: str | None = None) -> Jet:
        return Jet(function(input.coefficients, n, shift_dim(dim), norm), input.truncation)

    return applied


def _along_several(function: Callable[..., Tensor], default: tuple[int, ...] | None) -> Rule:
    """Return the rule of a transform along several dimensions, or all, or those with sizes."""

    def applied(
        input: Jet,
        s: Sequence[int] | None = None,
        dim: Dims | None = default,
        norm: str | None = None,
    ) -> Jet:
        last = tuple(range(-len(s), 0)) if s and dim is None else dim
        dims = [shift_dim(d) for d in dims_of(input, last)]
        return Jet(function(input.coefficients, s, dims, norm), input.truncation)

    return applied


def _shifting(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of a function that reorders frequencies along some dimensions, or all."""

    def applied(input: Jet, dim: Dims | None = None) -> Jet:
        dims = [shift_dim(d) for d in dims_of(input, dim)]
        return Jet(function(input.coefficients, dims), input.truncation)

    return applied


for _name in ("fft", "hfft", "ifft", "ihfft", "irfft", "rfft"):
    _in_1d, _in_2d, _in_nd = (getattr(torch.fft, f"{_name}{suffix}") for suffix in ("", "2", "n"))
    rule(_in_1d)(_along_one(_in_1d))
    rule(_in_2d)(_along_several(_in_2d, (-2, -1)))
    rule(_in_nd)(_along_several(_in_nd, None))
    extend_to_complex(_in_1d, _in_2d, _in_nd)
for _name in ("fftshift", "ifftshift"):
    _function = getattr(torch.fft, _name)
    rule(_function)(_shifting(_function))
    extend_to_complex(_function)


def _short_time(function: Callable[..., Tensor]) -> Callable[..., Jet]:
    """Return the rule of a short-time Fourier transform, or of its inverse."""

    def applied(input: Jet, *args: Any, **kwargs: Any) -> Jet:
        if any(isinstance(x, Jet) for x in (*args, *kwargs.values())):
            raise MissingRule(
                f"Taylor has no rule for `torch.{function.__name__}` with a window that depends "
                "on the input of the model"
            )
        rows = [function(c, *args, **kwargs) for c in input.coefficients]
        return Jet(torch.stack(rows), input.truncation)

    return applied


for _name in ("stft", "istft"):
    rule(_name)(_short_time(getattr(torch, _name)))
extend_to_complex("stft", "istft")
