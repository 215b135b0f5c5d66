"""Mini-batches of rows in random order, and random seeds derived from a run's seed."""

import hashlib
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Generator, Tensor

from ..tensors import require_tensor


class RandomTransform(Protocol):
    """A map from stored rows `(N, *E)` to model inputs, with random noise or augmentation."""

    def sample(self, x: Tensor, generator: Generator, /) -> Tensor:
        """Return model inputs."""
        ...


class ShuffledBatches:
    """Batches of all rows in a new random order every epoch. An incomplete last batch is dropped.

    The order of an epoch depends only on the seed and the number of the epoch, so training can
    continue at any iteration without saved state. If there are fewer rows than `size`, each batch
    has all rows.

    Example:
        >>> class Unchanged:
        ...     def sample(self, x, generator):
        ...         return x
        >>> batches = ShuffledBatches(torch.arange(6.0), Unchanged(), size=3, seed=0)
        >>> generator = Generator()
        >>> rows = torch.cat([batches(0, generator), batches(1, generator)])
        >>> rows.sort().values
        tensor([0., 1., 2., 3., 4., 5.])
    """

    def __init__(
        self,
        rows: Tensor,
        transform: RandomTransform,
        size: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        """Store the rows and how to transform them.

        Args:
            rows: All training rows, shape `(N, *E)`.
            transform: Applied to each batch, with new random numbers each time.
            size: Number of rows per batch.
            seed: Random seed of the order.
            device: Device of the batches.

        Raises:
            ValueError: If there are no rows, or the size is not positive.
        """
        require_tensor(rows)
        if size < 1 or not len(rows):
            raise ValueError(
                f"expected a positive batch size and at least one row, but got a batch size of "
                f"{size} and {len(rows)} rows"
            )
        self.rows, self.transform, self.size = rows, transform, min(size, len(rows))
        self.seed, self.device = seed, device
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, iteration: int, generator: Generator) -> Tensor:
        """Return the transformed batch of an iteration; `generator` is for the transform."""
        return self._transformed(self._order_of(iteration), generator)

    def of_process(self, rank: int, processes: int) -> Callable[[int, Generator], Tensor]:
        """Return the rows of each batch that one of several processes trains on.

        All processes have equally many rows, so that the mean of their losses is that of all
        rows. A remainder of the batch is left out.

        Args:
            rank: Number of the process, from 0 on.
            processes: Number of processes.

        Returns:
            The batches of the process. Its generator is its own.
        """
        count = self.size // processes

        def batch(iteration: int, generator: Generator) -> Tensor:
            return self._transformed(self._order_of(iteration)[rank::processes][:count], generator)

        return batch

    def _order_of(self, iteration: int) -> Tensor:
        """Return the numbers of the rows of a batch."""
        epoch, i = divmod(iteration, len(self.rows) // self.size)
        if epoch != self._epoch:
            order = Generator().manual_seed(derived_seed(self.seed, epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self.rows), generator=order)
        return self._order.narrow(0, i * self.size, self.size)

    def _transformed(self, order: Tensor, generator: Generator) -> Tensor:
        chosen = self.rows.index_select(0, order)
        return self.transform.sample(to_device(chosen, self.device), generator)


def to_device(rows: Tensor, device: torch.device | str) -> Tensor:
    """Return rows on a device. The copy to a GPU does not wait for the work before it."""
    if torch.device(device).type == "cuda" and rows.is_cpu:
        return rows.pin_memory().to(device, non_blocking=True)
    return rows.to(device)


def derived_seed(seed: int, *labels: int | str) -> int:
    """Return a seed that is different for every seed and sequence of labels."""
    digest = hashlib.blake2b(repr((seed, *labels)).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")
