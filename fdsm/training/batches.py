"""Which rows are in which batch."""

import hashlib

import torch
from torch import Generator, Tensor

from ..data.transforms import Transform


class ShuffledBatches:
    """Batches of all rows in a new order every epoch; a last incomplete one is left out.

    The order of an epoch is a function of the seed and its number, so that a training can be
    continued anywhere without a state.

    Example:
        >>> from fdsm.data.transforms import Chain
        >>> batches = ShuffledBatches(torch.arange(6.0), Chain(()), size=3, seed=0)
        >>> generator = Generator()
        >>> rows = torch.cat([batches(0, generator), batches(1, generator)])
        >>> rows.sort().values
        tensor([0., 1., 2., 3., 4., 5.])
    """

    def __init__(
        self,
        rows: Tensor,
        transform: Transform,
        size: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        """Take rows as they are stored and how to transform them.

        Args:
            rows: All rows, shape `(N, *E)`.
            transform: What is done to a batch.
            size: How many rows a batch has.
            seed: Decides the order.
            device: Where batches go.

        Raises:
            ValueError: If there are fewer rows than a batch has.
        """
        if not 1 <= size <= len(rows):
            raise ValueError(
                f"a batch of {size} cannot be taken from {len(rows)} rows: "
                "choose a smaller batch (`--set plan.batch=…`)"
            )
        self.rows, self.transform, self.size = rows, transform, size
        self.seed, self.device = seed, device
        self._epoch, self._order = -1, torch.empty(0)

    def __call__(self, iteration: int, generator: Generator) -> Tensor:
        """Return the batch of an iteration, transformed with random numbers of `generator`."""
        epoch, i = divmod(iteration, len(self.rows) // self.size)
        if epoch != self._epoch:
            own = Generator().manual_seed(derived_seed(self.seed, epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self.rows), generator=own)
        chosen = self.rows[self._order[i * self.size : (i + 1) * self.size]]
        return self.transform.sample(chosen.to(self.device), generator)


def derived_seed(seed: int, *labels: int | str) -> int:
    """Return a seed that is another one for every sequence of labels."""
    digest = hashlib.blake2b(repr((seed, *labels)).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")
