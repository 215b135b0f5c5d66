"""The digits of scikit-learn, which need no download."""

import hashlib
from dataclasses import dataclass

import torch

from fdsm.extras import name_missing_extra

from ..dataset import Dataset, build_dataset
from ..split import index_splits, train_val_test_split
from ..transforms import Dequantize, Transform


@dataclass(frozen=True)
class Digits:
    """The 1,797 handwritten digits of scikit-learn: `(N, 1, 8, 8)`, integers 0 to 16.

    Reference:
        Alpaydin & Kaynak (1998), https://doi.org/10.24432/C50P49.

    Attributes:
        validation: Fraction of the images for validation.
        test: Fraction of the images for the test.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.

    Example:
        >>> data = Digits().load()
        >>> data.shape, data.record["rows"]
        (torch.Size([1, 8, 8]), {'train': 1439, 'validation': 179, 'test': 179})
    """

    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Dequantize(17)

    def load(self) -> Dataset:
        """Read the data set. Raises `ImportError` if scikit-learn is missing."""
        with name_missing_extra("Digits"):
            from sklearn.datasets import load_digits
        digits = load_digits()
        images = torch.from_numpy(digits.images).to(torch.uint8)[:, None]
        rows = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        sha256 = hashlib.sha256(images.numpy().tobytes()).hexdigest()
        return build_dataset(
            self,
            index_splits(images, rows),
            labels=index_splits(torch.from_numpy(digits.target).long(), rows),
            files=[{"file": "sklearn.datasets.load_digits, as bytes", "sha256": sha256}],
        )
