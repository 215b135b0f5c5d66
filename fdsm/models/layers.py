"""Pieces that several models are made of."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module]
"""What makes an activation, such as `nn.SiLU`: called once for every place where one is used.

For densities it should be smooth: second derivatives of a ReLU are zero where they exist, and
those of an ELU jump, which makes the parameter gradients of exact sliced score matching wrong.
"""


def made(activation: Activation) -> nn.Module:
    """Return an activation that leaves its input alone, since that may be used again.

    Args:
        activation: What makes it.

    Returns:
        The activation, no longer in place if it was.

    Example:
        >>> made(lambda: nn.ELU(inplace=True))
        ELU(alpha=1.0)
    """
    module: Any = activation()
    if getattr(module, "inplace", False):
        module.inplace = False
    result: nn.Module = module
    return result


def size(shape: int | Sequence[int]) -> int:
    """Return how many elements an event of the given shape, or length, has."""
    return shape if isinstance(shape, int) else math.prod(shape)


class ShiftedSoftplus(nn.Module):
    r"""The activation $\log(1 + e^x) - \log 2$: smooth, and zero at zero.

    What the authors of FD score matching trained their deep models with.

    Example:
        >>> import torch
        >>> ShiftedSoftplus()(torch.zeros(2))
        tensor([0., 0.])
    """

    elementwise: Literal[True] = True

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element."""
        return functional.softplus(x) - math.log(2)


class QuadraticHead(nn.Module):
    r"""The log-density $(a^T h + a_0)(b^T h + b_0) + c^T (h ∘ h)$ of features $h$.

    Published code adds a constant $c_0$. It is left out: no derivative with respect to the data
    depends on it, so that score matching leaves it without a gradient (which breaks
    data-parallel training) or, by finite differences, with the rounding error of one.

    Args:
        features: The length of $h$.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.factors = nn.Linear(features, 2)
        self.squares = nn.Linear(features, 1, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        """Return the log-density, shape `(B, features) -> (B,)`."""
        a, b = self.factors(h).unbind(1)
        result: Tensor = a * b + self.squares(h.square()).squeeze(1)
        return result


def perceptron(widths: Iterable[int], activation: Activation) -> nn.Sequential:
    """Return linear layers with activations between them, none after the last.

    Args:
        widths: The width of the input, of every hidden layer and of the output.
        activation: What makes the activations.

    Returns:
        The layers in order.

    Example:
        >>> [type(layer).__name__ for layer in perceptron((2, 8, 1), nn.SiLU)]
        ['Linear', 'SiLU', 'Linear']
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), made(activation)]
    return nn.Sequential(*layers[:-1])
