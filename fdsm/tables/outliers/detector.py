"""Outlier scores of rows of a table in the space of a model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from .calibration import Calibration
from .known_values import KnownValues
from .neighbors import Neighbors

LOG_DENSITY, NEW_VALUES = 0.5, 0.2
"""Weights of the log-density and new values. That of distances is 1. See docs/outliers.md."""
CHUNK = 1024
"""Number of rows that are compared at once."""
LogDensities = Callable[[Tensor], Tensor]
"""Log-densities at L noise levels by the models of K folds: `(K, N, D) -> (L, K, N)`."""


@dataclass(frozen=True)
class OutlierDetector:
    """Outlier scores from a log-density and from the training rows themselves.

    The measures are minus the log-density at each noise level, which share one weight, the mean
    log-distance to the nearest rows, and the surprise of new values. `Calibration` combines them.
    Suspiciously high density is tested by the log-density alone, since a copy of a training row is
    no surprise.

    Attributes:
        calibration: The combination and calibration of the measures.
        neighbors: Distances to training rows.
        known_values: Values that occur in training.

    Example:
        >>> rows = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
        >>> log_density = lambda x: -x.square().sum(-1)[None] / 2
        >>> detector = OutlierDetector.fit(log_density, rows, torch.arange(2000) % 4, rows)
        >>> measures = detector.measures(log_density, torch.tensor([[0.5], [6.0]]))
        >>> detector.calibration.p_value(measures) < 0.01
        tensor([False,  True])
    """

    calibration: Calibration
    neighbors: Neighbors
    known_values: KnownValues

    @classmethod
    def fit(
        cls, log_densities: LogDensities, rows: Tensor, folds: Tensor, training_rows: Tensor
    ) -> Self:
        """Calibrate a detector on held-out rows.

        Args:
            log_densities: The log-densities. The model of fold `k` has not seen rows of fold `k`.
            rows: Held-out rows, shape `(n, D)`. NaN in missing cells. New rows are compared with
                them.
            folds: Fold of each row, shape `(n,)`.
            training_rows: Training rows whose values are known, shape `(N, D)`, with NaN in
                missing cells. They include the held-out rows.

        Returns:
            The detector.
        """
        neighbors, known_values = Neighbors(rows, folds), KnownValues.fit(training_rows)
        parts = [
            _compare(log_densities, neighbors, known_values, x, leave_one_out=True)[
                :, fold, torch.arange(len(x), device=x.device)
            ]
            for x, fold in zip(rows.split(CHUNK), folds.split(CHUNK), strict=True)  # type: ignore[no-untyped-call]
        ]
        own = torch.cat(parts, 1)
        levels = len(own) - 2
        weights = torch.tensor([
            [*[LOG_DENSITY / levels] * levels, 1.0, NEW_VALUES],
            [*[1 / levels] * levels, 0.0, 0.0],
        ])
        smallest_scale = torch.zeros(len(own))
        smallest_scale[-1] = 1.0  # the surprise of new values is not stretched
        return cls(Calibration.fit(own, folds, weights, smallest_scale), neighbors, known_values)

    def measures(
        self, log_densities: LogDensities, x: Tensor, *, leave_one_out: bool = False
    ) -> Tensor:
        """Return the measures of rows by each fold, shape `(N, D) -> (M, K, N)`.

        The first measures are minus the log-densities. The measures of rows with missing cells are
        averaged over several completions. So a missing cell contributes what its likely values
        contribute on average, and rows with and without missing cells can be compared.

        Args:
            log_densities: The log-densities that the detector was calibrated with.
            x: Rows, shape `(N, D)`. NaN in missing cells.
            leave_one_out: Whether copies of training rows are these rows, which are not their own
                neighbors. If the training rows are different, they always are.
        """
        parts = [
            _compare(
                log_densities,
                self.neighbors,
                self.known_values,
                part,
                leave_one_out=leave_one_out,
            )
            for part in x.split(CHUNK)  # type: ignore[no-untyped-call]
        ]
        return torch.cat(parts, 2)

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors that define the detector, by part and name."""
        return {
            part: {field.name: getattr(component, field.name) for field in fields(component)}
            for part, component in vars(self).items()
        }

    @classmethod
    def restore(cls, state: dict[str, dict[str, Tensor]]) -> Self:
        """Return the detector with the tensors of `state()`."""
        return cls(
            Calibration(**state["calibration"]),
            Neighbors(**state["neighbors"]),
            KnownValues(**state["known_values"]),
        )


def _compare(
    log_densities: LogDensities,
    neighbors: Neighbors,
    known_values: KnownValues,
    x: Tensor,
    *,
    leave_one_out: bool,
) -> Tensor:
    """Return the measures of rows of a table by each fold, shape `(N, D) -> (M, K, N)`."""
    missing = x.isnan().any(1)
    order = missing.long().argsort(stable=True)  # rows with missing cells are last
    parts = [rows for rows in (x[~missing], x[missing]) if len(rows)] or [x]
    values = []
    for rows in parts:
        itself = neighbors.index_of(rows)
        if not (leave_one_out or neighbors.are_different):
            itself.fill_(-1)
        surprise = known_values.surprise(rows, itself >= 0).sum(1)
        measures = [
            torch.cat([
                -log_densities(filled.expand(neighbors.num_folds, -1, -1)),
                neighbors.mean_log_distance(filled, itself)[None],
                surprise.expand(1, neighbors.num_folds, -1),
            ])
            for filled in neighbors.completions(rows)
        ]
        values.append(torch.stack(measures).mean(0))
    return torch.cat(values, 2)[..., order.argsort()]
