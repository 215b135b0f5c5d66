"""Outlier scores of rows of a table in the space of a model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from ...samplers import Progress
from ..conditionals import CellView, Conditionals
from .calibration import Calibration
from .gaps import GapPatterns
from .known_values import KnownValues, new_category_surprise
from .neighbors import Neighbors
from .tail import UpperTails
from .training_errors import find_errors

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LOG_DENSITY, NEW_VALUES, CELLS = 0.5, 0.4, 0.5
"""Weights of the log-density, new values and the most surprising cell in the test of the whole
row. That of distances is 1. See docs/outliers.md."""
CELL_SHARE, HIGH_DENSITY, CONTRADICTIONS = 0.2, 0.02, 0.1
"""Shares of the significance level that are spent on surprising cells, suspiciously high density
and contradictions."""
CELL_ROWS = 1000
"""From $n$ rows, the share of surprising cells is multiplied by $n / (n + 1000)$: what is
surprising in a cell is learned from many rows."""
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
    the mean log-distance to the nearest rows, the surprise of new values, that of the most
    surprising cell given the others, and that of contradictions: broken relations and categories
    that never occurred. `Calibration` combines them in four tests: of the whole row by all
    measures, of its cells, of suspiciously high density, since a copy of a training row is no
    surprise, and of contradictions alone. They are as unusual as they are rare among held-out
    rows, however many columns a table has.

    The surprise of a cell is $-\log_{10}$ of the probability that a held-out row has a more
    surprising one in this column. Fold $k$ learns it from the rows of the other folds, so its own
    rows can have cells beyond them, as new rows can. Contradictions and gaps that never
    occurred count as surprising cells too.

    Attributes:
        calibration: The combination and calibration of the measures.
        neighbors: Distances to training rows.
        known_values: Numbers that occur in training.
        conditionals: Each cell given the others.
        cell_tails: Probabilities of the surprises of cells, of all columns by the first fold, then
            by the next.
        new_category: Surprise of a category that never occurred, by column, shape `(C,)`.
        gaps: Combinations of missing cells.
    """

    calibration: Calibration
    neighbors: Neighbors
    known_values: KnownValues
    conditionals: Conditionals
    cell_tails: UpperTails
    new_category: Tensor
    gaps: GapPatterns

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
        view, num_levels = conditionals.view, conditionals.view.encoder.columns.num_levels
        reference = rows[:REFERENCE_ROWS].clone(), folds[:REFERENCE_ROWS].clone()
        neighbors = Neighbors(*reference, view.one_hot)
        numbers = training_rows.clone()
        for levels, block in zip(num_levels, view.encoder.blocks, strict=True):
            if levels:  # new categories are contradictions
                numbers[:, block] = torch.nan
        known_values = KnownValues.fit(numbers)
        parts = _Parts(log_densities, neighbors, known_values, conditionals)
        measures, cells = parts.of_held_out_rows(rows, folds, progress)
        kept = ~find_errors(cells[:, ~conditionals.by_equality])
        num_folds = neighbors.num_folds
        outside = [cells[kept & (folds != k)] for k in range(num_folds)]
        cell_tails = UpperTails.fit([_present(column) for part in outside for column in part.T])
        for k, tails in enumerate(_by_fold(cell_tails, num_folds)):
            cells[folds == k] = tails.log10(cells[folds == k])
        codes = view.cells(training_rows).masked_fill(view.is_missing(training_rows), torch.nan)
        new_category, once = new_category_surprise(codes, num_levels)
        contradictions = (once[: len(rows)] * new_category).amax(1)
        if broken is not None:
            contradictions = torch.maximum(contradictions, broken.to(contradictions))
        is_missing = view.is_missing(rows)
        gaps = GapPatterns.fit(is_missing)
        of_gaps = gaps.surprise(is_missing, leave_one_out=True)
        own = torch.cat([measures, _of_cells(cells, contradictions, of_gaps)])
        levels = len(own) - 4
        density = [1 / levels] * levels
        weights = own.new_tensor([
            [*(LOG_DENSITY * w for w in density), 1.0, NEW_VALUES, CELLS, 0.0],
            [*[0.0] * levels, 0.0, 0.0, 1.0, 0.0],
            [*(-w for w in density), 0.0, 0.0, 0.0, 0.0],
            [*[0.0] * levels, 0.0, 0.0, 0.0, 1.0],
        ])
        smallest_scale = own.new_zeros(len(own))
        smallest_scale[[-3, -1]] = 1.0  # surprises that most rows do not have are not stretched
        of_cells = CELL_SHARE * len(rows) / (len(rows) + CELL_ROWS)
        others = of_cells, HIGH_DENSITY, CONTRADICTIONS
        calibration = Calibration.fit(
            own,
            folds,
            weights,
            own.new_tensor([1 - sum(others), *others]),
            smallest_scale,
            kept=kept,
        )
        return cls(
            calibration, neighbors, known_values, conditionals, cell_tails, new_category, gaps
        )

    def measures(
        self,
        log_densities: LogDensities,
        x: Tensor,
        contradictions: Tensor | None = None,
        gaps: Tensor | None = None,
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
            contradictions: Surprise of broken relations and new categories, shape `(N,)`.
            gaps: Surprise of the missing cells of each row, shape `(N,)`.
            leave_one_out: Whether copies of training rows are these rows, which are not their own
                neighbors. If the training rows are different, they always are.
            progress: Wraps the loop over blocks of rows, to show progress.
        """
        itself = self.neighbors.index_of(x)
        if not (leave_one_out or self.neighbors.are_different):
            itself.fill_(-1)
        parts = _Parts(log_densities, self.neighbors, self.known_values, self.conditionals)
        measures, cells = parts.of_rows(x, itself, progress)
        return torch.cat([measures, _of_cells(self._log_p(cells), contradictions, gaps)])

    def cell_surprises(self, x: Tensor) -> Tensor:
        """Return the mean surprise of each cell over the folds, shape `(N, D) -> (N, C)`.

        Args:
            x: Complete rows.
        """
        return -self._log_p(self.conditionals.surprise(x[None])).mean(0)

    def _log_p(self, cells: Tensor) -> Tensor:
        """Return logarithms of the probabilities of the surprises of cells, shape `(K, N, C)`."""
        pairs = zip(_by_fold(self.cell_tails, len(cells)), cells, strict=True)
        return torch.stack([tails.log10(own) for tails, own in pairs])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors that define the detector, by part and name."""
        components: dict[str, DataclassInstance] = {
            "calibration": self.calibration,
            "neighbors": self.neighbors,
            "known_values": self.known_values,
            "conditionals": self.conditionals,
            "cell_tails": self.cell_tails,
            "gaps": self.gaps,
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
            GapPatterns(**state["gaps"]),
        )


def _tensors(component: "DataclassInstance") -> dict[str, Tensor]:
    values = {field.name: getattr(component, field.name) for field in fields(component)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _by_fold(tails: UpperTails, num_folds: int) -> list[UpperTails]:
    """Return the estimates of each fold."""
    num_columns = len(tails.values) // num_folds
    return [tails[k * num_columns : (k + 1) * num_columns] for k in range(num_folds)]


def _of_cells(log_p: Tensor, contradictions: Tensor | None, gaps: Tensor | None) -> Tensor:
    """Return the largest surprise of rows and that of contradictions, `(*K, N, C) -> (2, *K, N)`.

    Args:
        log_p: Logarithms of the probabilities of cells. NaN in missing cells.
        contradictions: The largest surprise of contradictions of each row, shape `(N,)`.
        gaps: The surprise of the missing cells of each row, shape `(N,)`.
    """
    largest = -log_p.nan_to_num(0.0).amin(-1)
    other = torch.zeros_like(largest) if contradictions is None else contradictions.to(largest)
    if gaps is not None:
        largest = torch.maximum(largest, gaps.to(largest))
    return torch.stack([torch.maximum(largest, other), other.expand_as(largest)])


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
