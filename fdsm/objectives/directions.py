"""Random directions: drawing several per example and averaging the losses over them."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Generator, Tensor

from ..derivatives.checks.arguments import check_data, require_engine, require_projection
from ..projections import draw_directions, require_directions
from ..tensors import tile
from ..typing import Derivative, Projection


def as_stack(v: Tensor, x: Tensor) -> Tensor:
    """Return `v` with shape `(V, B, *E)`; a single direction per example may have `(B, *E)`."""
    return v[None] if v.ndim == x.ndim else v


def average_over_directions(
    loss: Callable[..., Tensor], x: Tensor, v: Tensor, *rows: Tensor
) -> Tensor:
    """Average a loss over the directions of each example.

    Args:
        loss: `(N, *E), (N, *E), *rows -> (N,)`.
        x: The data, shape `(B, *E)`.
        v: The directions, shape `(B, *E)` or `(V, B, *E)`.
        rows: Further arguments of the loss, one row per example.

    Returns:
        One loss per example, shape `(B,)`.
    """
    if v.ndim == x.ndim:
        return loss(x, v, *rows)
    check_data(x)
    n = len(v)
    losses = loss(tile(x, n), v.flatten(0, 1), *(tile(r, n) for r in rows))
    return losses.view(n, len(x)).mean(0)


class Sliced(ABC):
    """An objective whose only randomness is its directions.

    Attributes:
        derivative: The engine that differentiates along `v`.
        projection: The distribution of `v`.
        directions: Number of directions per example.
    """

    derivative: Derivative
    projection: Projection
    directions: int

    def __post_init__(self) -> None:
        require_engine(self.derivative)
        require_projection(self.projection)
        require_directions(self.directions)

    def __call__(
        self,
        f: Callable[..., Tensor],
        x: Tensor,
        /,
        *cond: Tensor,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the losses at `x` for directions drawn from the projection.

        Args:
            f: The model, a log-density or a score.
            x: The data, shape `(B, *E)`.
            cond: Further arguments of the model, one row per example.
            generator: Random number generator. Default: the global generator of torch.

        Returns:
            One loss per example, shape `(B,)`.
        """
        return self.at(
            f, x, draw_directions(self.projection, x, self.directions, generator), *cond
        )

    @abstractmethod
    def at(self, f: Callable[..., Tensor], x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given directions, shape `(B, *E)` or `(V, B, *E)`."""
