"""Rows of a batch that are divided among processes, with the random numbers of the whole batch.

Every process holds a generator in the same state. A call that creates a random tensor with one row
per example draws it for the whole batch and returns the rows of the process. So any number of
processes together draw what a single one would draw, and the state of the generator stays the same
in all of them.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

T = TypeVar("T")
R = TypeVar("R")

FACTORIES = {torch.randn, torch.rand, torch.randint, torch.randperm, torch.normal}
"""Functions that create random tensors."""
LIKE = {torch.randn_like: torch.randn, torch.rand_like: torch.rand}
"""Functions that create random tensors with the shape of another tensor, and those without it."""


def as_factory(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """Return `randn_like(x)` as `randn(x.shape)`, and any other call unchanged.

    Args:
        function: The function that is called.
        args: Its positional arguments.
        options: Its keyword arguments. They are changed.

    Returns:
        The function and its arguments.
    """
    if function not in LIKE:
        return function, args, options
    x, *_ = args
    options.pop("memory_format", None)  # the tensors of a factory are contiguous
    return LIKE[function], (x.shape,), {"dtype": x.dtype, "device": x.device, **options}


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of a batch.

    Attributes:
        start: The first row.
        stop: The row after the last one.
        total: Number of rows of the whole batch.

    Example:
        >>> [Shard.of(8, index, 3) for index in range(3)][1:]
        [Shard(start=3, stop=6, total=8), Shard(start=6, stop=8, total=8)]
    """

    start: int
    stop: int
    total: int

    @classmethod
    def of(cls, total: int, index: int, count: int) -> Self:
        """Return one of `count` shards, whose sizes differ by at most one.

        Args:
            total: Number of rows of the whole batch.
            index: Number of the shard, from 0 on.
            count: Number of shards.

        Returns:
            The same rows as `torch.tensor_split`.
        """
        size, larger = divmod(total, count)
        start = index * size + min(index, larger)
        return cls(start, start + size + (index < larger), total)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def split(self, count: int) -> list[Self]:
        """Return `count` shards of the same batch that make up this one."""
        parts = (Shard.of(self.size, index, count) for index in range(count))
        return [
            type(self)(self.start + part.start, self.start + part.stop, self.total)
            for part in parts
        ]

    def take(self, x: Tensor, dim: int = 0) -> Tensor:
        """Return the rows of the shard from a tensor with all rows, along a dimension."""
        return x.narrow(dim, self.start, self.size)


_CURRENT: ContextVar[Shard | None] = ContextVar("current shard", default=None)


def positions(count: int) -> tuple[range, int]:
    """Return the positions of rows in the whole batch, and its number of rows.

    A loss that depends on the position of a row in its batch, such as one with stratified noise
    levels, needs them to be the same on any number of processes.

    Args:
        count: Number of rows at hand.

    Returns:
        The positions; `range(count)` and `count` where batches are not divided.
    """
    shard = _CURRENT.get()
    if shard is None or shard.size != count:
        return range(count), count
    return range(shard.start, shard.stop), shard.total


