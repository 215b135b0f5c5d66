"""Functions with known operators, and the same operators by nested gradients of autograd."""

from collections.abc import Callable

import torch
from torch import Tensor

SHAPES = [(), (3,), (2, 2, 3)]
"""Event shapes."""

Function = Callable[..., Tensor]


def events(shape: tuple[int, ...], generator: torch.Generator, rows: int = 4) -> Tensor:
    """Return random points."""
    return torch.randn(rows, *shape, generator=generator)


def flat(x: Tensor) -> Tensor:
    """Return events as vectors."""
    return x.reshape(len(x), -1)


def mixed(x: Tensor) -> Tensor:
    """Return a function whose derivatives of every order couple all coordinates."""
    y = flat(x)
    w = torch.linspace(-1, 1, y.shape[1])
    return (y @ w).sin() * y.square().sum(1) + (0.3 * y.sum(1)).exp() + y.pow(4).sum(1)


def field(x: Tensor) -> Tensor:
    """Return a vector field that is not a gradient."""
    y = flat(x)
    turned = y.roll(1, 1) * y + (2 * y).sin() * y.sum(1, keepdim=True)
    return turned.view(x.shape)


def hessian(f: Function, x: Tensor, *cond: Tensor) -> Tensor:
    """Return the Hessians of all rows, shape `(B, d, d)`, by autograd."""
    rows = [
        torch.autograd.functional.hessian(
            lambda y, i=i: f(y.view(1, *x.shape[1:]), *(c[i : i + 1] for c in cond)).sum(),
            x[i].flatten(),
        )
        for i in range(len(x))
    ]
    return torch.stack(rows)


def jacobian(s: Function, x: Tensor) -> Tensor:
    """Return the Jacobians of all rows, shape `(B, d, d)`, by autograd."""
    rows = [
        torch.autograd.functional.jacobian(
            lambda y: s(y.view(1, *x.shape[1:])).flatten(), row.flatten()
        )
        for row in x
    ]
    return torch.stack(rows)


def nested_laplacian(f: Function) -> Function:
    """Return the Laplacian of a function, differentiable, by gradients of gradients."""

    def laplacian(x: Tensor) -> Tensor:
        x = x if x.requires_grad else x.clone().requires_grad_()
        (score,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        total = torch.zeros(len(x))
        for i, slope in enumerate(flat(score).unbind(1)):
            (row,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
            total = total + flat(row)[:, i]
        return total

    return laplacian
