"""Maximum likelihood of normalized models."""

from dataclasses import dataclass

from torch import Generator, Tensor

from ..derivatives.checks.arguments import check_data, checked_density
from ..typing import LogDensity


@dataclass(frozen=True)
class MLE:
    r"""The negative log-likelihood, $J(x) = -\log p(x)$, in nats per example.

    It is meaningful only for normalized densities, such as flows. Unlike the other objectives it
    is not divided by the dimension.

    Example:
        >>> import math, torch
        >>> standard_normal = lambda x: -x.square().sum(1) / 2 - math.log(2 * math.pi)
        >>> MLE()(standard_normal, torch.zeros(1, 2))
        tensor([1.8379])
    """

    def __call__(
        self,
        log_density: LogDensity,
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`. `generator` is not used."""
        check_data(x)
        return -checked_density(log_density)(x, *cond)
