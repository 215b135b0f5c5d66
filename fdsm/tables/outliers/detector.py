"""Outlier scores of rows of a table in the space of a model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from ...samplers import Progress
from ..conditionals import CellView, Conditionals
from .calibration import Calibration
from .known_values import KnownValues, new_category_surprise
from .neighbors import Neighbors
from .tail import UpperTails

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LOG_DENSITY, NEW_VALUES, CELLS = 0.5, 0.4, 0.5
"""Weights of the log-density, new values and the most surprising cell in the test of the whole
row. That of distances is 1. See docs/outliers.md."""
SHARES = (0.78, 0.2, 0.02)
"""Shares of the significance level: the whole row, its most surprising cell, and suspiciously high
density."""
CHUNK = 2048
"""Number of rows that are compared at once."""
REFERENCE_ROWS = 5000
"""Largest number of training rows that new rows are compared with."""
LogDensities = Callable[[Tensor], Tensor]
"""Log-densities at L noise levels by the models of K folds: `(K, N, D) -> (L, K, N)`."""


@dataclass(frozen=True)
class OutlierDetector:
    r"""Outlier scores from a log-density and from the training rows themselves.

    The measures of a row are minus the log-density at each noise level, which share one weight,
    the mean log-distance to the nearest rows, the surprise of new values, and the surprise of the
    most surprising cell given the others. `Calibration` combines them in three tests: of the whole
    row by all measures, of its cells, and of suspiciously high density, since a copy of a training
    row is no surprise.

    The surprise of a cell is $-\log_{10}$ of the probability that a held-out row has a more
    surprising one in this column. A broken relation counts as a surprising cell.

    Attributes:
        calibration: The combination and calibration of the measures.
        neighbors: Distances to training rows.
        known_values: Values that occur in training.
        conditionals: Each cell given the others.
        cell_tails: Probabilities of the surprises of the cells of each column.
        new_category: Surprise of a category that never occurred, by column, shape `(C,)`.
    """

    calibration: Calibration
    neighbors: Neighbors
    known_values: KnownValues
    conditionals: Conditionals
    cell_tails: UpperTails
    new_category: Tensor

    @classmethod
    def fit(
        cls,
        log_densities: LogDensities,
        conditionals: Conditionals,
        rows: Tensor,
        folds: Tensor,
        training_rows: Tensor,
        broken: Tensor | None = None,
        progress: Progress = lambda steps: steps,
    ) -> Self:
        """Calibrate a detector on held-out rows.

        Args:
            log_densities: The log-densities. The model of fold `k` has not seen rows of fold `k`.
            conditionals: Each cell given the others, by the same folds.
            rows: Held-out rows, shape `(n, D)`, in random order. NaN in missing cells. New rows
                are compared with the first 5,000.
            folds: Fold of each row, shape `(n,)`.
            training_rows: Training rows whose values are known, shape `(N, D)`, with NaN in
                missing cells. The held-out rows come first.
            broken: Surprise of broken relations of each held-out row, shape `(n,)`.
            progress: Wraps the loop over blocks of rows, to show progress.

        Returns:
            The detector.
        """
        view = conditionals.view
        neighbors = Neighbors(rows[:REFERENCE_ROWS], folds[:REFERENCE_ROWS], view.one_hot)
        known_values = KnownValues.fit(training_rows)
        parts = _Parts(log_densities, neighbors, known_values, conditionals)
        measures, cells = parts.of_held_out_rows(rows, folds, progress)
        cell_tails = UpperTails.fit([_present(column) for column in cells.T])
        codes = view.cells(training_rows).masked_fill(view.is_missing(training_rows), torch.nan)
        new_category, once = new_category_surprise(codes, view.encoder.columns.num_levels)
        once = once[: len(rows)] * new_category
        broken = once.amax(1) if broken is None else torch.maximum(broken.to(once), once.amax(1))
        own = torch.cat([measures, _largest(cell_tails, cells, broken)[None]])
        levels = len(own) - 3
        density = [1 / levels] * levels
        weights = torch.tensor([
            [*(LOG_DENSITY * weight for weight in density), 1.0, NEW_VALUES, CELLS],
            [*[0.0] * levels, 0.0, 0.0, 1.0],
            [*(-weight for weight in density), 0.0, 0.0, 0.0],
        ])
        smallest_scale = torch.zeros(len(own))
        smallest_scale[-2] = 1.0  # the surprise of new values is not stretched
        calibration = Calibration.fit(own, folds, weights, torch.tensor(SHARES), smallest_scale)
        return cls(calibration, neighbors, known_values, conditionals, cell_tails, new_category)

    def measures(
        self,
        log_densities: LogDensities,
        x: Tensor,
        broken: Tensor | None = None,
        *,
        leave_one_out: bool = False,
        progress: Progress = lambda steps: steps,
    ) -> Tensor:
        """Return the measures of rows by each fold, shape `(N, D) -> (M, K, N)`.

        The first measures are minus the log-densities. The measures of rows with missing cells are
        averaged over several completions. So a missing cell contributes what its likely values
        contribute on average, and rows with and without missing cells can be compared.

        Args:
            log_densities: The log-densities that the detector was calibrated with.
            x: Rows, shape `(N, D)`. NaN in missing cells.
            broken: Surprise of broken relations of each row, shape `(N,)`.
            leave_one_out: Whether copies of training rows are these rows, which are not their own
                neighbors. If the training rows are different, they always are.
            progress: Wraps the loop over blocks of rows, to show progress.
        """
        itself = self.neighbors.index_of(x)
        if not (leave_one_out or self.neighbors.are_different):
            itself.fill_(-1)
        parts = _Parts(log_densities, self.neighbors, self.known_values, self.conditionals)
        measures, cells = parts.of_rows(x, itself, progress)
        return torch.cat([measures, _largest(self.cell_tails, cells, broken)[None]])

    def cell_surprises(self, x: Tensor) -> Tensor:
        """Return the mean surprise of each cell over the folds, shape `(N, D) -> (N, C)`.

        Args:
            x: Complete rows.
        """
        return -self.cell_tails.log10(self.conditionals.surprise(x[None])).mean(0)

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors that define the detector, by part and name."""
        components = {
            "calibration": self.calibration,
            "neighbors": self.neighbors,
            "known_values": self.known_values,
            "conditionals": self.conditionals,
            "cell_tails": self.cell_tails,
        }
        state = {name: _tensors(component) for name, component in components.items()}
        return {**state, "categories": {"new": self.new_category}}

    @classmethod
    def restore(cls, state: dict[str, dict[str, Tensor]], view: CellView) -> Self:
        """Return the detector with the tensors of `state()`."""
        return cls(
            Calibration(**state["calibration"]),
            Neighbors(**state["neighbors"], one_hot=view.one_hot),
            KnownValues(**state["known_values"]),
            Conditionals(view, **state["conditionals"]),
            UpperTails(**state["cell_tails"]),
            state["categories"]["new"],
        )


