"""SVHN: house numbers, 73,257 + 26,032 colour images of 32x32."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..dataset import Dataset, build_dataset, taken
from ..download import Published, named
from ..errors import DataError
from ..formats.mat import read_mat
from ..split import held_out, train_val_test_split
from ..transforms import Dequantize, Transform

FOLDERS = ("svhn", "SVHN", "")


@dataclass(frozen=True)
class SVHN:
    """Digits on houses: `(N, 3, 32, 32)` bytes, with labels 0 to 9.

    Reference:
        Netzer et al. (2011), Reading digits in natural images.

    Attributes:
        part: A single `.mat` file to split into training, validation and test, instead of
            the official pair: its name in the folder of the data, or its path.
        validation: The share of the training images to hold out for validation.
        test: The share of a `part` for the test.
        seed: Decides which.
        transform: From bytes to what the model sees.
    """

    part: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 2020
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        return self._whole() if self.part is None else self._part(self.part)

    def _whole(self) -> Dataset:
        (images, labels), train_file = _TRAIN.read(read_crops)
        (test, test_labels), test_file = _TEST.read(read_crops)
        kept, held = held_out(len(images), self.validation, self.seed)
        return build_dataset(
            self,
            (images[kept], images[held], test),
            labels=(labels[kept], labels[held], test_labels),
            files=[train_file, test_file],
        )

    def _part(self, name: str) -> Dataset:
        path, provenance = named(name, FOLDERS)
        images, labels = read_crops(path)
        rows = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        return build_dataset(
            self,
            taken(images, rows),
            labels=taken(labels, rows),
            files=[provenance],
            parts=[f"the {len(images):,} images of {path.name}, split at random"],
        )


def read_crops(path: Path) -> tuple[Tensor, Tensor]:
    """Read a file of crops.

    Args:
        path: A `.mat` file with `X` of shape `(32, 32, 3, N)` and `y` of shape `(N, 1)`.

    Returns:
        Images of shape `(N, 3, 32, 32)`, uint8, and labels, int64, with 0 for the digit 0.

    Raises:
        DataError: If the file is something else.
    """
    found = read_mat(path)
    x, y = found.get("X", np.empty(0)), found.get("y", np.empty(0))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or y.size != x.shape[-1]:
        raise DataError(
            f"{path} should hold X, bytes of shape (32, 32, 3, N), and y of shape (N, 1), but "
            f"has {x.dtype} {x.shape} and {y.dtype} {y.shape}"
        )
    images = np.ascontiguousarray(x.transpose(3, 2, 0, 1))
    return torch.from_numpy(images), torch.from_numpy(y.ravel().astype(np.int64)) % 10


_SITE = "http://ufldl.stanford.edu/housenumbers/"
_TRAIN, _TEST = (
    Published((name,), FOLDERS, f"md5:{md5}", (f"{_SITE}{name}",))
    for name, md5 in {
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    }.items()
)
