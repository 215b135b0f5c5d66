"""Losses as people write them in torch without this package.

They return the mean over the batch, on the scale of `fdsm.objectives`: per dimension.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module, Tensor], Tensor]
"""`model, x -> ()`, with random numbers from the global generator of torch."""

EPS = 0.1
"""Length of the directions."""
SIGMA = 0.3
"""Noise level of denoising score matching."""


def sphere(x: Tensor) -> Tensor:
    """Return a random direction of length `EPS` for each row."""
    v = torch.randn_like(x)
    lengths: Tensor = v.flatten(1).norm(dim=1).view(-1, *[1] * (x.ndim - 1))
    return EPS * v / lengths


def fd_ssm(model: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    """Return FD-SSM (Pang et al., 2020, Eq. 9), with one concatenation."""
    center, plus, minus = model(torch.cat([x, x + v, x - v])).chunk(3)
    losses: Tensor = (plus + minus - 2 * center + (plus - minus) ** 2 / 8) / EPS**2
    return losses.mean()


def nested_ssm(model: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    """Return SSM (Song et al., 2019) with two gradients."""
    x = x.detach().requires_grad_()
    (score,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    slope = (score * v).flatten(1).sum(1)
    (product,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    return (((product * v).flatten(1).sum(1) + slope**2 / 2) / EPS**2).mean()


def dsm(model: nn.Module, x: Tensor, noise: Tensor) -> Tensor:
    """Return DSM (Vincent, 2011) for given noise."""
    noisy = (x + noise).requires_grad_()
    (score,) = torch.autograd.grad(model(noisy).sum(), noisy, create_graph=True)
    return (score + noise / SIGMA**2).square().mean()


def plain(model: nn.Module, x: Tensor) -> Tensor:
    """Return the mean log-density, the cheapest loss."""
    mean: Tensor = model(x).mean()
    return mean


LOSSES: dict[str, Loss] = {
    "FD-SSM": lambda model, x: fd_ssm(model, x, sphere(x)),
    "SSM": lambda model, x: nested_ssm(model, x, sphere(x)),
    "DSM": lambda model, x: dsm(model, x, SIGMA * torch.randn_like(x)),
}
