"""Derivatives of any order along one direction."""

import math

from torch import Tensor

from ..derivatives.checks.arguments import check_arguments
from ..derivatives.exact import EXACT
from ..tensors import length, per_example
from ..typing import Derivative, LogDensity

STEP = 0.0625
"""The default step of finite differences: a power of two, by which numbers scale exactly."""


def directional_derivative(
    f: LogDensity,
    x: Tensor,
    v: Tensor,
    order: int,
    *cond: Tensor,
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> Tensor:
    r"""Return $(v^T∇)^k f(x)$ of any order $k$.

    Unlike in `jet`, the length of `v` is not the step of finite differences: the derivative is
    taken along $h v / ‖v‖$ and scaled.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Theorem 1.

    Args:
        f: A function `(B, *E) -> (B,)`.
        x: The points, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, of any positive length.
        order: The order $k ≥ 1$.
        cond: Further arguments of `f`, one row per example.
        derivative: The engine. Default: `Taylor`, with `Autodiff` for models that use functions
            without a Taylor rule.
        step: The step $h$ of finite differences; `fdsm.derivatives.step_size` measures a good one.
            Other engines do not depend on it.

    Returns:
        The derivatives, shape `(B,)`.

    Raises:
        ValueError: If the step is not positive, or `x` and `v` do not fit.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.5]], dtype=torch.float64)
        >>> third = directional_derivative(lambda x: x.sin().sum(1), x, torch.ones_like(x), 3)
        >>> round(third.item() + math.cos(0.5), 12)
        0.0
    """
    check_arguments(x, v, cond)
    require_step(step)
    size = length(v)
    along = v * per_example(step / size, v)
    return derivative.jet(f, x, along, order, *cond)[order] * (size / step) ** order


def require_step(step: float) -> None:
    """Raise `ValueError` unless the step of finite differences is a positive number."""
    if not 0 < step < math.inf:
        raise ValueError(f"the step must be a positive number, but got {step}")
