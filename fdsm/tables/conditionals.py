"""The distribution of each cell given the other cells of its row."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..samplers import Progress
from .encoder import Encoder

TREES = 10
"""Number of trees of each column in each fold."""
DONORS = 5
"""Number of training rows that a leaf keeps, and the smallest number that it has."""
FEW_FEATURES, THRESHOLDS = 4, 8
"""With fewer features, a node chooses among this many random thresholds, several of each feature.
It is not divided if all of them leave fewer than five rows on a side, which is likely for one."""
MAX_ROWS = 12_000
"""Largest number of training rows that trees are grown from."""
MAX_DEPTH = 20
"""Largest depth of a tree."""
MAX_LEVELS, ROWS_PER_LEVEL = 32, 10
"""Numbers with at most this many different values, each in this many rows on average, are compared
by equality, as categories are."""
SMALLEST_SCALE = 0.01
"""Smallest scale of differences between a number and its donors, in standard deviations."""
CHUNK = 2**13
"""Number of rows that go through a forest at once. More do not fit into the processor's cache."""
TEN_MINUTES = 600.0


@dataclass(frozen=True)
class CellView:
    """Rows as the trees see them: one value per cell, and calendar parts of dates.

    Attributes:
        encoder: The encoder of the rows.
        dates: The columns that are dates.
    """

    encoder: Encoder
    dates: tuple[int, ...]

    def cells(self, x: Tensor) -> Tensor:
        """Return one number per cell, `(N, D) -> (N, C)`: the input, or the code of a category."""
        starts = [block.start for block in self.encoder.blocks]
        result = x[:, starts].double()
        levels = self.encoder.columns.num_levels
        for j, (count, block) in enumerate(zip(levels, self.encoder.blocks, strict=True)):
            if count:
                inputs = x[:, block] + self.encoder.columns.mean[block].to(x)
                result[:, j] = (inputs[:, 0] > 0 if count == 2 else inputs.argmax(1)).double()
        return result

    def features(self, x: Tensor) -> Tensor:
        """Return the cells, then month, day, weekday and hour of each date, `(N, D) -> (N, P)`."""
        if not self.dates:
            return self.cells(x).float()
        seconds = self.encoder.inverse(x)[:, list(self.dates)]
        parts = [_calendar_parts(column.cpu().numpy()) for column in seconds.T]
        calendar = torch.from_numpy(np.concatenate(parts, 1)).to(x.device)
        return torch.cat([self.cells(x).float(), calendar.float()], 1)

    def with_cells(self, x: Tensor, column: int, cells: Tensor) -> Tensor:
        """Return rows with other cells in a column, shape `(N, D), (N,) -> (N, D)`."""
        block, levels = self.encoder.blocks[column], self.encoder.columns.num_levels[column]
        result = x.clone()
        if levels:
            one_hot = cells.long()[:, None] == torch.arange(max(levels, 2), device=x.device)
            inputs = 2.0 * one_hot[:, 1:2] - 1 if levels == 2 else one_hot
            # Rounded as by the encoder, so that the inputs are those of training rows.
            mean = self.encoder.columns.mean[block].to(x.device)
            result[:, block] = (inputs.double() - mean).float().to(x)
        else:
            result[:, block] = cells[:, None].to(x)
        return result

    @property
    def one_hot(self) -> tuple[slice, ...]:
        """The inputs of each column of more than two categories."""
        return tuple(block for block in self.encoder.blocks if block.stop - block.start > 1)

    def is_missing(self, x: Tensor) -> Tensor:
        """Return which cells of rows are missing, shape `(*N, D) -> (*N, C)`."""
        return x[..., [block.start for block in self.encoder.blocks]].isnan()

    @property
    def column_of_feature(self) -> npt.NDArray[np.int64]:
        """The column of each feature, shape `(P,)`."""
        columns = np.arange(len(self.encoder.blocks))
        return np.concatenate([columns, np.repeat(np.array(self.dates, np.int64), 4)])


