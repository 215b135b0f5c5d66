"""A single directional derivative of any order."""

import math

from torch import Tensor

from ..tensors import length, per_example
from ..typing import LogDensity
from .stencil import require_order
from .step_size import difference, step_size
from .validation import check_arguments


def directional_derivative(
    f: LogDensity,
    x: Tensor,
    v: Tensor,
    order: int,
    *cond: Tensor,
    step: float | None = None,
    accuracy: int = 2,
) -> Tensor:
    r"""Return $(v^T∇)^T f(x)$ of any order $T$, from values of `f` alone.

    The result is differentiable in the parameters of `f`. Unlike in `FiniteDifference.jet` the
    length of `v` is not the step: the difference is taken along $h v / ‖v‖$ and scaled.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Theorem 1.

    Args:
        f: A function `(N, *E) -> (N,)`.
        x: The points, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, of any positive length.
        order: The order $T ≥ 1$.
        cond: Further arguments of `f`, one row per example.
        step: The step $h$. Default: chosen with `step_size`, which takes about 25 times the number
            of evaluations.
        accuracy: The order of the truncation error, an even number.

    Returns:
        The derivatives, shape `(B,)`.

    Raises:
        ValueError: If the step is not positive, or `x` and `v` do not fit.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.5]], dtype=torch.float64)
        >>> third = directional_derivative(lambda x: x.sin().sum(1), x, torch.ones_like(x), 3)
        >>> round(third.item() + math.cos(0.5), 5)
        0.0
    """
    require_order(order)
    check_arguments(x, v, cond)
    if step is None:
        step = step_size(f, x, v, order, *cond, accuracy=accuracy)
    if not 0 < step < math.inf:
        raise ValueError(f"the step must be a positive number, but got {step}")
    size = length(v)
    along = v * per_example(step / size, v)
    scale = (size.double() / step) ** order
    return (difference(f, x, along, order, cond, accuracy) * scale).to(x.dtype)
