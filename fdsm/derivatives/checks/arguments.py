"""Validation of shapes, types and numbers, once, where they enter the library.

A density that ends in `nn.Linear(width, 1)` returns `(B, 1)`; added to a `(B,)` it gives a
`(B, B)` loss. A direction of another shape broadcasts. A single NaN in the data makes the mean of
a loss NaN, far from its cause.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from ...tensors import length, require_floating, require_tensor, require_values
from ...typing import (
    DensityFunction,
    Derivative,
    Function,
    LogDensity,
    NoiseLevels,
    NormalizedDensity,
    Projection,
    Score,
)
from .state import is_tracing


def as_log_density(f: LogDensity) -> DensityFunction:
    """Return a log-density as a function.

    - A distribution of `torch.distributions` (or one with the same interface, as in zuko) is
      represented by its `log_prob`. Its batch shape must be empty.
    - A lazy distribution of zuko, such as a flow, is represented by
      `lambda x, *cond: f(*cond).log_prob(x)`.
    - Any other callable is returned unchanged.
    - Any other object is represented by its `log_prob`.

    Args:
        f: The log-density.

    Returns:
        A function `(B, *E), *cond -> (B,)`.

    Raises:
        TypeError: If `f` is neither callable nor has a `log_prob`.
        ValueError: If `f` is a distribution with a batch shape.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> normal = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
        >>> as_log_density(normal)(torch.zeros(3, 2))
        tensor([-1.8379, -1.8379, -1.8379])
    """
    if isinstance(f, Distribution):
        if f.batch_shape:
            raise ValueError(
                "a log-density returns one number per row, but this distribution has the batch "
                f"shape {tuple(f.batch_shape)} and the event shape {tuple(f.event_shape)}: wrap "
                f"it in Independent(dist, {len(f.batch_shape)}), from torch.distributions"
            )
        return f.log_prob
    zuko = sys.modules.get("zuko.lazy")
    if zuko is not None and isinstance(f, zuko.LazyDistribution):
        return lambda x, *cond: f(*cond).log_prob(x)
    if callable(f):
        return f
    if hasattr(f, "log_prob"):
        return f.log_prob
    raise TypeError(
        "expected a log-density: a callable such as an nn.Module, or an object with `log_prob` "
        f"such as a torch.distributions.Distribution, but got {type(f).__name__}"
    )


def as_normalized(q: NormalizedDensity | Distribution) -> NormalizedDensity:
    """Return a normalized density, also of a distribution of `torch.distributions` or zuko.

    Args:
        q: The density, with `log_prob` and `sample`.

    Returns:
        The same density, whose `sample` takes a number of rows and a generator.

    Raises:
        TypeError: If `q` has no `log_prob` or no `sample`.
        ValueError: If `q` is a distribution with a batch shape.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> normal = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
        >>> as_normalized(normal).sample(3, Generator().manual_seed(0)).shape
        torch.Size([3, 2])
    """
    if isinstance(q, Distribution):
        return _TorchDensity(q, as_log_density(q))
    if hasattr(q, "log_prob") and hasattr(q, "sample"):
        return q
    raise TypeError(
        "expected a normalized density with `log_prob` and `sample`, such as a distribution of "
        f"torch.distributions, a flow of zuko (called: `flow()`) or `fit_gaussian(x)`, but got "
        f"{type(q).__name__}"
    )


@dataclass(frozen=True)
class _TorchDensity:
    """A distribution of `torch.distributions`, which draws from torch's global generator."""

    distribution: Distribution
    log_prob: DensityFunction

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        if generator is None:
            return self.distribution.sample((n,))
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        devices = [] if generator.device.type == "cpu" else [generator.device]
        with torch.random.fork_rng(devices, device_type=generator.device.type):
            torch.manual_seed(seed)
            return self.distribution.sample((n,))


def require_density_shape(shape: torch.Size, rows: int) -> None:
    """Raise `ValueError` unless a log-density of `rows` rows has the shape `(rows,)`."""
    if shape != (rows,):
        hint = ". Use `.squeeze(1)`" if shape == (rows, 1) else ""
        raise ValueError(
            f"log_density must return shape (B,) = ({rows},), but returned {tuple(shape)}{hint}"
        )


def require_rows(shape: torch.Size, x: Tensor) -> None:
    """Raise `ValueError` unless a function at `x` returned one row for each row of `x`."""
    if shape[:1] != x.shape[:1]:
        raise ValueError(
            f"f must return one row for each of the {len(x)} rows of x, but returned shape "
            f"{tuple(shape)} for x of shape {tuple(x.shape)}{one_point_hint(x)}"
        )


def one_point_hint(x: Tensor) -> str:
    """Return a hint to pass one point as a batch, or empty text if `x` is a batch of points."""
    if x.ndim > 1:
        return ""
    return (
        f". x of shape {tuple(x.shape)} is a batch of numbers: for one point with "
        f"{x.numel()} coordinates use `x[None]`, of shape {(1, *x.shape)}"
    )


def require_score_shape(shape: torch.Size, x: Tensor) -> None:
    """Raise `ValueError` unless a score or another vector field at `x` has the shape of `x`."""
    if shape != x.shape:
        raise ValueError(
            f"a score or another vector field must return the shape of its input, "
            f"{tuple(x.shape)}, but returned {tuple(shape)}{one_point_hint(x)}"
        )


def checked_density(f: LogDensity) -> DensityFunction:
    """Return `f` as a function that raises `ValueError` unless it maps `(N, *E)` to `(N,)`."""
    function = as_log_density(f)

    def density(x: Tensor, *cond: Tensor) -> Tensor:
        y = function(x, *cond)
        require_density_shape(y.shape, x.shape[0])
        return y

    density.__wrapped__ = function  # type: ignore[attr-defined]
    return density


