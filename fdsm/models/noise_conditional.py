r"""Log-densities of noisy data, given the noise level.

$$f(x, σ) = -\frac{‖x‖²}{2(1 + σ²)} + \frac{1}{σ} \, g\!\left(\frac{x}{\sqrt{1 + σ²}}, σ\right)$$

The first term is the log-density of standard normal data with noise of standard deviation $σ$. The
network $g$ learns the difference. Its factor $1/σ$ follows the size of the score, which grows as
$1/σ$ where data lie close to a surface of lower dimension (Song and Ermon, 2020,
https://arxiv.org/abs/2006.09011, Technique 3).
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Generator, Tensor, nn

from ..tensors import dot, per_example
from .layers import Activation, num_elements, out_of_place, perceptron


class NoiseConditionalMLP(nn.Module):
    """A log-density of noisy rows, given the noise level.

    Args:
        shape: The shape of an event, or its length. Events are flattened.
        widths: Widths of the hidden layers.
        frequencies: Number of frequencies of the Fourier features of the noise level.
        activation: Constructor of the activations, which should be smooth.

    Example:
        >>> model = NoiseConditionalMLP(2, widths=(16,))
        >>> model(torch.zeros(5, 2), torch.full((5,), 0.1)).shape
        torch.Size([5])
    """

    frequencies: Tensor

    def __init__(
        self,
        shape: int | Sequence[int],
        widths: Sequence[int] = (128, 128, 128),
        frequencies: int = 8,
        activation: Activation = nn.SiLU,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("widths must have at least one hidden layer, but is empty")
        self.register_buffer("frequencies", torch.linspace(0.25, 4.0, frequencies))
        layers = perceptron((num_elements(shape) + 2 * frequencies, *widths), activation)
        self.network = nn.Sequential(
            *layers, out_of_place(activation), nn.Linear(widths[-1], 1, bias=False)
        )

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, *E), (B,) -> (B,)`."""
        scaled = _unit_variance(x, sigma).flatten(1)
        phase = sigma.log()[:, None] * self.frequencies
        inputs = torch.cat([scaled, phase.sin(), phase.cos()], 1)
        return _log_density(x, sigma, self.network(inputs).squeeze(1))


class NoiseScaled(nn.Module):
    """A log-density of noisy events from a network that is not given the noise level.

    In the formula of this module, $g(x, σ) = g(x)$.

    Args:
        network: A function of events, `(B, *E) -> (B,)`.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, *E), (B,) -> (B,)`."""
        return _log_density(x, sigma, self.network(_unit_variance(x, sigma)))


def _unit_variance(x: Tensor, sigma: Tensor) -> Tensor:
    r"""Return $x / \sqrt{1 + σ²}$, which has unit variance if the clean data have."""
    return x / per_example((1 + sigma.square()).sqrt(), x)


def _log_density(x: Tensor, sigma: Tensor, correction: Tensor) -> Tensor:
    """Return the log-density of this module from the values of its network, shape `(B,)`."""
    return -dot(x, x) / (2 * (1 + sigma.square())) + correction / sigma


class NoiseConditionalEnsemble(nn.Module):
    r"""Several log-densities of noisy rows with the same architecture, computed together.

    Member $k$ is

    $$f_k(x, σ) = -\frac{‖x‖²}{2(1 + σ²)} - \frac{‖g_k(z, \log σ) - z‖²}{2σ},
    \qquad z = \frac{x}{\sqrt{1 + σ²}},$$

    where $g_k$ is a residual network. Rows that a member reconstructs well are likely.

    Args:
        columns: Number of elements of a row, D.
        members: Number of members, K.
        width: Width of the hidden layers.
        blocks: Number of residual blocks.
        generator: Random number generator of the initial weights. Default: torch's global one.

    Example:
        >>> model = NoiseConditionalEnsemble(2, members=3, width=16)
        >>> model(torch.zeros(3, 5, 2), torch.full((3, 5), 0.1)).shape
        torch.Size([3, 5])
    """

    def __init__(
        self,
        columns: int,
        members: int = 4,
        width: int = 64,
        blocks: int = 2,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.members = members
        linear = partial(_MemberLinear, members, generator=generator)
        self.rows = linear(columns, width)
        self.level = linear(1, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.SiLU(), linear(width, width), nn.SiLU(), linear(width, width))
            for _ in range(blocks)
        )
        self.reconstruction = nn.Sequential(nn.SiLU(), linear(width, columns))

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-densities up to constants, shape `(K, B, D), (K, B) -> (K, B)`."""
        z = x / (1 + sigma.square()).sqrt()[..., None]
        h = self.rows(z) + self.level(sigma.log()[..., None])
        for block in self.blocks:
            h = h + block(h)
        error: Tensor = (self.reconstruction(h) - z).square().sum(-1)
        return -z.square().sum(-1) / 2 - error / (2 * sigma)


class _MemberLinear(nn.Module):
    """A linear layer for each member, `(K, B, n) -> (K, B, m)`, initialized like `nn.Linear`."""

    def __init__(
        self, members: int, inputs: int, outputs: int, generator: Generator | None = None
    ) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer of each member to its rows."""
        return torch.baddbmm(self.bias, x, self.weight)


class MeanOfMembers(nn.Module):
    """The mean of the log-densities of an ensemble, given the noise level.

    Args:
        ensemble: The ensemble.
    """

    def __init__(self, ensemble: NoiseConditionalEnsemble) -> None:
        super().__init__()
        self.ensemble = ensemble

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the mean log-density, shape `(B, D), (B,) -> (B,)`."""
        k = self.ensemble.members
        result: Tensor = self.ensemble(x.expand(k, *x.shape), sigma.expand(k, -1)).mean(0)
        return result


class OneMember(nn.Module):
    """The log-density of one member of an ensemble, given the noise level.

    Args:
        ensemble: The ensemble.
        index: Index of the member.
    """

    def __init__(self, ensemble: NoiseConditionalEnsemble, index: int) -> None:
        super().__init__()
        self.ensemble, self.index = ensemble, index

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the log-density, shape `(B, D), (B,) -> (B,)`."""
        k = self.ensemble.members
        result: Tensor = self.ensemble(x.expand(k, *x.shape), sigma.expand(k, -1))[self.index]
        return result


class ProductOfMembers(nn.Module):
    r"""The joint log-density of independent rows, one per member of an ensemble.

    $$f(x_1, …, x_K, σ) = \sum_k f_k(x_k, σ)$$

    An objective of this density is the mean of the objectives of the members, so it trains all of
    them at once, each on rows of its own. For sliced objectives this holds in expectation over
    the directions.

    Args:
        ensemble: The ensemble.
    """

    def __init__(self, ensemble: NoiseConditionalEnsemble) -> None:
        super().__init__()
        self.ensemble = ensemble

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return the sum of the log-densities, shape `(B, K, D), (B,) -> (B,)`."""
        levels = sigma.expand(self.ensemble.members, -1)
        result: Tensor = self.ensemble(x.transpose(0, 1), levels).sum(0)
        return result


class AtNoiseLevel(nn.Module):
    """A noise-conditional log-density at one noise level.

    Args:
        model: The log-density given the noise level, `(B, *E), (B,) -> (B,)`.
        sigma: The noise level.
    """

    def __init__(self, model: nn.Module, sigma: float) -> None:
        super().__init__()
        self.model, self.sigma = model, sigma

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, *E) -> (B,)`."""
        result: Tensor = self.model(x, x.new_full(x.shape[:1], self.sigma))
        return result
