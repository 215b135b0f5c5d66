"""Real images that need no download."""

import hashlib
from dataclasses import dataclass

import torch

from ..dataset import Dataset, build_dataset, taken
from ..split import train_val_test_split
from ..transforms import Dequantize, Transform


@dataclass(frozen=True)
class Digits:
    """The 1,797 handwritten digits inside scikit-learn: `(N, 1, 8, 8)` levels 0 to 16.

    Reference:
        Alpaydin & Kaynak (1998), https://doi.org/10.24432/C50P49.

    Attributes:
        validation: The share of the images for validation.
        test: The share for the test.
        seed: Decides which.
        transform: From levels to what the model sees.

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
        """Read the data set; raises `ImportError` if scikit-learn is missing."""
        try:
            from sklearn.datasets import load_digits  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("Digits needs scikit-learn: pip install 'fdsm[digits]'") from error
        found = load_digits()
        images = torch.from_numpy(found.images).to(torch.uint8)[:, None]
        rows = train_val_test_split(
            len(images), validation=self.validation, test=self.test, seed=self.seed
        )
        sha256 = hashlib.sha256(images.numpy().tobytes()).hexdigest()
        return build_dataset(
            self,
            taken(images, rows),
            labels=taken(torch.from_numpy(found.target).long(), rows),
            files=[{"file": "sklearn.datasets.load_digits, as bytes", "sha256": sha256}],
        )
