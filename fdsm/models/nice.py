"""NICE, a normalizing flow of additive couplings."""

import math
from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from .layers import Activation, num_elements, perceptron


class NICE(nn.Module):
    r"""A normalizing flow of additive couplings with a diagonal scale. Its output is normalized.

    $$\log p(x) = \log N(z; 0, I) + \sum_i s_i, \qquad z = e^s ∘ (f_n ∘ \ldots ∘ f_1)(x)$$

    Each coupling adds a network of one half of the coordinates to the other half, alternating
    between even and odd coordinates. The Jacobian of a coupling has determinant one. The default
    is the model of the paper, with 15,154,352 parameters.

    Reference:
        Dinh et al. (2015), https://arxiv.org/abs/1410.8516.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Table 3.

    Args:
        shape: Event shape, or its length. Events are flattened.
        hidden: Width of the hidden layers of each coupling.
        depth: Number of hidden layers of each coupling.
        couplings: Number of couplings.
        activation: Constructor of the activations, which should be smooth.

    Raises:
        ValueError: If an event has only one element.

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
        dim = num_elements(shape)
        if dim < 2:
            raise ValueError(f"events must have at least two elements, but have {dim}")
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        layers = (
            Coupling(dim, (hidden,) * depth, activation, odd=bool(i % 2)) for i in range(couplings)
        )
        self.couplings = cast("Sequence[Coupling]", nn.ModuleList(layers))
        self.scale = Scale(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized log-density in nats, shape `(B, *E) -> (B,)`."""
        z = self.encode(x)
        constant = self.scale.log_scale.sum() - z.shape[1] * math.log(2 * math.pi) / 2
        return constant - z.square().sum(1) / 2

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the normalized log-density, as `forward` does, shape `(B, *E) -> (B,)`."""
        result: Tensor = self(x)
        return result

    def encode(self, x: Tensor) -> Tensor:
        """Return the latent, which is standard normal under the model, `(B, *E) -> (B, D)`."""
        x = x.flatten(1)
        for coupling in self.couplings:
            x = coupling(x)
        z: Tensor = self.scale(x)
        return z

    def inverse(self, z: Tensor) -> Tensor:
        """Return the data with latent `z`, shape `(B, D) -> (B, *E)`."""
        x = self.scale.inverse(z)
        for coupling in reversed(self.couplings):
            x = coupling.inverse(x)
        return x.reshape(len(x), *self.shape)

    @torch.no_grad()
    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return `n` exact samples of the model.

        Args:
            n: Number of samples.
            generator: Random number generator. Default: the global generator of torch.

        Returns:
            The samples, shape `(n, *E)`.
        """
        scale = self.scale.log_scale
        z = torch.randn(n, len(scale), dtype=scale.dtype, device=scale.device, generator=generator)
        return self.inverse(z)

    @property
    def density_layers(self) -> list[nn.Module]:
        """Layers whose outputs sum to the log-density up to a constant.

        They are the input of the layer-wise objectives.
        """
        return [nn.Flatten(), *self.couplings, self.scale, StandardNormal()]


class Coupling(nn.Module):
    """An invertible layer that adds a network of one half of the coordinates to the other half.

    Args:
        dim: Length of an event.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations.
        odd: Whether coordinates with odd indices are kept and those with even indices shifted.
    """

    def __init__(
        self, dim: int, widths: Sequence[int], activation: Activation, *, odd: bool
    ) -> None:
        super().__init__()
        self.first = int(odd)
        kept = len(range(self.first, dim, 2))
        self.shift = perceptron((kept, *widths, dim - kept), activation)
        indices = [*range(self.first, dim, 2), *range(1 - self.first, dim, 2)]
        order = torch.tensor(indices, device="cpu").argsort()
        self.order: Tensor
        self.register_buffer("order", order, persistent=False)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coordinates that are kept and those that are shifted."""
        if x.shape[1] % 2:
            return x[:, self.first :: 2], x[:, 1 - self.first :: 2]
        halves = x.unflatten(1, (-1, 2)).unbind(2)  # type: ignore[no-untyped-call]
        return halves[self.first], halves[1 - self.first]

    def merge(self, kept: Tensor, shifted: Tensor) -> Tensor:
        """Invert `split`."""
        if kept.shape[1] != shifted.shape[1]:
            return torch.cat([kept, shifted], 1).index_select(1, self.order)
        halves = (shifted, kept) if self.first else (kept, shifted)
        return torch.stack(halves, 2).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, shape `(B, D) -> (B, D)`."""
        kept, shifted = self.split(x)
        return self.merge(kept, shifted + self.shift(kept))

    def inverse(self, y: Tensor) -> Tensor:
        """Return the input with output `y`."""
        kept, shifted = self.split(y)
        return self.merge(kept, shifted - self.shift(kept))


class Scale(nn.Module):
    """A positive scale for each coordinate, initially one."""

    elementwise: Literal[True] = True

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled coordinates."""
        return x * self.log_scale.exp()

    def inverse(self, z: Tensor) -> Tensor:
        """Invert `forward`."""
        return z * (-self.log_scale).exp()


class StandardNormal(nn.Module):
    """The terms $-z²/2$ of a standard normal log-density, without its constant."""

    elementwise: Literal[True] = True

    def forward(self, z: Tensor) -> Tensor:
        """Return the term of each coordinate."""
        return -z.square() / 2
