r"""How long a step to take, and what rounding does to a given one.

The error of a difference quotient of order $T$ and accuracy $p$ at step $h$ is the sum of a
truncation error $A h^p$ and a rounding error $R h^{-T}$. It is least, within a constant, at

$$h^* = \left( \frac{T R}{p A} \right)^{1/(T+p)}.$$

Both constants belong to the function, and both can be seen in its values: as $h$ doubles, the
quotient changes by about $R h^{-T}$ while rounding dominates, and by $(2^p - 1) A h^p$ once
truncation does.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor

from ..tensors import length, per_example, tile
from ..typing import LogDensity
from .checks import check_arguments
from .finite import FiniteDifference
from .precision import unit_round_off
from .stencil import central_nodes, require_order, stencil

OCTAVES = range(-12, 13)
"""The steps tried, as powers of two of the one that suits a function of the scale of the data."""

FLOOR = 6
"""How many of the smallest steps show nothing but rounding."""

ROWS = 16
"""How many examples it takes for a reliable root mean square of rounding errors."""

CLEAR = 8.0
"""How far above the noise a change must be to be called truncation."""


def step_size(
    f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor, accuracy: int = 2
) -> float:
    r"""Return the length of `v` that balances truncation against rounding.

    Evaluates `f` at steps over several orders of magnitude and measures both errors, so that
    the precision of `f`, the size of its values and its length scale along `v` are all taken
    into account, whatever they come from.

    Args:
        f: The log-density, `(N, *E) -> (N,)`.
        x: Typical data, shape `(B, *E)`; a few dozen rows are enough.
        v: Typical directions, shape `(B, *E)`; their lengths do not matter.
        order: The order of the derivative wanted.
        cond: Further arguments of `f`, a row per example.
        accuracy: The order of the truncation error.

    Returns:
        The step $h^*$, to be used as the radius of a projection. The size of the data, if there
        is no truncation error to be seen up to there.

    Example:
        >>> x = torch.linspace(0, 6, 50)[:, None]
        >>> h = step_size(lambda x: x.sin().sum(1), x, torch.ones_like(x), 2)
        >>> 0.01 < h < 0.1  # the fourth root of 48 u is 0.04
        True
    """
    require_order(order)
    check_arguments(x, v, cond)
    size = _rms(length(x)) or 1.0
    guess = size * unit_round_off(x.dtype) ** (1 / (order + accuracy))
    x, unit, cond = _surroundings(x, v, cond, guess)
    steps = [h for k in OCTAVES if (h := guess * 2.0**k) > 64 * size * unit_round_off(x.dtype)]
    nodes, weights = central_nodes(order, accuracy), _weights(order, accuracy)
    with torch.no_grad():
        values = [FiniteDifference().values(f, x, h * unit, nodes, *cond) for h in steps]
    quotients = [_combined(weights, y) / h**order for y, h in zip(values, steps, strict=True)]
    changes = [_rms(after - here) for here, after in pairwise(quotients)]

    rounding = [change * h**order for change, h in zip(changes[:FLOOR], steps, strict=False)]
    span = float(nodes[-1] - nodes[0])
    slope = median(_rms(y[-1] - y[0]) / (span * h) for y, h in zip(values, steps, strict=True))
    least = math.hypot(*weights) * unit_round_off(x.dtype) / math.sqrt(3)
    noise = [max(median(rounding), least * (_rms(y) + size * slope)) for y in values]

    for k, (here, after) in enumerate(pairwise(changes)):
        if not math.isfinite(after):
            return float(steps[k] / 2)
        clears = (here * steps[k] ** order, after * steps[k + 1] ** order)
        if all(c > CLEAR * n for c, n in zip(clears, noise[k : k + 2], strict=True)):
            truncation = here / steps[k] ** accuracy / (2**accuracy - 1)
            balance = order * noise[k] / (accuracy * truncation)
            return float(balance ** (1 / (order + accuracy)))
    return size


def cancellation(f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor, order: int = 2) -> float:
    r"""Return an estimate of the relative rounding error of a difference along `v`.

    The noise of `f` is measured by its sixth differences at a small fraction of the step, where
    nothing but noise is left of them; the derivative by differences at growing steps, until it
    stands out of the noise.

    Reference:
        Moré and Wild (2011), Estimating computational noise, for the use of high differences.

    Args:
        f: The log-density, `(N, *E) -> (N,)`.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, as long as the step.
        cond: Further arguments of `f`, a row per example.
        order: The order of the difference; the second is where it matters most.

    Returns:
        The error relative to the size of the difference, both root mean square over the batch.

    Example:
        >>> f = lambda x: 1000 - x.square().sum(1) / 2
        >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> v = torch.full_like(x, 0.01)
        >>> cancellation(f, x, v) > 0.1 > cancellation(f, x.double(), v.double())
        True
    """
    require_order(order)
    check_arguments(x, v, cond)
    with torch.no_grad():
        noise = _rms(difference(f, x, v / 8, 6, cond)) / math.hypot(*_weights(6))
        error = noise * math.hypot(*_weights(order))
        for scale in (1, 2, 4, 8, 16, 32):
            size = _rms(difference(f, x, scale * v, order, cond))
            if size > 4 * error:
                break
    return error * scale**order / size if error else 0.0


def difference(
    f: LogDensity, x: Tensor, v: Tensor, order: int, cond: Sequence[Tensor], accuracy: int = 2
) -> Tensor:
    """Return the difference of the given order along `v`, in float64 and without a warning."""
    values = FiniteDifference().values(f, x, v, central_nodes(order, accuracy), *cond)
    return _combined(_weights(order, accuracy), values)


def _surroundings(
    x: Tensor, v: Tensor, cond: Sequence[Tensor], width: float
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return the data with unit directions, small batches filled up with nearby points."""
    unit = v / per_example(length(v), v)
    copies = -(-ROWS // max(len(x), 1))
    offsets = torch.arange(copies, device=x.device).repeat_interleave(len(x)) * width / copies
    unit = tile(unit, copies)
    x = tile(x, copies) + per_example(offsets.to(x.dtype), unit) * unit
    return x, unit, tuple(tile(c, copies) for c in cond)


def _weights(order: int, accuracy: int = 2) -> list[float]:
    return [float(w) for w in stencil(central_nodes(order, accuracy))[order]]


def _combined(weights: list[float], values: Tensor) -> Tensor:
    return values.new_tensor(weights) @ values


def _rms(y: Tensor) -> float:
    return float(y.square().mean().sqrt())
