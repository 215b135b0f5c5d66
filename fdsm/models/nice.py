"""Flows of additive couplings."""

import math
from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from .layers import Activation, perceptron, size


class NICE(nn.Module):
    r"""A normalised log-density: additive couplings, a diagonal scale and a normal latent.

    $$\log p(x) = \log N(z; 0, I) + \sum_i s_i, \qquad z = e^s ∘ (f_n ∘ \dots ∘ f_1)(x)$$

    Couplings change one half of the coordinates, the odd and the even ones in turn, by a network
    of the other half, so their Jacobians have determinant one. At the paper's size, the default,
    there are 15,154,352 parameters.

    Reference:
        Dinh et al. (2015), https://arxiv.org/abs/1410.8516.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 3.

    Args:
        shape: The shape of an event, or its length; events are flattened.
        hidden: The width of the hidden layers of each coupling.
        depth: How many hidden layers each coupling has.
        couplings: How many couplings.
        activation: What makes the activations; smooth.

    Raises:
        ValueError: If an event has one element only, which cannot be split.

    Example:
        >>> flow = NICE(4, hidden=8, depth=1)
        >>> x = flow.sample(3)
        >>> torch.allclose(flow.inverse(flow.encode(x)), x, atol=1e-5)
        True
    """

    def __init__(
        self,
        shape: int | Sequence[int] = 784,
        hidden: int = 1000,
        depth: int = 4,
        couplings: int = 4,
        activation: Activation = nn.Softplus,
    ) -> None:
        super().__init__()
        dim = size(shape)
        if dim < 2:
            raise ValueError(f"events need at least two elements to be split, but have {dim}")
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        layers = (
            Coupling(dim, (hidden,) * depth, activation, odd=bool(i % 2)) for i in range(couplings)
        )
        self.couplings = cast("Sequence[Coupling]", nn.ModuleList(layers))
        self.scale = Scale(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density in nats, normalised, shape `(B, *E) -> (B,)`."""
        z = self.encode(x)
        constant = self.scale.log_scale.sum() - z.shape[1] * math.log(2 * math.pi) / 2
        return constant - z.square().sum(1) / 2

    def encode(self, x: Tensor) -> Tensor:
        """Return the latent, shape `(B, *E) -> (B, D)`, standard normal under the model."""
        x = x.flatten(1)
        for coupling in self.couplings:
            x = coupling(x)
        z: Tensor = self.scale(x)
        return z

    def inverse(self, z: Tensor) -> Tensor:
        """Return the data whose latent is `z`, shape `(B, D) -> (B, *E)`."""
        x = self.scale.inverse(z)
        for coupling in reversed(self.couplings):
            x = coupling.inverse(x)
        return x.reshape(len(x), *self.shape)

    @torch.no_grad()
    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` exact samples of the model.

        Args:
            n: How many.
            generator: Source of the latent; torch's global one by default.

        Returns:
            The samples, shape `(n, *E)`.
        """
        scale = self.scale.log_scale
        z = torch.randn(n, len(scale), dtype=scale.dtype, device=scale.device, generator=generator)
        return self.inverse(z)

    @property
    def density_layers(self) -> list[nn.Module]:
        """Layers whose outputs add up to the log-density, but for a constant.

        For objectives that pass curvature back layer by layer.
        """
        return [nn.Flatten(), *self.couplings, self.scale, StandardNormal()]


class Coupling(nn.Module):
    """An invertible layer that shifts every other coordinate by a network of the rest.

    Args:
        dim: The length of an event.
        widths: The widths of the hidden layers.
        activation: What makes the activations.
        odd: Whether the coordinates at odd places are kept, and those at even places moved.
    """

    def __init__(
        self, dim: int, widths: Sequence[int], activation: Activation, *, odd: bool
    ) -> None:
        super().__init__()
        self.first = int(odd)
        kept = len(range(self.first, dim, 2))
        self.shift = perceptron((kept, *widths, dim - kept), activation)
        places = [*range(self.first, dim, 2), *range(1 - self.first, dim, 2)]
        order = torch.tensor(places, device="cpu").argsort()
        self.order: Tensor
        self.register_buffer("order", order, persistent=False)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coordinates that are kept and those that are moved."""
        if x.shape[1] % 2:
            return x[:, self.first :: 2], x[:, 1 - self.first :: 2]
        halves = x.unflatten(1, (-1, 2)).unbind(2)  # type: ignore[no-untyped-call]
        return halves[self.first], halves[1 - self.first]

    def merge(self, kept: Tensor, moved: Tensor) -> Tensor:
        """Undo `split`."""
        if kept.shape[1] != moved.shape[1]:
            return torch.cat([kept, moved], 1).index_select(1, self.order)
        halves = (moved, kept) if self.first else (kept, moved)
        return torch.stack(halves, 2).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Return what follows the layer, shape `(B, D) -> (B, D)`."""
        kept, moved = self.split(x)
        return self.merge(kept, moved + self.shift(kept))

    def inverse(self, y: Tensor) -> Tensor:
        """Return what `forward` took to `y`."""
        kept, moved = self.split(y)
        return self.merge(kept, moved - self.shift(kept))


class Scale(nn.Module):
    """Every coordinate times a positive number of its own, one at the start."""

    elementwise: Literal[True] = True

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled coordinates."""
        return x * self.log_scale.exp()

    def inverse(self, z: Tensor) -> Tensor:
        """Undo `forward`."""
        return z * (-self.log_scale).exp()


class StandardNormal(nn.Module):
    """The terms $-z²/2$ of a standard normal log-density, without its constant."""

    elementwise: Literal[True] = True

    def forward(self, z: Tensor) -> Tensor:
        """Return the term of each coordinate."""
        return -z.square() / 2
