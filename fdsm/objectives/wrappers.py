"""Objectives made of other objectives."""

from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives import score_of
from ..typing import LogDensity, Objective


@dataclass(frozen=True)
class ViaScore:
    """A score objective applied to a log-density, through its gradient.

    `ViaScore(SSMVR(Autodiff(), Gaussian()))` is the SSMVR of the paper's Tables 1 to 3.

    Attributes:
        objective: Takes a score.
    """

    objective: Objective

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses of the score of `log_density` at `x`, shape `(B,)`."""
        return self.objective(score_of(log_density), x, *cond, generator=generator)
