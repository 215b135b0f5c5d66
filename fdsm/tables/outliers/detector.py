"""Outlier scores of rows in the space of a model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ...sharding import over_rows
from .calibration import Calibration
from .known_values import KnownValues
from .neighbors import Neighbors

LOG_DENSITY, NEW_VALUES = 0.5, 0.2
"""Weights of the log-density and new values. That of distances is 1. See docs/outliers.md."""
LogDensities = Callable[[Tensor], Tensor]
"""Log-densities at L noise levels by the models of K folds: `(K, N, *E) -> (L, K, N)`."""


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
    """Outlier scores from a log-density and, for tables, from the training rows themselves.

    The measures are minus the log-density at each noise level, which share one weight, and for
    tables the mean log-distance to the nearest rows and the surprise of new values. `Calibration`
    combines them. Suspiciously high density is tested by the log-density alone, since a copy of a
    training row is no surprise.

    Attributes:
        calibration: The combination and calibration of the measures.
        neighbors: Distances to training rows, or `None`.
        known_values: Values that occur in training, or `None`.

    Example:
        >>> rows = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
        >>> log_density = lambda x: -x.square().sum(-1)[None] / 2
        >>> detector = OutlierDetector.fit(log_density, rows, torch.arange(2000) % 4)
        >>> detector.score_rows(log_density, torch.tensor([[0.5], [6.0]])).p_value < 0.01
        tensor([False,  True])
    """

    calibration: Calibration
    neighbors: Neighbors | None = None
    known_values: KnownValues | None = None

    @classmethod
    def fit(
        cls,
        log_densities: LogDensities,
        rows: Tensor,
        folds: Tensor,
        *,
        training_rows: Tensor | None = None,
    ) -> Self:
        """Calibrate a detector on held-out rows.

        Args:
            log_densities: The log-densities. The model of fold `k` has not seen rows of fold `k`.
            rows: Held-out rows, shape `(n, *E)`. NaN in missing cells of tables.
            folds: Fold of each row, shape `(n,)`.
            training_rows: For tables: training rows, shape `(N, D)`, with NaN in missing cells.
                They include the held-out rows. Then the distances to `rows` and values that do
                not occur in `training_rows` are measures too.

        Returns:
            The detector.
        """
        neighbors = known_values = None
        if training_rows is not None:
            neighbors, known_values = Neighbors(rows, folds), KnownValues.fit(training_rows)
        num_folds = int(folds.max()) + 1

        def held_out(x: Tensor, fold: Tensor) -> Tensor:
            if neighbors is None or known_values is None:
                values = -log_densities(x.expand(num_folds, *x.shape))
            else:
                values = _compare(log_densities, neighbors, known_values, x, leave_one_out=True)
            return values[:, fold, torch.arange(len(x), device=x.device)].T

        own = over_rows(held_out, rows, folds).T
        levels = len(own) if neighbors is None else len(own) - 2
        low_density, high_density = [LOG_DENSITY / levels] * levels, [1 / levels] * levels
        smallest_scale = [0.0] * levels
        if neighbors is not None:
            low_density += [1.0, NEW_VALUES]
            high_density += [0.0, 0.0]
            smallest_scale += [0.0, 1.0]  # the surprise of new values is not stretched
        weights = torch.tensor([low_density, high_density])
        calibration = Calibration.fit(own, folds, weights, torch.tensor(smallest_scale))
        return cls(calibration, neighbors, known_values)

    def score_rows(
        self, log_densities: LogDensities, x: Tensor, *, leave_one_out: bool = False
    ) -> Scores:
        """Return the scores and p-values of rows.

        Args:
            log_densities: The log-densities that the detector was calibrated with.
            x: Rows, shape `(N, *E)`. NaN in missing cells of tables.
            leave_one_out: Whether copies of training rows are these rows, which are not their own
                neighbors. If the training rows are different, they always are.

        Returns:
            The scores, shape `(N,)` each.
        """
        values = self.measures(log_densities, x, leave_one_out=leave_one_out)
        return Scores(self.calibration.score(values), self.calibration.p_value(values))

    def measures(
        self, log_densities: LogDensities, x: Tensor, *, leave_one_out: bool = False
    ) -> Tensor:
        """Return the measures of rows by each fold, shape `(N, *E) -> (M, K, N)`.

        The measures of rows with missing cells are averaged over several completions. So a missing
        cell contributes what its likely values contribute on average, and rows with and without
        missing cells can be compared.
        """
        if self.neighbors is None or self.known_values is None:
            return -log_densities(x.expand(self.calibration.num_folds, *x.shape))
        return _compare(
            log_densities, self.neighbors, self.known_values, x, leave_one_out=leave_one_out
        )

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that define the detector."""
        return {
            f"{part}.{field.name}": getattr(component, field.name)
            for part in PARTS
            if (component := getattr(self, part)) is not None
            for field in fields(component)
        }

    @classmethod
    def restore(cls, state: dict[str, Tensor], device: torch.device | str = "cpu") -> Self:
        """Return the detector with the tensors of `state()`."""
        tensors: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
        for name, tensor in state.items():
            part, key = name.split(".")
            tensors[part][key] = tensor.to(device)
        return cls(**{part: PARTS[part](**tensors[part]) for part in PARTS if tensors[part]})


PARTS = {"calibration": Calibration, "neighbors": Neighbors, "known_values": KnownValues}
"""The parts of a detector by their name."""


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
