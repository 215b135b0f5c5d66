"""Derivatives along directions in the points and in the conditions."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..derivatives import as_log_density
from ..derivatives.autodiff import gradient, requires_grad_alias
from ..derivatives.checks.backward import announce_missing_backward
from ..derivatives.checks.state import is_tracing, record_of
from ..derivatives.exact import EXACT
from ..tensors import length, per_example, require_tensor
from ..typing import Condition, Derivative, Function, is_exact
from .arguments import STEP, prepare, refuse_distributed


def jvp(
    f: Function,
    x: Tensor,
    v: Tensor | None,
    *cond: Condition,
    cond_directions: Sequence[Tensor | float | None] = (),
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> tuple[Tensor, Tensor]:
    r"""Return $f(x, c)$ and its derivative along directions in `x` and in the conditions together.

    $$\left. \frac{d}{ds} f(x + s v, \; c_1 + s u_1, \; c_2 + s u_2, …) \right|_{s = 0}$$

    With $v = dx/dt$ and $u = 1$ for the time this is the total derivative of a network along a
    path. It is a forward pass: `Taylor` computes it also through attention kernels and sharded
    modules, where `torch.func.jvp` raises an error.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        v: The direction in `x`, shape `(B, *E)`, of any length. `None` to keep `x` constant.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        cond_directions: For each condition its direction $u$, of the shape of the condition or a
            number, or `None` to keep the condition constant. Default: all are constant.
        derivative: The engine. Default: `Taylor`, with `Autodiff` for models that use functions
            without a Taylor rule.
        step: The step of finite differences, which also interpolate the value. Other engines do
            not depend on it.

    Returns:
        The value and the derivative, each of shape `(B, *O)`.

    Raises:
        TypeError: If a condition that has a direction is not a floating-point tensor.
        ValueError: If shapes do not fit, or nothing has a direction.

    Example:
        >>> x, t = torch.tensor([[1.0, 2.0]]), torch.tensor([3.0])
        >>> field = lambda x, t: x * t[:, None]
        >>> jvp(field, x, torch.ones_like(x), t, cond_directions=(1.0,))
        (tensor([[3., 6.]]), tensor([[4., 5.]]))
    """
    if cond_directions and len(cond_directions) != len(cond):
        raise ValueError(
            f"cond_directions must have one direction or None for each of the {len(cond)} "
            f"conditions, but has {len(cond_directions)}"
        )
    if not any(u is not None for u in cond_directions):
        value, slope = jet(f, x, _required(v), 1, *cond, derivative=derivative, step=step)
        return value, slope
    g, rows = prepare(f, x, cond, derivative, step)
    shared = [not isinstance(c, Tensor) or c.ndim == 0 for c in cond]
    for is_shared, u in zip(shared, cond_directions, strict=True):
        if is_shared and u is not None:
            raise ValueError(
                "a condition with a direction needs one row per example, but is one number for "
                f"all: use e.g. `torch.full(({len(x)},), t)`"
            )
    rows_directions = [u for u, s in zip(cond_directions, shared, strict=True) if not s]
    along = [None if v is None else _checked_direction(v, x)]
    along += [
        None if u is None else _checked_direction(u, c)
        for u, c in zip(rows_directions, rows, strict=True)
    ]
    h, z, w, constant = _joined(as_log_density(g), [x, *rows], along)
    value, slope = _scaled_jet(h, z, w, 1, constant, derivative, step)
    return value, slope


def jet(
    f: Function,
    x: Tensor,
    v: Tensor,
    order: int,
    *cond: Condition,
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> tuple[Tensor, ...]:
    r"""Return $(v^T∇)^k f(x)$ for $k = 0, …, n$, of all outputs of `f`.

    Unlike in the methods of engines, the length of `v` is not the step of finite differences: the
    derivatives are taken along $h v / ‖v‖$ and scaled.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, of any length.
        order: The highest order $n ≥ 1$.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        derivative: The engine; see `jvp`.
        step: The step $h$ of finite differences, which interpolate the value if $n$ is odd.

    Returns:
        The value and the derivatives, each of shape `(B, *O)`.

    Example:
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> jet(lambda x: x.pow(3), x, torch.tensor([[1.0, -1.0]]), 2)
        (tensor([[1., 8.]]), tensor([[  3., -12.]]), tensor([[ 6., 12.]]))
    """
    f, rows = prepare(f, x, cond, derivative, step)
    return _scaled_jet(f, x, _checked_direction(v, x), order, rows, derivative, step)


def directional_derivative(
    f: Function,
    x: Tensor,
    v: Tensor,
    order: int,
    *cond: Condition,
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> Tensor:
    r"""Return $(v^T∇)^k f(x)$ of any order $k$, the last term of `jet`.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Theorem 1.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        v: The directions, shape `(B, *E)`, of any length.
        order: The order $k ≥ 1$.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        derivative: The engine; see `jvp`.
        step: The step $h$ of finite differences; `fdsm.derivatives.step_size` measures a good one.
            Other engines do not depend on it.

    Returns:
        The derivatives, shape `(B, *O)`.

    Raises:
        ValueError: If the step is not positive, or `x` and `v` do not fit.

    Example:
        >>> x = torch.tensor([[0.5]], dtype=torch.float64)
        >>> third = directional_derivative(lambda x: x.sin().sum(1), x, torch.ones_like(x), 3)
        >>> round(third.item() + math.cos(0.5), 12)
        0.0
    """
    return jet(f, x, v, order, *cond, derivative=derivative, step=step)[-1]


def hvp(
    f: Function,
    x: Tensor,
    v: Tensor,
    *cond: Condition,
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> Tensor:
    r"""Return the Hessian-vector products $∇²f(x) v$, the gradient of $v^T∇f$.

    The slope along `v` comes from the engine and its gradient from autograd, one backward pass for
    each output of `f`.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        v: The vectors, shape `(B, *E)`.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        derivative: The engine; see `jvp`.
        step: The step of finite differences.

    Returns:
        The products, shape `(B, *O, *E)`; `(B, *E)` for a function that returns `(B,)`.

    Example:
        >>> x, v = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0]])
        >>> hvp(lambda x: x.prod(1), x, v).detach()
        tensor([[0., 1.]])
    """
    refuse_distributed(f)
    keep = torch.is_grad_enabled()
    with torch.enable_grad():
        points = requires_grad_alias(x)
        slopes = directional_derivative(f, points, v, 1, *cond, derivative=derivative, step=step)
        products = gradients_of_outputs(slopes, points, keep)
        if not is_tracing():
            announce_missing_backward(record_of(f), type(derivative).__name__, products)
        return products


def gradients_of_outputs(y: Tensor, x: Tensor, keep: bool) -> Tensor:
    """Return the gradients of all outputs, shape `(B, *O, *E)`.

    Args:
        y: The outputs, shape `(B, *O)`.
        x: The points, shape `(B, *E)`, recorded in the graph of `y`.
        keep: Whether the gradients will be differentiated again.

    Returns:
        The gradients.
    """
    outputs = y.reshape(len(y), -1).unbind(1)
    parts = [gradient(output, x, keep) for output in outputs]
    result = torch.stack(parts, 1).view(*y.shape, *x.shape[1:])
    return result if keep else result.detach()


def _required(v: Tensor | None) -> Tensor:
    if v is None:
        raise ValueError(
            "nothing has a direction: give a direction `v` in x, or cond_directions=(…)"
        )
    return v


def _checked_direction(v: Tensor | float, x: Tensor) -> Tensor:
    """Return the direction of an argument `x` of the function, of its shape and type."""
    if not x.is_floating_point():
        raise TypeError(f"a condition of type {x.dtype} has no derivative: its direction is None")
    if isinstance(v, (int, float)):
        return torch.full_like(x, v)
    require_tensor(v)
    if v.shape != x.shape:
        raise ValueError(
            f"the direction of an argument of shape {tuple(x.shape)} must have this shape, but "
            f"has {tuple(v.shape)}"
        )
    if v.dtype != x.dtype or v.device != x.device:
        raise TypeError(
            f"the direction of an argument must be {x.dtype} on {x.device} like it, but is "
            f"{v.dtype} on {v.device}"
        )
    return v


def _joined(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], along: Sequence[Tensor | None]
) -> tuple[Function, Tensor, Tensor, list[Tensor]]:
    """Return a function of those inputs that have directions as one tensor.

    Args:
        f: The function of all inputs.
        inputs: The inputs, one row per example.
        along: Their directions.

    Returns:
        The function, its first argument, the direction of it, and the constant inputs.
    """
    moving = [i for i, v in enumerate(along) if v is not None]
    still = [i for i, v in enumerate(along) if v is None]
    dtypes = [inputs[i].dtype for i in moving]
    shapes = [inputs[i].shape[1:] for i in moving]
    sizes = [math.prod(shape) for shape in shapes]

    def joined(z: Tensor, *constant: Tensor) -> Tensor:
        parts = zip(moving, z.split_with_sizes(sizes, 1), shapes, dtypes, strict=True)
        values = {i: part.reshape(len(z), *shape).to(dtype) for i, part, shape, dtype in parts}
        values.update(zip(still, constant, strict=True))
        return f(*(values[i] for i in range(len(inputs))))

    joined.__wrapped__ = f  # type: ignore[attr-defined]
    directions = _flat([v for v in along if v is not None])
    return joined, _flat([inputs[i] for i in moving]), directions, [inputs[i] for i in still]


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """Return the rows of several tensors as one vector each."""
    return torch.cat([t.reshape(len(t), -1) for t in tensors], 1)


def _scaled_jet(
    f: Function,
    x: Tensor,
    v: Tensor,
    order: int,
    rows: Sequence[Tensor],
    derivative: Derivative,
    step: float,
) -> tuple[Tensor, ...]:
    """Return the derivatives along `v`. The directions of differences have the length of a step.

    A direction of length zero is replaced by another, whose derivatives are multiplied by zero.
    """
    size = length(v.detach())
    is_zero = size == 0
    scale = torch.ones_like(size) if is_exact(derivative) else size / step
    along = v / per_example(scale.masked_fill(is_zero, 1), v)
    along = along.masked_fill(per_example(is_zero, v), step)
    value, *terms = derivative.jet(f, x, along, order, *rows)
    scale = per_example(scale.masked_fill(is_zero, 0), value)
    return value, *(term * scale**k for k, term in enumerate(terms, 1))
