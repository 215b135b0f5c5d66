"""Differential operators by nested automatic differentiation in torch."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import grad, hessian, jvp, vmap

Function = Callable[[Tensor], Tensor]
"""`(B, D) -> (B,)`, row by row."""
VISCOSITY = 0.01


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


def forward_slope(f: Function, x: Tensor) -> Tensor:
    """Return the derivative along the cosine of the points with `torch.func.jvp`."""
    slope: Tensor = jvp(f, (x,), (x.cos(),))[1]
    return slope


def korteweg_de_vries(f: Function, z: Tensor) -> Tensor:
    """Return $u_t + 6 u u_x + u_{xxx}$ by gradients of gradients; the points are `(x, t)`."""
    z = z.detach().requires_grad_()
    (u,) = f(z).unbind(1)
    u_x, u_t = _gradient(u, z)
    u_xx, _ = _gradient(u_x, z)
    u_xxx, _ = _gradient(u_xx, z)
    return u_t + 6 * u * u_x + u_xxx


def navier_stokes(f: Function, z: Tensor) -> Tensor:
    """Return the residuals of two velocities and their divergence, as above, for `(x, y, t)`."""
    z = z.detach().requires_grad_()
    u, v, p = f(z).unbind(1)
    (u_x, u_y, u_t), (v_x, v_y, v_t), (p_x, p_y, _) = (_gradient(a, z) for a in (u, v, p))
    second = [_gradient(a, z)[i] for a, i in ((u_x, 0), (u_y, 1), (v_x, 0), (v_y, 1))]
    first = (u_x, u_y, v_x, v_y)
    return navier_stokes_residual((u, v), first, (u_t, v_t), (p_x, p_y), second)


def navier_stokes_residual(
    velocity: Sequence[Tensor],
    first: Sequence[Tensor],
    rate: Sequence[Tensor],
    pressure: Sequence[Tensor],
    second: Sequence[Tensor],
) -> Tensor:
    r"""Return $u_t + (u·∇)u + ∇p - ν Δu$ in two dimensions, and $∇·u$.

    Args:
        velocity: $u, v$.
        first: $u_x, u_y, v_x, v_y$.
        rate: $u_t, v_t$.
        pressure: $p_x, p_y$.
        second: $u_{xx}, u_{yy}, v_{xx}, v_{yy}$.

    Returns:
        The residuals, shape `(3, B)`.
    """
    (u, v), (u_x, u_y, v_x, v_y), (u_t, v_t), (p_x, p_y) = velocity, first, rate, pressure
    u_xx, u_yy, v_xx, v_yy = second
    return torch.stack([
        u_t + u * u_x + v * u_y + p_x - VISCOSITY * (u_xx + u_yy),
        v_t + u * v_x + v * v_y + p_y - VISCOSITY * (v_xx + v_yy),
        u_x + v_y,
    ])  # fmt: skip


def _gradient(y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    (result,) = torch.autograd.grad(y.sum(), z, create_graph=True)
    return result.unbind(1)


def biharmonic(f: Function, x: Tensor) -> Tensor:
    """Return the Laplacian of the Laplacian."""
    return laplacian(lambda x: laplacian(f, x), x)
