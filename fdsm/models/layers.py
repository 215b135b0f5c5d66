"""Layers shared by several models."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module]
"""Constructor of an activation, such as `nn.SiLU`. Each use of the activation is a new module.

Activations of densities should be smooth. The second derivative of a ReLU is zero almost
everywhere. That of an ELU is discontinuous, which biases the parameter gradients of exact sliced
score matching.
"""


def out_of_place(activation: Activation) -> nn.Module:
    """Return an activation that does not change its input, which the model may use again.

    Args:
        activation: Constructor of the activation.

    Returns:
        The activation with `inplace=False`.

    Example:
        >>> out_of_place(lambda: nn.ELU(inplace=True))
        ELU(alpha=1.0)
    """
    module: Any = activation()
    if getattr(module, "inplace", False):
        module.inplace = False
    result: nn.Module = module
    return result


def num_elements(shape: int | Sequence[int]) -> int:
    """Return the number of elements of an event with the given shape or length."""
    return shape if isinstance(shape, int) else math.prod(shape)


class ShiftedSoftplus(nn.Module):
    r"""The activation $\log(1 + e^x) - \log 2$, which is smooth and zero at zero.

    The deep models of the paper were trained with it.

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

    The published code adds a constant $c_0$. It is omitted here, because derivatives with respect
    to the data do not depend on it. With score matching it has no gradient, which breaks
    data-parallel training. With finite differences its gradient is rounding error.

    Args:
        features: Number of features.
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
    """Return linear layers with activations between them.

    Args:
        widths: Widths of the input, the hidden layers and the output.
        activation: Constructor of the activations.

    Returns:
        The layers in order.

    Example:
        >>> [type(layer).__name__ for layer in perceptron((2, 8, 1), nn.SiLU)]
        ['Linear', 'SiLU', 'Linear']
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), out_of_place(activation)]
    return nn.Sequential(*layers[:-1])
