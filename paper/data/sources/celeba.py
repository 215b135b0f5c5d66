"""CelebA: 202,599 aligned photographs of faces."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fdsm.serialize import Json
from fdsm.untrusted import quote, read_file

from ..dataset import Dataset, build_dataset
from ..download import RemoteFile, file_record, find_file, search_dirs
from ..errors import DataError, problems_of
from ..files.archives import Archive, open_archive
from ..files.image_decoding import ImageDecoder
from ..files.images import describe_subset, sample_names
from ..split import holdout_split, index_splits, train_val_test_split
from ..transforms import Dequantize, Transform

FOLDERS = ("celeba", "CelebA", "celeba/img_align_celeba", "")


@dataclass(frozen=True)
class CelebA:
    """Faces: the central 140x140 pixels, resized to 64x64, `(N, 3, 64, 64)` bytes.

    Split at random 70/10/20, as in the paper's autoencoders, or by the official list.

    Reference:
        Liu et al. (2015), https://arxiv.org/abs/1411.7766.

    Attributes:
        size: Height and width after resizing.
        crop: Size of the central square that is cut out of the 178x218 pixels.
        stride: Keep every `stride`-th pixel in both directions. 2 reduces 64x64 to the 32x32
            images of the paper's Figure 3.
        part: Name or path of a zip file with a part of the images.
        partition: Name or path of the official list of the split, `"list_eval_partition.txt"`.
        limit: Maximum number of images, drawn at random. Default: all.
        validation: Fraction of the images for validation. With a `partition` that has no
            validation images, fraction of its training images.
        test: Fraction of the images for the test, without a `partition`.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    size: int = 64
    crop: int = 140
    stride: int = 1
    part: str | None = None
    partition: str | None = None
    limit: int | None = None
    validation: float = 0.1
    test: float = 0.2
    seed: int = 2019
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set. Raises `DataError` if a file is missing or damaged."""
        archive, file = self._open()
        names = sample_names(archive.names, self.limit, self.seed)
        with problems_of(archive.path):
            rows, partition_files = self._split(names)
        images = ImageDecoder(self.size, self.crop, 3).read(archive, names)
        images = images[..., :: self.stride, :: self.stride].contiguous()
        return build_dataset(
            self,
            index_splits(images, rows),
            files=[
                file or {"file": archive.path.name, "sha256": archive.sha256()},
                *partition_files,
            ],
            parts=[
                *([f"the images of {self.part}"] if self.part else []),
                *describe_subset(len(names), len(archive.names)),
            ],
        )

    def _open(self) -> tuple[Archive, Json]:
        """Return the images, and the record of their file unless they are in a folder."""
        if self.part is not None:
            path = find_file(self.part, FOLDERS)
            return open_archive(path), file_record(path)
        for directory in search_dirs():
            for folder in FOLDERS:
                path = directory / folder / "img_align_celeba"
                if path.is_dir():
                    return open_archive(path), None
        path = _ZIP.fetch()
        with _ZIP.advise(path):
            return open_archive(path), _ZIP.record(path)

    def _split(self, names: tuple[str, ...]) -> tuple[tuple[Tensor, Tensor, Tensor], list[Json]]:
        if self.partition is None:
            rows = train_val_test_split(
                len(names), validation=self.validation, test=self.test, seed=self.seed
            )
            return rows, []
        path = find_file(self.partition, FOLDERS)
        content = read_file(path, DataError)
        splits = torch.tensor(_parse_partition(content, path, names))
        train, validation, test = ((splits == split).nonzero().flatten() for split in range(3))
        if not len(validation):
            kept, held = holdout_split(len(train), self.validation, self.seed)
            train, validation = train[kept], train[held]
        return (train, validation, test), [file_record(path, content)]


def _parse_partition(content: bytes, path: Path, names: tuple[str, ...]) -> list[int]:
    """Return 0 for each training image, 1 for validation and 2 for test."""
    try:
        lines = [line.split() for line in content.decode("utf8").splitlines() if line]
        splits = {name: int(split) for name, split in lines}
        numbers = [splits[Path(name).name] for name in names]
    except KeyError as error:
        raise DataError(
            f"{path} does not list the image {quote(error.args[0])}. Use the official list"
        ) from error
    except ValueError as error:
        raise DataError(
            f"{path} must have lines such as '000001.jpg 0': {quote(error)}"
        ) from error
    if not set(numbers) <= {0, 1, 2}:
        raise DataError(
            f"{path} must have 0, 1 or 2 for each image, but has {quote(sorted(set(numbers)))}"
        )
    return numbers


_ZIP = RemoteFile(
    ("img_align_celeba.zip",),
    FOLDERS,
    "md5:00d2c5bc6d35e252742224ab0c1e8fcb",
    homepage="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
)
