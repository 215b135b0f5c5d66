"""Folders and zip files of images."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from ..dataset import Dataset, build_dataset
from ..download import resolve_path
from ..errors import DataError
from ..split import MIN_ROWS, index_splits, permutation, train_val_test_split
from ..transforms import Dequantize, Transform
from .archives import Archive, open_archive
from .image_decoding import ImageDecoder


@dataclass(frozen=True)
class ImageFolder:
    """The images in a folder or zip file and its subfolders: `(N, C, size, size)` bytes.

    The central square of each image is cut out and resized. If the images are in several
    subfolders, as in ImageNet, the subfolders are the classes, in alphabetical order.

    Attributes:
        path: Path of the folder or zip file: absolute, or relative to the working directory or
            the data directory.
        size: Height and width of the stored images.
        crop: Size of the central square, at most the shorter side. Default: the shorter side.
            The paper's ImageNet images have `size=128, crop=128`.
        channels: 1 for grayscale, 3 for color. Default: color if any image has color.
        limit: Maximum number of images, drawn at random. Default: all.
        validation: Fraction of the images for validation.
        test: Fraction of the images for the test.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    path: str | Path
    size: int = 32
    crop: int | None = None
    channels: int | None = None
    limit: int | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0
    transform: Transform = Dequantize()

    def names(self) -> list[str]:
        """Return the names of all images, in the order of `rows()`."""
        return list(self._archive().names)

    def rows(self) -> Tensor:
        """Return all images in the order of their names, without a split."""
        archive = self._archive()
        return self._decoder().read(archive, archive.names)

    def load(self) -> Dataset:
        """Read and split the images. Raises `DataError` if an image cannot be read."""
        archive = self._archive()
        names = sample_names(archive.names, self.limit, self.seed)
        if len(names) < MIN_ROWS:
            raise DataError(
                f"{archive.path} has {len(names)} images, but at least {MIN_ROWS} are needed for "
                "a split into training, validation and test"
            )
        order = train_val_test_split(
            len(names), validation=self.validation, test=self.test, seed=self.seed
        )
        images, labels = self._decoder().read(archive, names), _labels(names)
        return build_dataset(
            self,
            index_splits(images, order),
            labels=None if labels is None else index_splits(labels, order),
            files=[{"file": archive.path.name, "sha256": archive.sha256()}],
            parts=describe_subset(len(names), len(archive.names)),
        )

    def _archive(self) -> Archive:
        return open_archive(resolve_path(self.path))

    def _decoder(self) -> ImageDecoder:
        return ImageDecoder(self.size, self.crop, self.channels)


def sample_names(names: tuple[str, ...], limit: int | None, seed: int) -> tuple[str, ...]:
    """Return at most `limit` of the names, drawn at random, in their original order."""
    if limit is None or limit >= len(names):
        return names
    return tuple(names[i] for i in permutation(len(names), seed)[:limit].sort().values.tolist())


def describe_subset(count: int, total: int) -> list[str]:
    """Return the entry `parts` of the record: empty if all images were read."""
    return [] if count == total else [f"{count:,} of {total:,} images"]


def _labels(names: tuple[str, ...]) -> Tensor | None:
    folders = [str(PurePosixPath(name).parent) for name in names]
    classes = {folder: i for i, folder in enumerate(sorted(set(folders)))}
    return torch.tensor([classes[f] for f in folders]) if len(classes) > 1 else None
