r"""Choice of the step size, the rounding error of a given step, and derivatives that choose it.

The error of a difference quotient of order $T$ and accuracy $p$ at step $h$ is the sum of a
truncation error $A h^p$ and a rounding error $R h^{-T}$. It is smallest, up to a constant, at

$$h^* = \left( \frac{T R}{p A} \right)^{1/(T+p)}.$$

Both constants depend on the function and can be measured. If $h$ is doubled, the quotient changes
by about $R h^{-T}$ where rounding dominates, and by $(2^p - 1) A h^p$ where truncation dominates.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor

from ..tensors import length, per_example, tile
from ..typing import LogDensity
from .checks.arguments import as_log_density, check_arguments, check_values
from .checks.difference_error import rms
from .checks.precision import unit_round_off
from .finite_difference import FiniteDifference
from .stencil import central_nodes, require_order, stencil

RATIO = 1.9
"""Ratio of consecutive steps. Doubling a step would double some of its rounding errors."""

STEPS = 26
"""Number of steps that are evaluated at a time."""

ROUNDING_STEPS = 6
"""Number of the smallest steps at which rounding must dominate."""

ROWS = 16
"""Minimum number of examples for a reliable root mean square of rounding errors."""

TRUNCATION_TO_NOISE = 8.0
"""A change above this multiple of the noise is attributed to truncation."""


def step_size(
    f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor, accuracy: int = 2
) -> float:
    r"""Return the length of `v` that balances truncation against rounding.

    Evaluates `f` at steps over several orders of magnitude and measures both errors. The result
    therefore depends on the precision of `f`, the size of its values and its length scale along
    `v`.

    Args:
        f: The log-density, `(N, *E) -> (N,)`.
        x: Typical data, shape `(B, *E)`; a few dozen rows are enough.
        v: Typical directions, shape `(B, *E)`; their lengths do not matter.
        order: The order of the derivative wanted.
        cond: Further arguments of `f`, one row per example.
        accuracy: The order of the truncation error.

    Returns:
        The step $h^*$, for use as the radius of a projection. If there is no measurable truncation
        error, the spread of the data.

    Raises:
        ValueError: If there are no data, or `f` is not finite around them.

    Example:
        >>> x = torch.linspace(0, 6, 50)[:, None]
        >>> h = step_size(lambda x: x.sin().sum(1), x, torch.ones_like(x), 2)
        >>> 0.01 < h < 0.1  # the fourth root of 48 u is 0.04
        True
    """
    require_order(order)
    check_values(x)
    check_arguments(x, v, cond)
    if len(x) == 0:
        raise ValueError("a step can only be measured on data, but the batch is empty")
    spread = rms(length(x - x.mean(0))) or rms(length(x)) or 1.0
    middle = spread * unit_round_off(x.dtype) ** (1 / (order + accuracy))
    x, unit, cond = _surroundings(x, v, cond, middle)
    smallest = middle / RATIO ** (STEPS // 2)
    while True:
        steps = [smallest * RATIO**k for k in range(STEPS)]
        with torch.no_grad():
            changes, noise = _changes(f, x, unit, order, cond, steps, accuracy)
        onset = _onset(changes, noise)
        if onset is None:
            return spread
        if onset >= ROUNDING_STEPS or smallest < spread * unit_round_off(x.dtype):
            break
        smallest /= RATIO ** (STEPS // 2)  # truncation dominates: try smaller steps
    if not math.isfinite(changes[onset]):
        return float(steps[onset] / RATIO**2)
    truncation = changes[onset] / steps[onset] ** (order + accuracy) / (RATIO**accuracy - 1)
    return float((order * noise[onset] / (accuracy * truncation)) ** (1 / (order + accuracy)))


def _changes(
    f: LogDensity,
    x: Tensor,
    unit: Tensor,
    order: int,
    cond: Sequence[Tensor],
    steps: Sequence[float],
    accuracy: int,
) -> tuple[list[float], list[float]]:
    """Return the changes of the difference quotient between steps, and those due to rounding.

    Both are root mean squares, times $h^T$.

    Raises:
        ValueError: If `f` is not finite at the smallest step.
    """
    nodes, weights = central_nodes(order, accuracy), _weights(order, accuracy)
    values = [FiniteDifference().values(f, x, h * unit, nodes, *cond) for h in steps]
    if not values[0].isfinite().all():
        raise ValueError("the function is not finite at the data, so no step can be measured")
    quotients = [_combined(weights, y) / h**order for y, h in zip(values, steps, strict=True)]
    pairs = zip(pairwise(quotients), steps, strict=False)
    changes = [rms(after - here) * h**order for (here, after), h in pairs]
    least = math.hypot(*weights) * unit_round_off(x.dtype) / math.sqrt(3)
    floor = median(changes[:ROUNDING_STEPS])
    return changes, [max(floor, least * rms(y)) for y in values]


def _onset(changes: Sequence[float], noise: Sequence[float]) -> int | None:
    """Return the index of the first step whose changes exceed the noise, or `None`."""
    clear = [
        not change <= TRUNCATION_TO_NOISE * n for change, n in zip(changes, noise, strict=False)
    ]
    return next((k for k, pair in enumerate(pairwise(clear)) if all(pair)), None)


def rounding_error(
    f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor, order: int = 2, accuracy: int = 2
) -> float:
    r"""Return an estimate of the relative rounding error of a difference along `v`.

    The noise of `f` is measured with its sixth differences at an eighth of the step, which contain
    almost only noise. It is at least the rounding error of the values. The derivative is measured
    with differences at increasing steps, until it exceeds the noise.

    Reference:
        Moré and Wild (2011), Estimating computational noise, for the use of high differences.

    Args:
        f: The log-density, `(N, *E) -> (N,)`.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, as long as the step.
        cond: Further arguments of `f`, one row per example.
        order: The order of the difference.
        accuracy: The order of its truncation error.

    Returns:
        The error relative to the size of the difference, both root mean square over the batch.

    Example:
        >>> f = lambda x: 1000 - x.square().sum(1) / 2
        >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> v = torch.full_like(x, 0.01)
        >>> rounding_error(f, x, v) > 0.1 > rounding_error(f, x.double(), v.double())
        True
    """
    require_order(order)
    check_values(x)
    check_arguments(x, v, cond)
    with torch.no_grad():
        noise = rms(difference(f, x, v / 8, 6, cond)) / math.hypot(*_weights(6))
        rounding = (
            unit_round_off(x.dtype) * rms(as_log_density(f)(x, *cond).double()) / math.sqrt(12)
        )
        error = max(noise, rounding) * math.hypot(*_weights(order, accuracy))
        for scale in (1, 2, 4, 8, 16, 32):
            size = rms(difference(f, x, scale * v, order, cond, accuracy))
            if size > 4 * error:
                break
    return error * scale**order / size if size else math.inf


def difference(
    f: LogDensity, x: Tensor, v: Tensor, order: int, cond: Sequence[Tensor], accuracy: int = 2
) -> Tensor:
    """Return the difference of the given order along `v`, in float64 and without a warning."""
    values = FiniteDifference().values(f, x, v, central_nodes(order, accuracy), *cond)
    return _combined(_weights(order, accuracy), values)


def _surroundings(
    x: Tensor, v: Tensor, cond: Sequence[Tensor], width: float
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return the data with unit directions. Nearby points are added to small batches."""
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
