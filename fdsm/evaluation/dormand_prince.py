"""An adaptive solver of ordinary differential equations, the pair of Dormand and Prince."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Rate = Callable[[float, Tensor], Tensor]
"""The time and the state `(B, N)` to the derivative of the state, `(B, N)`."""
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""Weights of the slopes in each stage. Those of the last stage are the step of order five."""
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""Weights of the difference to the step of order four."""
FIRST_STEP, SMALLEST_STEP = 0.01, 1e-10
"""The first and the smallest step, as shares of the time."""
SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
"""The next step is `SAFETY` of the largest that the error allows, and changes by these factors."""


class SolverError(ArithmeticError):
    """A differential equation cannot be solved with the accuracy that was asked for."""


def integrate(
    rate: Rate,
    state: Tensor,
    start: float,
    end: float,
    size: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    r"""Solve $\dot y = f(t, y)$ by steps of order five whose error is estimated and limited.

    All rows take the same steps. The result can be differentiated in the state and in the
    parameters of the rate, with the steps as constants.

    Reference:
        Dormand and Prince (1980), https://doi.org/10.1016/0771-050X(80)90013-3.

    Args:
        rate: The derivative $f$.
        state: The state at the start, shape `(B, N)`.
        start: The time at the start.
        end: The time at the end, before or after the start.
        size: Returns the size of the error of a step, given the error and the state after it,
            both `(B, N)`. Steps with a size above one are repeated with a smaller step.

    Returns:
        The state at the end, shape `(B, N)`.

    Raises:
        SolverError: If the step becomes too small: the rate is not finite, not smooth, or its
            rounding error is larger than the tolerance.

    Example:
        >>> size = lambda error, y: error.abs().max() / 1e-8
        >>> y = integrate(lambda t, y: -y, torch.ones(1, 1).double(), 0.0, 1.0, size)
        >>> abs(y.item() - math.exp(-1)) < 1e-8
        True
    """
    time, step = start, FIRST_STEP * (end - start)
    slopes = [rate(time, state)]
    while time != end:
        last = abs(step) > (1 - 1e-6) * abs(end - time)
        step = end - time if last else step
        for node, weights in zip(NODES, STAGES, strict=True):
            after = state + step * _combine(weights, slopes)
            slopes.append(rate(time + node * step, after))
        with torch.no_grad():
            error = float(size(step * _combine(ERROR, slopes), after))
        if error <= 1:
            time, state, slopes = end if last else time + step, after, slopes[-1:]
        elif abs(step) > SMALLEST_STEP * abs(end - start):
            slopes = slopes[:1]
        else:
            raise SolverError(
                f"the step of the solver is {abs(step):.1g} at time {time:.4g}, between "
                f"{start:.4g} and {end:.4g}: the velocity is not finite or not smooth there, or "
                "its rounding error is above the tolerance. Use a larger tolerance, a smaller "
                "range of times or noise levels, or float64"
            )
        growth = SAFETY * max(error, 1e-10) ** -0.2 if math.isfinite(error) else SHRINK
        step *= min(GROW, max(SHRINK, growth))
    return state


def _combine(weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    terms = [weight * slope for weight, slope in zip(weights, slopes, strict=True) if weight]
    return torch.stack(terms).sum(0)
