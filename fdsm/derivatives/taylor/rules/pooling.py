"""Pooling functions: averages, which are linear, and maxima, which have kinks."""

import math
from collections.abc import Callable
from typing import Any

from torch.nn import functional

from ..algebra import map_images
from ..jet import Jet
from ..registry import rule
from .piecewise import warn_kink

for _n in (1, 2, 3):
    for _name in (f"avg_pool{_n}d", f"adaptive_avg_pool{_n}d"):
        rule(_name)(map_images(getattr(functional, _name), _n + 1))


def _pooling(name: str, function: Callable[..., Any], dimensions: int) -> Callable[..., Any]:
    """Return the rule of a maximum over windows of images, together with its indices."""

    def applied(input: Jet, *args: Any, return_indices: bool = True, **kwargs: Any) -> Any:
        warn_kink(name, input)
        _, indices = function(input.value.detach(), *args, **kwargs)
        c = input.coefficients.flatten(-dimensions)
        c = c.gather(
            -1, indices.flatten(-dimensions).expand(len(c), *indices.shape[:-dimensions], -1)
        )
        return Jet(c.reshape(len(c), *indices.shape), input.truncation), indices

    return applied


def _without_indices(pooling: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule without the indices."""
    return lambda *args, **kwargs: pooling(*args, **kwargs)[0]


for _n in (1, 2, 3):
    _name = f"max_pool{_n}d"
    _pool = _pooling(_name, getattr(functional, f"{_name}_with_indices"), _n)
    rule(_name)(_without_indices(_pool))
    rule(f"{_name}_with_indices")(_pool)
    _name = f"adaptive_max_pool{_n}d"
    _pool = _pooling(_name, getattr(functional, f"{_name}_with_indices"), _n)
    rule(_name, f"{_name}_with_indices")(_pool)
    rule(getattr(functional, _name))(_without_indices(_pool))


def _lp_pooling(pool: Callable[..., Any], dimensions: int) -> Callable[..., Any]:
    r"""Return the rule of $(\sum x^p)^{1/p}$ over windows, from the average of $x^p$."""

    def applied(
        input: Jet,
        norm_type: float,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        ceil_mode: bool = False,
    ) -> Any:
        sizes = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,) * dimensions
        average = pool(input**norm_type, sizes, stride, 0, ceil_mode)
        return (average * math.prod(sizes)) ** (1 / norm_type)

    return applied


for _n in (1, 2, 3):
    rule(getattr(functional, f"lp_pool{_n}d"))(
        _lp_pooling(getattr(functional, f"avg_pool{_n}d"), _n)
    )
