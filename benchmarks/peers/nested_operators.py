"""Differential operators by nested automatic differentiation in torch."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad, hessian, jvp, vmap

Function = Callable[[Tensor], Tensor]
"""`(B, D) -> (B,)`, row by row."""


def laplacian(f: Function, x: Tensor) -> Tensor:
    """Return the Laplacian with `vmap(jvp(grad))` over the coordinates."""
    units = torch.eye(x.shape[1], dtype=x.dtype)
    return sum_of_curvatures(f, x, units[:, None].expand(-1, *x.shape))


def sum_of_curvatures(f: Function, x: Tensor, v: Tensor) -> Tensor:
    r"""Return $\sum_v v^T ∇²f v$ for directions of shape `(V, B, D)`."""
    score = grad(lambda x: f(x).sum())
    curvature: Function = lambda v: (jvp(score, (x,), (v,))[1] * v).sum(1)
    along: Tensor = vmap(curvature)(v)
    return along.sum(0)


def hessian_trace(f: Function, x: Tensor) -> Tensor:
    """Return the Laplacian as the trace of the Hessian of each row."""
    of_row: Function = lambda row: hessian(lambda y: f(y[None])[0])(row).trace()
    traces: Tensor = vmap(of_row)(x)
    return traces


def biharmonic(f: Function, x: Tensor) -> Tensor:
    """Return the Laplacian of the Laplacian."""
    return laplacian(lambda x: laplacian(f, x), x)
