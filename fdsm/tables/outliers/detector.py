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
REFERENCE_ROWS = 5000
"""Largest number of training rows that new rows are compared with."""
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
            rows: Held-out rows, shape `(n, D)`, in random order. NaN in missing cells. New rows
                are compared with the first 5,000.
            folds: Fold of each row, shape `(n,)`.
            training_rows: Training rows whose values are known, shape `(N, D)`, with NaN in
                missing cells. They include the held-out rows.

        Returns:
            The detector.
        """
        neighbors = Neighbors(rows[:REFERENCE_ROWS], folds[:REFERENCE_ROWS])
        known_values = KnownValues.fit(training_rows)
        own = _held_out_measures(log_densities, neighbors, known_values, rows, folds)
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
        itself = self.neighbors.index_of(x)
        if not (leave_one_out or self.neighbors.are_different):
            itself.fill_(-1)
        parts = []
        incomplete = x.isnan().any(1)
        for is_chosen in (~incomplete, incomplete):
            for part in torch.split(is_chosen.nonzero().flatten(), CHUNK):
                rows, own = x[None, part], itself[None, part]
                parts.append((
                    part,
                    _compare(
                        log_densities, self.neighbors, self.known_values, rows, own, own >= 0
                    ),
                ))
        return _in_order(parts)

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


def _held_out_measures(
    log_densities: LogDensities,
    neighbors: Neighbors,
    known_values: KnownValues,
    rows: Tensor,
    folds: Tensor,
) -> Tensor:
    """Return the measures of held-out rows, each by the model of its fold, `(n, D) -> (M, n)`."""
    parts = []
    incomplete = rows.isnan().any(1)
    for is_chosen in (~incomplete, incomplete):
        of_fold = [
            (is_chosen & (folds == k)).nonzero().flatten() for k in range(neighbors.num_folds)
        ]
        # The models of all folds are evaluated together, so folds with fewer rows are padded.
        index = torch.nn.utils.rnn.pad_sequence(of_fold, batch_first=True, padding_value=-1)
        for part in torch.split(index, CHUNK, 1):
            itself = torch.where(part < len(neighbors.rows), part, -1)
            measures = _compare(
                log_densities,
                neighbors,
                known_values,
                rows[part.clamp_min(0)],
                itself,
                torch.ones_like(part, dtype=torch.bool),
            )
            parts.append((part[part >= 0], measures[:, part >= 0]))
    return _in_order(parts)


def _in_order(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the values of all rows from indices `(n,)` and values `(..., n)` of some of them."""
    index, values = (torch.cat(tensors, -1) for tensors in zip(*parts, strict=True))
    return values[..., index.argsort()]


def _compare(
    log_densities: LogDensities,
    neighbors: Neighbors,
    known_values: KnownValues,
    x: Tensor,
    itself: Tensor,
    is_training_row: Tensor,
) -> Tensor:
    """Return the measures of rows by each fold, shape `(M, K, N)`.

    Args:
        log_densities: The log-densities.
        neighbors: Distances to training rows.
        known_values: Values that occur in training.
        x: Rows, shape `(1, N, D)`, or other ones for each fold, shape `(K, N, D)`.
        itself: Index of each row among those of `neighbors`, or -1, shape `(1, N)` or `(K, N)`.
        is_training_row: Whether its values are counted in `known_values`, same shape.

    Returns:
        Minus the log-densities, the mean log-distance and the surprise of new values.
    """
    shape = neighbors.num_folds, x.shape[1]
    surprise = known_values.surprise(x.flatten(0, 1), is_training_row.flatten()).sum(1)
    surprise = surprise.view(itself.shape).expand(1, *shape)
    measures = [
        torch.cat([
            -log_densities(filled.expand(*shape, -1)),
            neighbors.mean_log_distance(filled, itself).expand(1, *shape),
            surprise,
        ])
        for filled in neighbors.completions(x)
    ]
    return torch.stack(measures).mean(0)
