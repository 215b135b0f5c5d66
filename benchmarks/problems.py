"""Networks and batches on which losses are timed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fdsm.models import QuadraticResNet


def mlp(
    features: int, *widths: int, activation: Callable[[], nn.Module] = nn.SiLU
) -> nn.Sequential:
    """Return a multilayer perceptron of flat rows with one output, `(B, features) -> (B,)`.

    Args:
        features: Number of inputs.
        widths: Widths of the hidden layers.
        activation: Constructor of the activations.

    Returns:
        The network, alternating linear layers and activations.

    Example:
        >>> mlp(16, 128, 128)(torch.zeros(3, 16)).shape
        torch.Size([3])
    """
    layers: list[nn.Module] = []
    for before, after in zip((features, *widths), widths, strict=False):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1), nn.Flatten(0))


@dataclass(frozen=True)
class Problem:
    """A network and a batch of standard normal numbers.

    Attributes:
        name: Name in tables.
        model: Constructor of the network, a log-density.
        shape: Shape of the batch.
        repeats: Number of timed runs.
    """

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    repeats: int

    def build(self) -> tuple[nn.Module, Tensor]:
        """Return the network and the batch, in float32 and the same at every call."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return self.model().float(), torch.randn(self.shape, dtype=torch.float32)


LARGE_MLP = Problem("MLP 784-1000x4, B128", partial(mlp, 784, *[1000] * 4), (128, 784), 20)
SMALL_MLP = Problem("MLP 16-128x3, B64", partial(mlp, 16, *[128] * 3), (64, 16), 200)
SMALL_MLP_256 = Problem("MLP 16-128x3, B256", SMALL_MLP.model, (256, 16), 100)
RESNET = Problem(
    "QuadraticResNet w8, 32x32, B16", partial(QuadraticResNet, (1, 32, 32), 8), (16, 1, 32, 32), 15
)
PROBLEMS = (LARGE_MLP, SMALL_MLP, SMALL_MLP_256, RESNET)
