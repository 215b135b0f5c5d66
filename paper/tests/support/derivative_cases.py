"""Log-densities whose directional derivatives are known or cheap."""

import math

import torch
from torch import Tensor, nn


class Wave(nn.Module):
    r"""$a \sum_i \sin x_i$, whose derivatives are known. It records the sizes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(()))
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(x.shape[0])
        return self.a * x.sin().sum(1)


class Layer(nn.Module):
    r"""$\sum_j \tanh(x^T w_j)$."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, width))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.w).tanh().sum(1)


def derivative(x: Tensor, v: Tensor, order: int) -> Tensor:
    r"""Return $Σ v_i^T \sin(x_i + T π/2)$."""
    return (v**order * (x + order * math.pi / 2).sin()).sum(1)


def points(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random points and unit directions in four dimensions."""
    x, v = (torch.randn(rows, 4, generator=generator) for _ in range(2))
    return x, v / v.norm(dim=1, keepdim=True)