def _tensors(component: "DataclassInstance") -> dict[str, Tensor]:
    values = {field.name: getattr(component, field.name) for field in fields(component)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _largest(tails: UpperTails, cells: Tensor, broken: Tensor | None) -> Tensor:
    """Return the largest surprise of the cells of rows, shape `(*K, N, C) -> (*K, N)`."""
    largest = -tails.log10(cells).nan_to_num(0.0).amin(-1)
    return largest if broken is None else torch.maximum(largest, broken.to(largest))


def _present(column: Tensor) -> Tensor:
    """Return the cells of a column that are not missing, or zero if all are."""
    present = column[~column.isnan()]
    return present if len(present) else column.new_zeros(1)


@dataclass(frozen=True)
class _Parts:
    """What rows are compared with."""

    log_densities: LogDensities
    neighbors: Neighbors
    known_values: KnownValues
    conditionals: Conditionals

    def of_rows(self, x: Tensor, itself: Tensor, progress: Progress) -> tuple[Tensor, Tensor]:
        """Return the measures of rows by each fold, `(M, K, N)`, and of cells, `(K, N, C)`.

        Args:
            x: Rows, shape `(N, D)`. NaN in missing cells.
            itself: Index of each row among those of `neighbors`, or -1, shape `(N,)`.
            progress: Wraps the loop over blocks of rows.
        """
        incomplete = x.isnan().any(1)
        blocks = [
            block
            for is_chosen in (~incomplete, incomplete)
            for block in torch.split(is_chosen.nonzero().flatten(), CHUNK)
        ]
        parts = []
        for i in progress(range(len(blocks))):
            rows, own = x[None, blocks[i]], itself[None, blocks[i]]
            parts.append((blocks[i], *self._compare(rows, own, own >= 0)))
        return _in_order(parts)

    def of_held_out_rows(
        self, rows: Tensor, folds: Tensor, progress: Progress
    ) -> tuple[Tensor, Tensor]:
        """Return measures of held-out rows by the model of their fold, `(M, n)`, `(n, C)`."""
        blocks: list[Tensor] = []
        incomplete = rows.isnan().any(1)
        for is_chosen in (~incomplete, incomplete):
            of_fold = [
                (is_chosen & (folds == k)).nonzero().flatten()
                for k in range(self.neighbors.num_folds)
            ]
            # The models of all folds are evaluated together, so folds with fewer rows are padded.
            index = torch.nn.utils.rnn.pad_sequence(of_fold, batch_first=True, padding_value=-1)
            blocks += torch.split(index, CHUNK, 1)
        parts = []
        for i in progress(range(len(blocks))):
            block = blocks[i]
            itself = torch.where(block < len(self.neighbors.rows), block, -1)
            is_training_row = torch.ones_like(block, dtype=torch.bool)
            measures, cells = self._compare(rows[block.clamp_min(0)], itself, is_training_row)
            parts.append((block[block >= 0], measures[:, block >= 0], cells[block >= 0]))
        return _in_order(parts)

    def _compare(
        self, x: Tensor, itself: Tensor, is_training_row: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the measures of rows by each fold, shape `(M, K, N)`, and of cells `(K, N, C)`.

        Args:
            x: Rows, shape `(1, N, D)`, or other ones for each fold, shape `(K, N, D)`.
            itself: Index of each row among those of `neighbors`, or -1, `(1, N)` or `(K, N)`.
            is_training_row: Whether its values are counted in `known_values`, same shape.

        Returns:
            Minus the log-densities, the mean log-distance and the surprise of new values, and the
            surprise of each cell, NaN if it is missing.
        """
        shape = self.neighbors.num_folds, x.shape[1]
        new_values = self.known_values.surprise(x.flatten(0, 1), is_training_row.flatten()).sum(1)
        new_values = new_values.view(itself.shape).expand(1, *shape)
        completions = self.neighbors.completions(x)
        measures = torch.stack([
            torch.cat([
                -self.log_densities(filled.expand(*shape, -1)),
                self.neighbors.mean_log_distance(filled, itself).expand(1, *shape),
                new_values,
            ])
            for filled in completions
        ])
        cells = torch.stack([self.conditionals.surprise(filled) for filled in completions])
        is_missing = self.conditionals.view.is_missing(x).expand(*shape, -1)
        return measures.mean(0), cells.mean(0).masked_fill(is_missing, torch.nan)


def _in_order(parts: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the measures `(..., n)` and cells `(..., n, C)` of all rows, in their order.

    Args:
        parts: Indices `(p,)` of some rows, their measures `(..., p)` and cells `(..., p, C)`.
    """
    index, measures, cells = zip(*parts, strict=True)
    order = torch.cat(index).argsort()
    return torch.cat(measures, -1)[..., order], torch.cat(cells, -2)[..., order, :]
