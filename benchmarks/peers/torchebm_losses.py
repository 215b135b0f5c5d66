"""The losses of torchebm."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torchebm.core import BaseModel
from torchebm.losses import DenoisingScoreMatching, SlicedScoreMatching

from .by_hand import SIGMA


class Energy(BaseModel):  # type: ignore[misc]  # torchebm has no types
    r"""The energy of a log-density of flat rows, $-\log p$.

    torchebm sums over the last axis only, so events are flattened.
    """

    def __init__(self, log_density: nn.Module, event: tuple[int, ...]) -> None:
        super().__init__()
        self.log_density = log_density
        self.event = event

    def forward(self, x: Tensor) -> Tensor:
        """Return the energy, shape `(B, d) -> (B,)`."""
        energies: Tensor = -self.log_density(x.view(len(x), *self.event))
        return energies


def sliced(
    log_density: nn.Module, event: tuple[int, ...] = (-1,), directions: int = 5
) -> Callable[[Tensor], Tensor]:
    """Return sliced score matching with random signs, summed over the dimensions.

    Args:
        log_density: The model.
        event: Shape of an event. Default: flat.
        directions: Number of directions.

    Returns:
        The mean loss of flat rows.
    """
    energy = Energy(log_density, event)
    loss: Callable[[Tensor], Tensor] = SlicedScoreMatching(energy, n_projections=directions)
    return loss


def ssm(log_density: nn.Module, x: Tensor, directions: int = 5) -> Callable[[], Tensor]:
    """Return sliced score matching of a batch."""
    return partial(sliced(log_density, tuple(x.shape[1:]), directions), x.flatten(1))


def dsm(log_density: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """Return denoising score matching of a batch, half the sum over the dimensions."""
    energy = Energy(log_density, tuple(x.shape[1:]))
    return partial(DenoisingScoreMatching(energy, noise_scale=SIGMA), x.flatten(1))


LOSSES: dict[str, Callable[[nn.Module, Tensor], Callable[[], Tensor]]] = {
    "SSM, 1 direction": partial(ssm, directions=1),
    "SSM, 5 directions": ssm,
    "DSM": dsm,
}
