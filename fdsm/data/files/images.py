"""Your own images, and any data set that is a folder of image files."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from ..dataset import Dataset, build_dataset, taken
from ..download import resolved
from ..errors import DataError
from ..split import shuffled, train_val_test_split
from ..transforms import Dequantize, Transform
from .archives import Archive, opened
from .image_decoding import Decoder
from .table import MIN_ROWS


@dataclass(frozen=True)
class ImageFolder:
    """The images in a folder or zip file and its subfolders: `(N, C, size, size)` bytes.

    Their middle is cut out as a square and resized. With more than one folder among them,
    as in ImageNet, the folders are the labels, in alphabetical order.

    Attributes:
        path: The folder or zip; absolute, or relative to here or to the folder of the data.
        size: Height and width of the stored images.
        crop: The size of the square to cut out, at most and by default the shorter side;
            `size=128, crop=128` are the paper's ImageNet images.
        channels: 1 for greyscale, 3 for colour; by default colour if any of the images has it.
        limit: Read at most so many images, drawn by the seed; all by default.
        validation: The share of the images for validation.
        test: The share for the test.
        seed: Decides which.
        transform: From bytes to what the model sees.
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
        """Return the names of all images, in the order of `rows`."""
        return list(self._archive().names)

    def rows(self) -> Tensor:
        """Return all images in the order of their names, say to score them."""
        archive = self._archive()
        return self._decoder().read(archive, archive.names)

    def load(self) -> Dataset:
        """Read and split the images; raises `DataError` if that is impossible."""
        archive = self._archive()
        names = chosen(archive.names, self.limit, self.seed)
        if len(names) < MIN_ROWS:
            raise DataError(
                f"{archive.path} has {len(names)} images: at least {MIN_ROWS} are needed to split "
                "them into training, validation and test"
            )
        order = train_val_test_split(
            len(names), validation=self.validation, test=self.test, seed=self.seed
        )
        images, labels = self._decoder().read(archive, names), _labels(names)
        return build_dataset(
            self,
            taken(images, order),
            labels=None if labels is None else taken(labels, order),
            files=[{"file": archive.path.name, "sha256": archive.sha256()}],
            parts=part(len(names), len(archive.names)),
        )

    def _archive(self) -> Archive:
        return opened(resolved(self.path))

    def _decoder(self) -> Decoder:
        return Decoder(self.size, self.crop, self.channels)


def chosen(names: tuple[str, ...], limit: int | None, seed: int) -> tuple[str, ...]:
    """Return at most `limit` of the names, drawn by the seed, in their order."""
    if limit is None or limit >= len(names):
        return names
    return tuple(names[i] for i in shuffled(len(names), seed)[:limit].sort().values.tolist())


def part(count: int, total: int) -> list[str]:
    """Return what to put on record if not all images were read."""
    return [] if count == total else [f"{count:,} of {total:,} images"]


def _labels(names: tuple[str, ...]) -> Tensor | None:
    folders = [str(PurePosixPath(name).parent) for name in names]
    classes = {folder: i for i, folder in enumerate(sorted(set(folders)))}
    return torch.tensor([classes[f] for f in folders]) if len(classes) > 1 else None