class ShardedDraws(TorchFunctionMode):
    """Context manager in which random tensors are rows of those of the whole batch.

    It applies to `randn`, `rand`, `randint`, `normal` and the like with a shape whose size along
    `dim` is that of the shard, or for rows that are repeated in a first dimension of size
    `V · B`, a multiple of it. Other random tensors are the same in all processes.

    Example:
        >>> whole = torch.rand(5, generator=torch.Generator().manual_seed(0))
        >>> with ShardedDraws(Shard(2, 5, 5)):
        ...     rows = torch.rand(3, generator=torch.Generator().manual_seed(0))
        >>> torch.equal(rows, whole[2:])
        True
    """

    def __init__(self, shard: Shard, dim: int = 0) -> None:
        """Set the rows of this process.

        Args:
            shard: The rows.
            dim: The dimension of a batch that counts rows.
        """
        super().__init__()
        self.shard, self.dim = shard, dim

    def __enter__(self) -> Self:
        """Start to draw rows of the whole batch."""
        self._token = _CURRENT.set(self.shard)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        _CURRENT.reset(self._token)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Draw the random tensor of the whole batch and return its rows."""
        if function not in FACTORIES and function not in LIKE:
            return function(*args, **(kwargs or {}))
        function, args, options = as_factory(function, args, dict(kwargs or {}))
        before, size = _split_size(function, args, options)
        copies = self._copies(size)
        if not copies:
            return function(*args, **options)
        options.pop("size", None)
        rest, total = size[self.dim + 1 :], self.shard.total
        whole: Tensor = function(*before, (*size[: self.dim], copies * total, *rest), **options)
        apart = whole.view(*size[: self.dim], copies, total, *rest)
        return self.shard.take(apart, self.dim + 1).reshape(size)

    def _copies(self, size: Sequence[int]) -> int:
        """Return how often the rows are repeated in a shape; zero if it has no rows."""
        if len(size) <= self.dim or not self.shard.size:
            return 0
        copies, rest = divmod(size[self.dim], self.shard.size)
        return 0 if rest or (self.dim and copies != 1) else copies


def _split_size(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> tuple[Sequence[Any], tuple[int, ...]]:
    """Return the arguments before the shape, and the shape; empty if there is none."""
    if "size" in options:
        return args, tuple(options["size"])
    if function in {torch.randn, torch.rand}:
        return (), tuple(args[0] if args and not isinstance(args[0], int) else args)
    if function is torch.randperm or not args or isinstance(args[-1], (int, float, Tensor)):
        return args, ()
    return args[:-1], tuple(args[-1])


_PROCESSES: ContextVar[tuple[int, int]] = ContextVar("rank and number", default=(0, 1))


@contextmanager
def divided_among_processes() -> Generator[None]:
    """Divide the rows of `over_rows` among the processes of the default process group.

    All processes must call the same functions with the same rows and weights, in the same order.

    Yields:
        Nothing, while rows are divided.
    """
    from torch import distributed

    token = _PROCESSES.set((distributed.get_rank(), distributed.get_world_size()))
    try:
        yield
    finally:
        _PROCESSES.reset(token)


def over_rows(function: Callable[..., Tensor], *tensors: Tensor, dim: int = 0) -> Tensor:
    """Return a function of rows, each of which is computed by one process.

    Outside of `divided_among_processes` this is `function(*tensors)`. So it is with fewer rows
    than processes.

    Args:
        function: `(n, …), … -> (n, …)`, row by row. Its random numbers are those of all rows.
        tensors: Tensors with all rows.
        dim: The dimension that counts rows, in arguments and result.

    Returns:
        The results of all rows, in every process.

    Example:
        >>> over_rows(torch.square, torch.arange(3))
        tensor([0, 1, 4])
    """
    compute = lambda shard: function(*(shard.take(tensor, dim) for tensor in tensors))
    return _divided(compute, tensors[0].shape[dim], dim)


def new_rows(function: Callable[[int], Tensor], count: int) -> Tensor:
    """Return a number of random rows, such as samples, each created by one process.

    Args:
        function: Returns a number of rows, `n -> (n, …)`.
        count: Number of rows.

    Returns:
        All rows, in every process; see `over_rows`.

    Example:
        >>> new_rows(torch.ones, 2)
        tensor([1., 1.])
    """
    return _divided(lambda shard: function(shard.size), count, 0)


def over_items(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return a function of items, each of which is computed by one process; see `over_rows`.

    Args:
        function: A function without random numbers. Its results may be any Python objects.
        items: The items, the same in all processes.

    Returns:
        The results of all items, in every process.

    Example:
        >>> over_items(len, ["a", "few", "words"])
        [1, 3, 5]
    """
    rank, count = _PROCESSES.get()
    if count == 1:
        return [function(item) for item in items]
    from torch import distributed

    with _undivided():
        own = [function(item) for item in items[rank::count]]
    by_rank: list[list[R]] = [own] * count
    distributed.all_gather_object(by_rank, own)
    return [by_rank[i % count][i // count] for i in range(len(items))]


@contextmanager
def _undivided() -> Generator[None]:
    """Compute in this process alone what is not to be divided again."""
    token = _PROCESSES.set((0, 1))
    try:
        yield
    finally:
        _PROCESSES.reset(token)


def _divided(compute: Callable[[Shard], Tensor], total: int, dim: int) -> Tensor:
    """Compute the rows of this process and return those of all processes."""
    rank, count = _PROCESSES.get()
    if count == 1 or total < count:
        return compute(Shard(0, total, total))
    from torch import distributed

    shard = Shard.of(total, rank, count)
    with _undivided(), ShardedDraws(shard, dim):
        part = compute(shard).detach()
    whole = part.new_zeros((*part.shape[:dim], total, *part.shape[dim + 1 :]))
    shard.take(whole, dim).copy_(part)
    distributed.all_reduce(whole)
    return whole
