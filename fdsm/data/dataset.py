"""What a data set is once it has been read, and what it is read from."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..serialize import Json
from .transforms import Transform


@dataclass(frozen=True)
class Dataset:
    """Rows to learn from, and how they are shown to a model.

    Rows are kept as they were stored, since that is smallest: images as bytes, shape
    `(N, C, H, W)`, tables as float32, shape `(N, D)`. The transform turns them into what the
    model sees: `transform.sample(rows, generator)` for training, `transform.deterministic(rows)` for
    evaluation.

    Attributes:
        train: The stored rows to train on.
        validation: Those to choose by; may be empty.
        test: Those to report.
        transform: From stored rows to model rows, already fitted.
        record: What was read: name, files with their sha256, rows per split.
        labels: The classes of the rows of the three splits, where there are any.

    Example:
        >>> from fdsm.data import Gaussian, SyntheticData
        >>> data = SyntheticData(Gaussian((0.0, 1.0)), n=100).load()
        >>> data.shape, len(data.train), len(data.test)
        (torch.Size([2]), 100, 10)
    """

    train: Tensor
    validation: Tensor
    test: Tensor
    transform: Transform
    record: dict[str, Json]
    labels: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape of one event in the model's space."""
        return self.transform.deterministic(self.train[:1]).shape[1:]

    def stored(self, y: Tensor) -> Tensor:
        """Return model rows as rows like the stored ones, say samples as images of bytes.

        Args:
            y: Rows in the model's space, shape `(N, *E)`.

        Returns:
            Rows in the space of the data; where the stored ones are bytes, rounded and clipped
            to the largest that occurs in training.
        """
        x = self.transform.inverse(y)
        if self.train.is_floating_point():
            return x
        return x.round().clamp(0, int(self.train.max())).to(self.train.dtype)


class Source(Protocol):
    """Where a data set comes from: a frozen dataclass of plain values that can load it."""

    @property
    def transform(self) -> Transform:
        """From stored rows to model rows, before it is fitted."""
        ...

    def load(self) -> Dataset:
        """Read the data set."""
        ...


def build_dataset(
    source: Source,
    splits: tuple[Tensor, Tensor, Tensor],
    *,
    labels: tuple[Tensor, Tensor, Tensor] | None = None,
    fitted: Transform | None = None,
    **facts: Json,
) -> Dataset:
    """Put a data set together.

    Args:
        source: Where it comes from; gives the name and the transform.
        splits: The stored rows for training, validation and test.
        labels: Their classes.
        fitted: The fitted transform, if it is not to be fitted to the training rows.
        facts: What else to put on record.

    Returns:
        The data set, with its transform fitted and its record written.
    """
    train, validation, test = splits
    rows = {"train": len(train), "validation": len(validation), "test": len(test)}
    record: dict[str, Json] = {"name": type(source).__name__, "rows": rows, **facts}
    transform = source.transform.fit(train) if fitted is None else fitted
    return Dataset(train, validation, test, transform, record, labels)


def taken(x: Tensor, splits: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of `x` that each split names by their numbers."""
    train, validation, test = splits
    return x[train], x[validation], x[test]