def checked_score(s: Score) -> Score:
    """Return `s` as a function that raises `ValueError` unless it maps `(N, *E)` to `(N, *E)`."""

    def score(x: Tensor, *cond: Tensor) -> Tensor:
        y = s(x, *cond)
        require_score_shape(y.shape, x)
        return y

    score.__wrapped__ = s  # type: ignore[attr-defined]
    return score


def checked_output(f: Function | Score, *, score: bool) -> Callable[..., Tensor]:
    """Return a score, or any function of a batch, that raises `ValueError` for other shapes."""
    if score:
        return checked_score(cast(Score, f))
    function = as_log_density(f)

    def of_rows(x: Tensor, *cond: Tensor) -> Tensor:
        y = function(x, *cond)
        require_rows(y.shape, x)
        return y

    of_rows.__wrapped__ = function  # type: ignore[attr-defined]
    return of_rows


def require_engine(derivative: Derivative) -> None:
    """Raise `TypeError` unless `derivative` is a derivative engine."""
    _require_methods("derivative", derivative, "an engine", "Taylor()", "jet sliced quadratic")


def require_projection(projection: Projection) -> None:
    """Raise `TypeError` unless `projection` is a distribution of directions."""
    _require_methods(
        "projection", projection, "a projection", "Sphere(0.1)", "sample second_moment"
    )


def require_noise(levels: NoiseLevels, name: str = "levels") -> None:
    """Raise `TypeError` unless `levels` is a distribution of noise levels or times."""
    _require_methods(name, levels, "a distribution", "LogUniform(10.0, 0.01)", "sample")


def _require_methods(name: str, value: object, kind: str, example: str, methods: str) -> None:
    """Raise `TypeError` unless an argument is an object with methods of these names."""
    expected = f"{name} must be {kind} such as {example}, but got"
    if isinstance(value, type):
        raise TypeError(f"{expected} the class {value.__name__}: add parentheses")
    if not all(callable(getattr(value, method, None)) for method in methods.split()):
        raise TypeError(f"{expected} {value!r}")


def check_arguments(
    x: Tensor, v: Tensor, cond: Sequence[Tensor], *, several: bool = False
) -> None:
    """Raise `TypeError` or `ValueError` unless `v` are usable directions at `x`.

    Args:
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, or `(V, B, *E)` where `several` are expected.
        cond: Conditions of the model, one row per example.
        several: Whether `v` holds several directions per example.

    Raises:
        TypeError: If a type or device does not fit.
        ValueError: If a shape does not fit, or `x` or `v` are not finite, or `v` is zero.
    """
    require_floating(x)
    require_tensor(v)
    if v.shape[several:] != x.shape or (several and (v.ndim == x.ndim or v.shape[0] == 0)):
        expected = f"(V, {', '.join(map(str, x.shape))})" if several else tuple(x.shape)
        raise ValueError(
            f"directions for data of shape {tuple(x.shape)} must have shape {expected}, "
            f"but have {tuple(v.shape)}"
        )
    if v.dtype != x.dtype or v.device != x.device:
        raise TypeError(
            f"directions must be {x.dtype} on {x.device} like the data, "
            f"but are {v.dtype} on {v.device}"
        )
    for c in cond:
        if not isinstance(c, Tensor):
            raise TypeError(f"conditions must be tensors with one row per example, but got {c!r}")
        if c.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"a condition must have one row for each of the {len(x)} examples, "
                f"but has shape {tuple(c.shape)}"
            )
    if not is_tracing() and not x.is_meta and x.numel():
        _check_numbers(x, v)


def check_data(x: Tensor) -> None:
    """Raise `TypeError` or `ValueError` unless `x` holds finite real numbers."""
    require_floating(x)
    if is_tracing() or x.is_meta:
        return
    if not math.isfinite(x.sum().item()):
        _refuse_rows_not_finite(x)


def check_values(x: Tensor) -> None:
    """Raise `TypeError` or `ValueError` unless `x` holds finite real numbers, not only a shape."""
    require_values(x)
    check_data(x)


def check_noise(x: Tensor, noise: Tensor) -> None:
    """Raise `ValueError` unless the noise has the shape of `x`."""
    if noise.shape != x.shape:
        raise ValueError(
            f"noise for data of shape {tuple(x.shape)} must have that shape, "
            f"but has {tuple(noise.shape)}"
        )


def _check_numbers(x: Tensor, v: Tensor) -> None:
    if v.ndim > x.ndim and v.stride(1) == 0:
        v = v[:, :1]  # the same directions for all rows
    elif math.isfinite(torch.addcdiv(x, v, v).sum().item()):  # 0 / 0 and ∞ / ∞ are not a number
        return
    lengths = length(v, x.ndim - 1)  # of directions with zeros, such as unit vectors
    if math.isfinite((x.sum() + (lengths / lengths).sum()).item()):
        return
    _refuse_rows_not_finite(x)
    if not v.isfinite().all():
        raise ValueError("the directions are not finite")
    if not lengths.all():
        raise ValueError(
            "a direction has length zero, which is a step of zero: draw `v` from a projection "
            "such as `Sphere(0.1)`"
        )


def _refuse_rows_not_finite(x: Tensor) -> None:
    bad = (~x.isfinite()).unsqueeze(-1).flatten(1).any(1).nonzero().flatten().tolist()
    if bad:
        raise ValueError(f"the data are not finite in rows {bad[:8]} of {len(x)}")
