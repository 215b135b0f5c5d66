"""A loaded data set, and the source that it is loaded from."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from fdsm.serialize import Json

from .transforms import Transform


@dataclass(frozen=True)
class Dataset:
    """Rows for training, validation and test, and the transform to the model's space.

    Rows are kept in their stored form to save memory: images as bytes, shape `(N, C, H, W)`,
    tables as numbers, shape `(N, C)`. The transform maps them to the inputs of the model:
    `transform.sample(rows, generator)` for training, `transform.deterministic(rows)` for
    evaluation.

    Attributes:
        train: Training rows, as stored.
        validation: Validation rows, as stored. May be empty.
        test: Test rows, as stored.
        transform: Fitted transform from stored rows to model inputs.
        record: JSON description: name, number of rows, files with their SHA-256.
        labels: Class labels of the three splits, if the data has any.

    Example:
        >>> from paper.data import GaussianDensity, SyntheticData
        >>> data = SyntheticData(GaussianDensity((0.0, 1.0)), n=100).load()
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
        """Shape of one model input."""
        return self.transform.deterministic(self.train[:1]).shape[1:]

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns of a table, if they are known."""
        names = self.record.get("columns")
        return [str(name) for name in names] if isinstance(names, list) else None

    @cached_property
    def train_inputs(self) -> Tensor:
        """Model inputs of all training rows, for data that fit into memory, shape `(N, *E')`."""
        return self.transform.deterministic(self.train)

    def inverse_transform(self, y: Tensor) -> Tensor:
        """Map model inputs, for example samples, to rows of the stored form.

        Args:
            y: Model inputs, shape `(N, *E)`.

        Returns:
            Rows like the stored ones. If these are integers, the result is rounded and clipped
            to the range from 0 to the largest training value.
        """
        x = self.transform.inverse(y)
        if self.train.is_floating_point():
            return x
        return x.round().clamp(0, int(self.train.max())).to(self.train.dtype)


class Source(Protocol):
    """A data set that can be loaded: a frozen dataclass of plain values."""

    @property
    def transform(self) -> Transform:
        """Transform from stored rows to model inputs, before it is fitted."""
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
    """Build a data set: fit the transform and write the record.

    Args:
        source: The source of the data. Provides the name and the transform.
        splits: Stored rows for training, validation and test.
        labels: Class labels of the three splits.
        fitted: Fitted transform. By default the source's transform is fitted to the training rows.
        facts: More entries of the record.

    Returns:
        The data set.
    """
    train, validation, test = splits
    rows = {"train": len(train), "validation": len(validation), "test": len(test)}
    record: dict[str, Json] = {"name": type(source).__name__, "rows": rows, **facts}
    transform = source.transform.fit(train) if fitted is None else fitted
    return Dataset(train, validation, test, transform, record, labels)
