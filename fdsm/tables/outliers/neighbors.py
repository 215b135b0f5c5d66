"""A local estimate of the log-density from the distances to the nearest rows."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..imputation import Imputation, fill_within_folds

NUM_NEIGHBORS = 5
SMALLEST_DISTANCE = 1e-3
"""Added to distances, so that copies of training rows have a finite value."""
SHARE_OF_DIFFERENT_ROWS = 0.99
CANDIDATES = 32
"""Number of nearest rows among which those outside a fold are looked for first."""
CHUNK = 1024


@dataclass(frozen=True)
class Neighbors:
    r"""The mean logarithm of the distances to the nearest training rows outside a fold.

    $$a_k(x) = \frac{1}{5} \sum_{i=1}^{5} \log(‖x - r_{(i)}‖_1 + 10^{-3})$$

    Here $r_{(1)}, r_{(2)}, …$ are the nearest rows outside fold $k$. Up to a factor and constant,
    $-a_k$ is the nearest-neighbor estimate of the log-density (Loftsgaarden and Quesenberry,
    1965). The sum of absolute differences is less dominated by single inputs than the Euclidean
    distance.

    Missing cells are filled from rows outside fold $k$ too. So fold $k$ treats its own rows, which
    are held out, exactly as it treats new rows.

    Attributes:
        rows: Training rows, shape `(R, D)`. NaN in missing cells.
        folds: Fold of each row, shape `(R,)`. There are at least two.
        one_hot: The inputs of each column that is a one-hot vector. They are compared as a whole.

    Example:
        >>> rows = torch.tensor([[0.0], [4.0], [1.0], [3.0]])
        >>> neighbors = Neighbors(rows, torch.tensor([0, 0, 1, 1]))
        >>> x = torch.tensor([[2.0]])
        >>> neighbors.mean_log_distance(x[None], neighbors.index_of(x)[None]).exp()
        tensor([[1.0010],
                [2.0010]], dtype=torch.float64)
    """

    rows: Tensor
    folds: Tensor
    one_hot: tuple[slice, ...] = ()

    def __post_init__(self) -> None:
        if self.num_folds < 2:
            raise ValueError(
                "distances need at least two folds, because each fold is compared with the rows "
                "outside it, but all rows are in one fold. Use folds = torch.arange(len(rows)) % 4"
            )

    def completions(self, x: Tensor) -> Tensor:
        """Return rows with missing cells filled from rows outside each fold.

        Args:
            x: Rows, shape `(1, N, D)`, or other ones for each fold, shape `(K, N, D)`. NaN in
                missing cells.

        Returns:
            The rows filled in C ways for each fold, shape `(C, K, N, D)`. If nothing is missing,
            `x` in one way.
        """
        if not bool(x.isnan().any()):
            return x[None]
        rows_of_folds = x.expand(self.num_folds, -1, -1)
        pairs = zip(self._donors, rows_of_folds, strict=True)
        return torch.stack([donors.completions(rows) for donors, rows in pairs], 1)

    def mean_log_distance(self, x: Tensor, itself: Tensor) -> Tensor:
        """Return $a_k(x)$ for each fold.

        Args:
            x: Complete rows for each fold, shape `(K, N, D)` or `(1, N, D)`.
            itself: Index of the training row that a row is, or -1, shape `(K, N)` or `(1, N)`. It
                is not its own neighbor.

        Returns:
            The mean log-distances, shape `(K, N)`. Larger values are farther from the rows.
        """
        parts = zip(x.split(CHUNK, 1), itself.split(CHUNK, 1), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([self._mean_log_distance(*part) for part in parts], 1)

    def index_of(self, x: Tensor) -> Tensor:
        """Return the index of the training row that equals each row, or -1, `(N, D) -> (N,)`."""
        index = [self._index.get(row, -1) for row in _as_bytes(x)]
        return torch.tensor(index, dtype=torch.long, device=x.device)

    @property
    def are_different(self) -> bool:
        """Whether at least 99 % of the rows are different. Then a copy of a row is that row."""
        return len(self._index) >= SHARE_OF_DIFFERENT_ROWS * len(self.rows)

    @cached_property
    def num_folds(self) -> int:
        """Number of folds, K."""
        return int(self.folds.max()) + 1

    @cached_property
    def complete_rows(self) -> Tensor:
        """The training rows, with missing cells filled from rows of the same fold, `(R, D)`.

        The rows outside fold $k$ contain nothing of fold $k$.
        """
        return fill_within_folds(self.rows, self.folds).rows

    @cached_property
    def _donors(self) -> list[Imputation]:
        """Fills missing cells from rows outside each fold."""
        return [Imputation.fit(self.rows[self.folds != k]) for k in range(self.num_folds)]

    @cached_property
    def _index(self) -> dict[bytes, int]:
        return {row: i for i, row in enumerate(_as_bytes(self.rows))}

    @cached_property
    def _numbers(self) -> list[int]:
        """The inputs outside one-hot vectors."""
        categories = {i for block in self.one_hot for i in range(block.start, block.stop)}
        return [i for i in range(self.rows.shape[1]) if i not in categories]

    def _distances(self, x: Tensor) -> Tensor:
        """Return the sums of absolute differences to the rows, `(K, N, D) -> (K, N, R)`."""
        x, rows = x.float(), self.complete_rows.float()
        distances = torch.cdist(x[..., self._numbers], rows[:, self._numbers], p=1.0)
        if not self.one_hot:
            return distances
        # Two different one-hot vectors differ by 2, and two equal ones have the product 1.
        equal = self._indicators(x) @ self._indicators(rows).T
        return distances.add_(len(self.one_hot) - equal, alpha=2)

    def _indicators(self, x: Tensor) -> Tensor:
        """Return the one-hot vectors of all categories, shape `(*N, D) -> (*N, L)`."""
        parts = [
            one_hot(x[..., block].argmax(-1), block.stop - block.start) for block in self.one_hot
        ]
        return torch.cat(parts, -1).to(x)

    def _mean_log_distance(self, x: Tensor, itself: Tensor) -> Tensor:
        distances = self._distances(x)
        fold, copies = (itself >= 0).expand(distances.shape[:2]).nonzero(as_tuple=True)
        itself = itself.expand(distances.shape[:2])
        distances[fold, copies, itself[fold, copies]] = torch.inf
        # One of the rows outside a fold may be the row itself.
        sizes = [int((self.folds != k).sum()) for k in range(self.num_folds)]
        counts = [min(NUM_NEIGHBORS, size - 1) for size in sizes]
        nearest = distances.topk(min(CANDIDATES, distances.shape[2]), largest=False)
        values = []
        for k, count in enumerate(counts):
            own = k if len(distances) > 1 else 0
            outside = self.folds[nearest.indices[own]] != k
            chosen = nearest.values[own].where(outside, torch.inf)
            if bool((outside.sum(1) < count).any()):
                chosen = distances[own][:, self.folds != k]
            smallest = chosen.topk(count, largest=False).values.double()
            values.append((smallest + SMALLEST_DISTANCE).log().mean(1))
        return torch.stack(values)


def _as_bytes(x: Tensor) -> list[bytes]:
    """Return the numbers of each row, so that equal rows are equal. Missing cells are equal."""
    rows = (x.float() + 0.0).nan_to_num(nan=torch.inf).cpu().numpy()
    return [row.tobytes() for row in rows]
