"""Outlier scores of rows in the space of a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from .calibration import Calibration
from .neighbors import Neighbors

LOG_DENSITY = 0.5
"""Weight of the log-density. That of the distances is 1. Chosen on 87 tables: docs/outliers.md."""
LogDensities = Callable[[Tensor], Tensor]
"""Log-densities of rows at L noise levels by the models of K folds: `(N, *E) -> (L, K, N)`."""


class Scores(NamedTuple):
    """Outlier scores of rows, each of shape `(N,)`.

    Attributes:
        score: How unusual the row is. Larger is more unusual; 3 means one row in 1,000.
        p_value: Probability that a normal row has at least this score.
    """

    score: Tensor
    p_value: Tensor


@dataclass(frozen=True)
class OutlierDetector:
    """Outlier scores from a log-density and, for tables, distances to training rows.

    The measures are minus the log-density at each noise level, which share one weight, and the
    mean log-distance to the nearest rows. `Calibration` combines them. Suspiciously high density
    is tested by the log-density alone, since a copy of a training row is no surprise.

    Attributes:
        calibration: The combination and calibration of the measures.
        neighbors: The local estimate of the density, or `None`.

    Example:
        >>> rows = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
        >>> log_density = lambda x: -x.square().sum(1)[None, None] / 2
        >>> folds = torch.zeros(2000, dtype=torch.long)
        >>> detector = OutlierDetector.fit(log_density, rows, folds)
        >>> detector.score_rows(log_density, torch.tensor([[0.5], [6.0]])).p_value < 0.01
        tensor([False,  True])
    """

    calibration: Calibration
    neighbors: Neighbors | None = None

    @classmethod
    def fit(
        cls,
        log_densities: LogDensities,
        rows: Tensor,
        folds: Tensor,
        *,
        neighbors: bool = False,
    ) -> Self:
        """Calibrate a detector on held-out rows.

        Args:
            log_densities: The log-densities. The model of fold `k` has not seen rows of fold `k`.
            rows: Held-out rows, shape `(n, *E)`.
            folds: Fold of each row, shape `(n,)`.
            neighbors: Whether to use distances to the rows too. Held-out rows are then compared
                with all other rows.

        Returns:
            The detector.
        """
        values = -log_densities(rows)
        own = values[:, folds, torch.arange(len(rows), device=rows.device)]
        levels = len(own)
        local = Neighbors(rows) if neighbors else None
        if local is not None:
            distances = local.mean_log_distance(rows, leave_one_out=True)
            own = torch.cat([own, distances[None].to(own.dtype)])
        weights = torch.zeros(2, len(own))
        weights[0, levels:] = 1.0
        weights[0, :levels] = LOG_DENSITY / levels
        weights[1, :levels] = 1.0 / levels
        return cls(Calibration.fit(own, folds, weights), local)

    def score_rows(self, log_densities: LogDensities, x: Tensor) -> Scores:
        """Return the scores and p-values of rows.

        Args:
            log_densities: The log-densities that the detector was calibrated with.
            x: Rows, shape `(N, *E)`.

        Returns:
            The scores.
        """
        return self.score_completions(log_densities, x[None])

    def score_completions(
        self, log_densities: LogDensities, x: Tensor, *, leave_one_out: bool = False
    ) -> Scores:
        """Return the scores of rows with missing cells that were filled in several ways.

        The measures are averaged over the completions. So a missing cell contributes what its
        likely values contribute on average, and rows with and without missing cells can be
        compared.

        Args:
            log_densities: The log-densities that the detector was calibrated with.
            x: Completed rows, shape `(C, N, *E)`.
            leave_one_out: Whether the rows are training rows, which are not their own neighbors.

        Returns:
            The scores, shape `(N,)` each.
        """
        values = -log_densities(x.flatten(0, 1))
        if self.neighbors is not None:
            local = self.neighbors.mean_log_distance(x.flatten(0, 1), leave_one_out=leave_one_out)
            local = local.to(values.dtype).expand(1, values.shape[1], -1)
            values = torch.cat([values, local])
        values = values.view(*values.shape[:2], *x.shape[:2]).mean(2)
        return Scores(self.calibration.score(values), self.calibration.p_value(values))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that define the detector."""
        state = {f"calibration.{name}": t for name, t in vars(self.calibration).items()}
        if self.neighbors is not None:
            state |= {f"neighbors.{name}": t for name, t in vars(self.neighbors).items()}
        return state

    @classmethod
    def restore(cls, state: dict[str, Tensor], device: torch.device | str = "cpu") -> Self:
        """Return the detector with the tensors of `state()`."""
        parts: dict[str, dict[str, Tensor]] = {"calibration": {}, "neighbors": {}}
        for name, tensor in state.items():
            part, key = name.split(".")
            parts[part][key] = tensor.to(device)
        neighbors = Neighbors(**parts["neighbors"]) if parts["neighbors"] else None
        return cls(Calibration(**parts["calibration"]), neighbors)
