r"""Measured errors of a finite difference, and the warning about them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from ...tensors import length
from ..stencil import central_nodes, stencil
from .findings import note, warn
from .precision import PrecisionWarning, unit_round_off

ROUNDING, TRUNCATION, ROW = 0.1, 0.5, 0.5
"""Relative errors above which to warn: rounding and truncation of all rows, error of one row."""

NEGLIGIBLE_FRACTION, NOISY_NEGLIGIBLE_FRACTION = 0.01, 1e-4
"""Errors of a second difference below this fraction of half the squared slope, which losses add to
it, are not reported: if the noise is the rounding of the values, and if it is larger."""

TINY = 1e-8
"""Error of other differences that is not reported, relative to the slope."""


@dataclass(frozen=True)
class DifferenceError:
    """Estimated errors of a finite difference, relative to its size.

    Attributes:
        rounding: Rounding error, root mean square over the rows.
        truncation: Truncation error, root mean square over the rows.
        worst_row: Largest rounding error of a row, relative to the size of all rows.
    """

    rounding: float
    truncation: float
    worst_row: float


def difference_error(
    values: Callable[[Sequence[Fraction]], Tensor],
    x: Tensor,
    v: Tensor,
    order: int,
    accuracy: int,
) -> DifferenceError:
    r"""Measure the errors of a finite difference along `v`.

    Sixth differences at an eighth of the step show the noise of the values, which is at least
    that of rounding them, $u|f|$. Rounding of the points $x ± v$ changes the step itself. The
    truncation error is the change of the difference quotient at a quarter of the step. If the step
    is larger than the spread of the data, fractions of the spread take the place of fractions of
    the step.

    Reference:
        Moré and Wild (2011), Estimating computational noise, for the use of high differences.

    Args:
        values: Returns $f(x + γ_j v)$ for nodes $γ_j$, float64 `(n, B)`.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`.
        order: The order of the difference.
        accuracy: The order of its truncation error.

    Returns:
        The errors.
    """
    nodes = [Fraction(node) for node in central_nodes(order, accuracy)]
    scale = _data_scale(x, v)
    quarters = [scale * node / 4 for node in nodes]
    eighths = [scale * Fraction(k, 8) for k in range(-3, 4)]
    points = sorted({Fraction(-1), Fraction(1), *nodes, *quarters, *eighths})
    y = dict(zip(points, values(points), strict=True))

    def difference(order: int, nodes: Sequence[Fraction]) -> tuple[Tensor, float]:
        """Return the difference, and the norm of its weights."""
        weights = [float(w) for w in stencil(nodes)[order]]
        terms = [w * y[node] for w, node in zip(weights, nodes, strict=True)]
        return torch.stack(terms).sum(0), math.hypot(*weights)

    result, norm = difference(order, nodes)
    finer, finer_norm = difference(order, quarters)
    sixth, sixth_norm = difference(6, eighths)
    unit = unit_round_off(x.dtype) / math.sqrt(3)
    noise = torch.maximum(sixth.abs() / sixth_norm, unit * y[Fraction(0)].abs())
    step_error = length((x + v).double() - x.double() - v.double()) / length(v.double())
    lost = torch.hypot(norm * noise, order * step_error * result.abs())
    rounding, size = rms(lost), rms(result)
    change, noise_of_change = rms(result - finer), math.hypot(norm, finer_norm) * rms(noise)
    truncation = _without(change, 3 * noise_of_change)
    slope, _ = difference(1, [Fraction(-1), Fraction(1)])
    ordinary = rms(noise) <= 16 * unit * rms(y[Fraction(0)])
    fraction = NEGLIGIBLE_FRACTION if ordinary else NOISY_NEGLIGIBLE_FRACTION
    negligible = fraction * rms(slope.square() / 2) if order == 2 else TINY * rms(slope)
    lost = lost * (lost > negligible * math.sqrt(len(lost)))
    rounding, truncation = (e * (e > negligible) for e in (rounding, truncation))
    return DifferenceError(
        rounding=_ratio(rounding, _without(size, rounding)),
        truncation=_ratio(truncation, rms(finer)),
        worst_row=_ratio(lost.max().item(), size),
    )


def _data_scale(x: Tensor, v: Tensor) -> Fraction:
    """Return the spread of the data relative to the step, a power of two of at most one."""
    spread, step = rms(length(x - x.mean(0))), rms(length(v))
    if not 0 < spread < step:
        return Fraction(1)
    return Fraction(2) ** math.floor(math.log2(spread / step))


def _without(total: float, part: float) -> float:
    """Return a root mean square without the contribution of an independent part."""
    return math.sqrt(max(total**2 - part**2, 0.0))


def warn_of_error(error: DifferenceError, order: int, warned: set[str]) -> None:
    """Warn once if a finite difference is dominated by rounding or truncation.

    Args:
        error: The measured errors.
        order: The order of the difference.
        warned: Names of the warnings already shown for the model.
    """
    name = {1: "first", 2: "second", 3: "third"}.get(order, f"{order}th")
    relative = max(error.rounding, error.worst_row)
    if error.rounding > ROUNDING or error.worst_row > ROW:
        where = "" if error.rounding > ROUNDING else "of at least one row "
        warn(
            "rounding",
            f"the {name} difference along v {where}is dominated by rounding (estimated relative "
            f"error {_percent(relative)}). Use Taylor(), a larger step (`step_size` recommends "
            "one), or float64. This is common at initialization and usually goes away",
            PrecisionWarning,
            warned=warned,
            name="precision",
            value=relative,
        )
    else:
        note("rounding", _harmless(error.rounding, name), value=error.rounding)
    if error.truncation > TRUNCATION:
        warn(
            "truncation",
            f"the step is too large: the {name} difference along v has an estimated truncation "
            f"error of {_percent(error.truncation)}. Use Taylor(), a smaller step (`step_size` "
            "recommends one), or a higher accuracy. If the model has kinks, as with "
            "ReLU, use a smooth activation",
            PrecisionWarning,
            warned=warned,
            name="precision",
            value=error.truncation,
        )
    else:
        note("truncation", _harmless(error.truncation, name), value=error.truncation)


def _harmless(error: float, name: str) -> str:
    size = f"relative error {error:.1e}" if error else "negligible error"
    return f"{size} of the {name} difference"


def _percent(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio < 100 else "above 10000%"


def rms(y: Tensor) -> float:
    """Return the root mean square of all elements."""
    return float(y.square().mean().sqrt())


def _ratio(error: float, size: float) -> float:
    return error / size if size else math.inf if error else 0.0
