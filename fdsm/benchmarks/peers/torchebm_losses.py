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
        energies: Tensor = -self.log_density(x.view(-1, *self.event))
        return energies


def ssm(log_density: nn.Module, x: Tensor, directions: int = 5) -> Callable[[], Tensor]:
    """Return sliced score matching with random signs, summed over the dimensions.

    Args:
        log_density: The model.
        x: The batch.
        directions: Number of directions.

    Returns:
        The mean loss of the batch, as a function of nothing.
    """
    return partial(
        SlicedScoreMatching(_energy(log_density, x), n_projections=directions), x.flatten(1)
    )


def dsm(log_density: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """Return denoising score matching, half the sum over the dimensions."""
    return partial(
        DenoisingScoreMatching(_energy(log_density, x), noise_scale=SIGMA), x.flatten(1)
    )


def _energy(log_density: nn.Module, x: Tensor) -> Energy:
    return Energy(log_density, tuple(x.shape[1:]))


LOSSES: dict[str, Callable[[nn.Module, Tensor], Callable[[], Tensor]]] = {
    "SSM, 1 direction": partial(ssm, directions=1),
    "SSM, 5 directions": ssm,
    "DSM": dsm,
}