def _calendar_parts(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return month, day of the month, weekday and hour, shape `(N, 4)`."""
    # Inputs are float32, so the seconds of dates that span a century are off by a minute.
    tens = np.rint(np.nan_to_num(seconds).clip(-6e10, 2.5e11) / TEN_MINUTES)
    minutes = 10 * tens.astype(np.int64)
    time = minutes.astype("datetime64[m]")
    days, months = time.astype("datetime64[D]"), time.astype("datetime64[M]")
    return np.stack(
        [
            months.astype(np.int64) % 12,
            (days - months.astype("datetime64[D]")).astype(np.int64),
            (days.astype(np.int64) + 3) % 7,
            minutes % 1440 / 60,
        ],
        1,
    ).astype(np.float64)


@dataclass(frozen=True)
class Conditionals:
    r"""Forests that find training rows which are similar to a row in all cells but one.

    Column $j$ has ten extremely randomized trees in each of the $K$ folds (Geurts et al., 2006,
    https://doi.org/10.1007/s10994-006-6226-1). They are grown from the rows outside the fold to
    predict the cell from the other cells. Each leaf keeps five of its rows, the donors. The values
    of the 50 donors $y_1, …, y_{50}$ of a row are a sample of the distribution of the cell given
    the other cells (Meinshausen, 2006, https://www.jmlr.org/papers/v7/meinshausen06a.html).

    The surprise of a cell with the value $y$ is

    $$-\log\frac{\#\{i : y_i = y\} + 1/2}{50 + 1} \quad\text{or}\quad
      \tfrac12 \log\left(1 + \frac{(y - m)^2}{s^2 + a_j^2}\right)$$

    for categories and for numbers, with the mean $m$ and variance $s^2$ of the donors. The scale
    $a_j$ is half the median of $|y - m|$ over held-out rows, so values that are predicted well are
    surprising sooner. Numbers with few different values count as categories.

    Attributes:
        view: Rows as the trees see them.
        rows: Inputs of the training rows, complete, shape `(R, D)`.
        roots: The first node of each tree, shape `(K, C, T)`.
        feature: The feature that a node compares, shape `(nodes,)`.
        threshold: Rows with at most this value go left, shape `(nodes,)`. Infinity for a leaf.
        left: The left node, shape `(nodes,)`. The right node is the next. A leaf leads to itself.
        donors: Training rows of a leaf, shape `(nodes, 5)`. Zero for other nodes.
        by_equality: Whether the values of a column are compared by equality, shape `(C,)`.
        scale: The scale $a_j$ of each column, shape `(C,)`.
        certainty: How well held-out cells are predicted, shape `(C,)`: the share of the variance
            of a number that the mean of the donors explains, or the share of cells whose category
            is the most frequent one of the donors.
    """

    view: CellView
    rows: Tensor
    roots: Tensor
    feature: Tensor
    threshold: Tensor
    left: Tensor
    donors: Tensor
    by_equality: Tensor
    scale: Tensor
    certainty: Tensor

    @classmethod
    def fit(
        cls,
        view: CellView,
        rows: Tensor,
        folds: Tensor,
        is_missing: Tensor | None = None,
        seed: int = 0,
        progress: Progress = lambda steps: steps,
    ) -> "Conditionals":
        """Grow the trees.

        Args:
            view: Rows as the trees see them.
            rows: Inputs of the training rows, shape `(N, D)`, in random order, complete.
            folds: Fold of each row, shape `(N,)`.
            is_missing: The cells that were missing and are filled, shape `(N, C)`. They are not
                predicted. Default: none.
            seed: Random seed.
            progress: Wraps the loop over folds and columns, to show progress.

        Returns:
            The forests.
        """
        rows, folds = rows[:MAX_ROWS].clone(), folds[:MAX_ROWS]
        gaps = torch.zeros(len(rows), len(view.encoder.blocks), dtype=torch.bool)
        if is_missing is not None:
            gaps = is_missing[:MAX_ROWS].cpu()
        cells, features = view.cells(rows).cpu(), view.features(rows).cpu().numpy()
        limit = min(MAX_LEVELS, len(rows) / ROWS_PER_LEVEL)
        levels = view.encoder.columns.num_levels
        by_equality = torch.tensor([
            count > 0 or len(torch.unique(column)) <= limit
            for count, column in zip(levels, cells.T, strict=True)
        ])
        num_folds = int(folds.max()) + 1
        trees: list[_Tree] = []
        for index in progress(range(num_folds * len(levels))):
            k, j = divmod(index, len(levels))
            outside = (folds != k).cpu()
            usable = (outside & ~gaps[:, j]).nonzero().flatten().numpy()
            if len(usable) < 2 * DONORS:
                usable = outside.nonzero().flatten().numpy()
            others = np.flatnonzero(view.column_of_feature != j)
            target, is_level = cells[usable, j].numpy(), bool(by_equality[j])
            trees += _grow(features, usable, others, target, is_level, seed + k)
        sizes = [len(tree.feature) for tree in trees]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        left = [tree.left + start for tree, start in zip(trees, starts, strict=True)]

        def joined(parts: list[npt.NDArray[Any]], dtype: type[np.generic]) -> Tensor:
            return torch.from_numpy(np.concatenate(parts).astype(dtype)).to(rows.device)

        forests = cls(
            view,
            rows,
            torch.from_numpy(starts).view(num_folds, len(levels), TREES).to(rows.device),
            joined([tree.feature for tree in trees], np.int16),
            joined([tree.threshold for tree in trees], np.float32),
            joined(left, np.int32),
            joined([tree.donors for tree in trees], np.int16),
            by_equality.to(rows.device),
            *torch.zeros(2, len(levels), device=rows.device).double(),
        )
        scale, certainty = forests._held_out_quality(folds, gaps.to(rows.device))
        return replace(forests, scale=scale, certainty=certainty)

    def surprise(self, x: Tensor) -> Tensor:
        """Return the surprise of each cell by each fold.

        Args:
            x: Complete rows for each fold, shape `(K, N, D)` or `(1, N, D)`.

        Returns:
            The surprises, shape `(K, N, C)`.
        """
        folds = range(len(self.roots))
        by_fold = x.expand(len(self.roots), -1, -1)
        return torch.stack([self.surprise_by(k, by_fold[k]) for k in folds])

    def surprise_by(self, fold: int, x: Tensor) -> Tensor:
        """Return the surprise of each cell by a fold, shape `(N, D) -> (N, C)`."""
        result = torch.empty(len(x), self.num_columns, dtype=torch.float64, device=x.device)
        for start in range(0, len(x), CHUNK):
            rows = x[start : start + CHUNK]
            cells, features = self.view.cells(rows), self.view.features(rows)
            for j in range(self.num_columns):
                leaves, own = self._leaves(features, fold, j), cells[:, j]
                if bool(self.by_equality[j]):
                    equal = (self._values[leaves] == own[:, None, None].float()).sum((1, 2))
                    surprise = -((equal.double() + 0.5) / (TREES * DONORS + 1)).log()
                else:
                    mean, square = self._moments[leaves].mean(1).T
                    variance = (square - mean.square()).clamp_min(0.0) + self.scale[j] ** 2
                    surprise = ((own - mean).square() / variance).log1p() / 2
                result[start : start + CHUNK, j] = surprise
        return result

    def donor_rows(self, x: Tensor, column: int, fold: Tensor | None = None) -> Tensor:
        """Return the donors of a cell: indices of `rows`, shape `(N, D) -> (N, 50)`.

        Their cells in the column are a sample of the distribution of the cell given the others.

        Args:
            x: Complete rows. The cell in the column itself does not matter.
            column: Index of the column.
            fold: The fold of each row, shape `(N,)`. Default: all folds, so there are 200 donors.
        """
        features = self.view.features(x)
        folds = range(len(self.roots)) if fold is None else (fold,)
        leaves = torch.cat([self._leaves(features, k, column) for k in folds], 1)
        return self.donors[leaves].long().flatten(1)

    @cached_property
    def cells(self) -> Tensor:
        """The cells of the training rows, shape `(R, C)`."""
        return self.view.cells(self.rows)

    @property
    def num_columns(self) -> int:
        """Number of columns, C."""
        return self.roots.shape[1]

    def _held_out_quality(self, folds: Tensor, gaps: Tensor) -> tuple[Tensor, Tensor]:
        """Return `scale` and `certainty` from the rows of each fold, shape `(C,)` each."""
        scale, certainty = torch.empty(2, self.num_columns, device=folds.device).double()
        held_out = [self.rows[folds == k] for k in range(len(self.roots))]
        features = [self.view.features(rows) for rows in held_out]
        cells = torch.cat([self.view.cells(rows) for rows in held_out])
        is_gap = torch.cat([gaps[folds == k] for k in range(len(self.roots))])
        for j in range(self.num_columns):
            leaves = torch.cat([self._leaves(part, k, j) for k, part in enumerate(features)])
            own = cells[:, j]
            error = own - self._moments[leaves, 0].mean(1)
            scale[j] = (error.abs().median() / 2).clamp_min(SMALLEST_SCALE)
            present = ~is_gap[:, j]
            if self.view.encoder.columns.num_levels[j]:
                likely = self._values[leaves].flatten(1).mode(1).values
                share = (likely == own.float())[present].double().mean()
            else:
                share = 1 - error[present].square().mean() / own[present].var(correction=0)
            certainty[j] = share.nan_to_num(0.0, neginf=0.0).clamp_min(0.0)
        return scale, certainty

    def _leaves(self, features: Tensor, fold: int | Tensor, column: int) -> Tensor:
        """Return the leaf that a row reaches in each tree of a column, `(N, P) -> (N, T)`."""
        num_rows, num_features = features.shape
        inputs = features.flatten()
        node = self.roots[fold, column].int().expand(num_rows, -1).flatten()
        first = torch.arange(0, inputs.numel(), num_features, dtype=torch.int32).to(node.device)
        first = first.repeat_interleave(TREES)
        for _ in range(MAX_DEPTH + 1):  # a damaged file may have circles
            value = inputs.index_select(0, self._feature.index_select(0, node).add_(first))
            goes_right = value > self.threshold.index_select(0, node)
            following = self.left.index_select(0, node).add_(goes_right)
            if torch.equal(following, node):
                return node.view(num_rows, TREES)
            node = following
        raise ValueError(f"a tree is deeper than {MAX_DEPTH} nodes")

    @cached_property
    def _feature(self) -> Tensor:
        """The features of the nodes as indices."""
        low, high = self.feature.aminmax()
        if not 0 <= int(low) <= int(high) < len(self.view.column_of_feature):
            raise ValueError("the trees and the columns do not fit together")
        return self.feature.int()

    @cached_property
    def _values(self) -> Tensor:
        """The cells of the donors in the column of the tree, shape `(nodes, 5)`."""
        nodes = torch.arange(len(self.feature), device=self.roots.device)
        tree = torch.searchsorted(self.roots.flatten(), nodes, right=True) - 1
        column = tree // TREES % self.num_columns
        return self.cells.float()[self.donors.long(), column[:, None]]

    @cached_property
    def _moments(self) -> Tensor:
        """Mean and mean square of the cells of the donors, shape `(nodes, 2)`."""
        values = self._values.double()
        return torch.stack([values.mean(1), values.square().mean(1)], 1)


class _Tree(NamedTuple):
    """A tree: its nodes, and the training rows of its leaves."""

    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float64]
    left: npt.NDArray[np.int64]
    donors: npt.NDArray[np.int64]


def _grow(
    features: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
    target: npt.NDArray[np.float64],
    is_level: bool,
    seed: int,
) -> list[_Tree]:
    """Grow trees that predict a column from other features.

    Args:
        features: Features of all rows, shape `(R, P)`.
        rows: The rows to grow from, shape `(n,)`.
        others: Features of the other columns. If there are none, trees are single leaves.
        target: The cells of the column, shape `(n,)`.
        is_level: Whether the values are compared by equality.
        seed: Random seed.

    Returns:
        The trees.
    """
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    if 0 < len(others) < FEW_FEATURES:
        others = np.tile(others, -(-THRESHOLDS // len(others)))
    known = features[rows][:, others] if len(others) else np.zeros((len(rows), 1), np.float32)
    kind = ExtraTreesClassifier if is_level else ExtraTreesRegressor
    labels = np.unique(target, return_inverse=True)[1] if is_level else target
    forest = kind(
        TREES,
        min_samples_leaf=DONORS,
        max_depth=MAX_DEPTH,
        max_features=None,
        random_state=seed,
    )
    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # many classes
        forest.fit(known, labels)
    order = np.random.RandomState(seed).permutation(len(rows))
    leaves = forest.apply(known[order])
    trees = []
    for t, estimator in enumerate(forest.estimators_):
        tree = estimator.tree_
        is_leaf = tree.children_left < 0
        # Numbered by depth, so that the right node follows the left one.
        levels = [np.zeros(1, np.int64)]
        while len(divided := levels[-1][~is_leaf[levels[-1]]]):
            levels.append(np.stack([tree.children_left, tree.children_right], 1)[divided].ravel())
        nodes = np.concatenate(levels)
        number = np.argsort(nodes)
        left = np.where(is_leaf, number, number[tree.children_left])[nodes]
        threshold = np.where(is_leaf, np.inf, tree.threshold)[nodes]
        feature = others[tree.feature.clip(0)] if len(others) else np.zeros(len(nodes), np.int64)
        # The rows of each leaf, in random order. Those of a small leaf are repeated.
        by_leaf = order[np.argsort(leaves[:, t], kind="stable")]
        count = np.bincount(leaves[:, t], minlength=tree.node_count)
        first = np.cumsum(count) - count
        slot = np.arange(DONORS) % np.maximum(count, 1)[:, None]
        donors = rows[by_leaf[(first[:, None] + slot).clip(max=len(rows) - 1)]]
        donors[~is_leaf] = 0
        trees.append(_Tree(feature[nodes], threshold, left, donors[nodes]))
    return trees
