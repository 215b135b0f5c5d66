"""CelebA: 202,599 aligned photographs of faces."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...serialize import Json
from ..dataset import Dataset, build_dataset, taken
from ..download import Published, named, places
from ..errors import DataError
from ..files.archives import Archive, opened
from ..files.image_decoding import Decoder
from ..files.images import chosen, part
from ..split import held_out, train_val_test_split
from ..transforms import Dequantize, Transform

FOLDERS = ("celeba", "CelebA", "celeba/img_align_celeba", "")
PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


@dataclass(frozen=True)
class CelebA:
    """Faces: the middle 140x140 pixels at 64x64, `(N, 3, 64, 64)` bytes.

    Split at random 70/10/20, as in the paper's autoencoders; or by the official list.

    Reference:
        Liu et al. (2015), https://arxiv.org/abs/1411.7766.

    Attributes:
        size: Height and width that the middle is resized to.
        crop: The size of the middle that is cut out of the 178x218 pixels.
        stride: Keep every so many pixels in both directions; 2 makes the 32x32 images of
            the paper's Figure 3 out of those of 64x64.
        part: Another zip file with some of the images: its name in the folder of the data,
            or its path.
        partition: The name of the official list of the split, `"list_eval_partition.txt"`,
            or its path.
        limit: Read at most so many images, drawn by the seed; all by default.
        validation: The share of the images for validation; with a `partition` that names no
            images for it, of those for training.
        test: The share for the test, without a `partition`.
        seed: Decides which.
        transform: From bytes to what the model sees.
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
        """Read the data set; raises `DataError` if that is impossible."""
        archive, provenance = self._archive()
        names = chosen(archive.names, self.limit, self.seed)
        rows, files = self._split(names)
        images = Decoder(self.size, self.crop, 3).read(archive, names)
        images = images[..., :: self.stride, :: self.stride].contiguous()
        return build_dataset(
            self,
            taken(images, rows),
            files=[provenance, *files],
            parts=[
                *([f"the images of {self.part}"] if self.part else []),
                *part(len(names), len(archive.names)),
            ],
        )

    def _archive(self) -> tuple[Archive, Json]:
        if self.part is not None:
            path, provenance = named(self.part, FOLDERS)
            return opened(path), provenance
        folder = _folder()
        if folder is not None:
            archive = opened(folder)
            return archive, {"file": folder.name, "sha256": archive.sha256()}
        return _ZIP.read(opened)

    def _split(self, names: tuple[str, ...]) -> tuple[tuple[Tensor, Tensor, Tensor], list[Json]]:
        if self.partition is None:
            rows = train_val_test_split(
                len(names), validation=self.validation, test=self.test, seed=self.seed
            )
            return rows, []
        path, provenance = named(self.partition, FOLDERS)
        kinds = torch.tensor(_kinds(path, names))
        train, validation, test = ((kinds == kind).nonzero().flatten() for kind in range(3))
        if not len(validation):
            kept, held = held_out(len(train), self.validation, self.seed)
            train, validation = train[kept], train[held]
        return (train, validation, test), [provenance]


def _folder() -> Path | None:
    """Return a folder of the unpacked images, if there is one."""
    for place in places():
        for folder in FOLDERS:
            if (place / folder / "img_align_celeba").is_dir():
                return place / folder / "img_align_celeba"
    return None


def _kinds(path: Path, names: tuple[str, ...]) -> list[int]:
    """Return for each image if it is for training (0), validation (1) or the test (2)."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf8").splitlines() if line]
        kinds = {name: int(kind) for name, kind in lines}
        found = [kinds[Path(name).name] for name in names]
    except KeyError as error:
        raise DataError(f"{path} says nothing about the image {error}") from error
    except ValueError as error:
        raise DataError(f"{path} should have lines like '000001.jpg 0': {error}") from error
    if not set(found) <= {0, 1, 2}:
        raise DataError(f"{path} should say 0, 1 or 2 for each image, not {sorted(set(found))}")
    return found


_ZIP = Published(
    ("img_align_celeba.zip",),
    FOLDERS,
    "md5:00d2c5bc6d35e252742224ab0c1e8fcb",
    page=PAGE,
)
