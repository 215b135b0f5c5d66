"""MNIST and Fashion-MNIST: 60,000 + 10,000 grayscale images of 28x28."""

import gzip
import io
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fdsm.serialize import Json
from fdsm.untrusted import expansion_limit

from ..dataset import Dataset, build_dataset
from ..download import RemoteFile
from ..errors import DataError, problems_of
from ..split import holdout_split
from ..transforms import Dequantize, Transform


@dataclass(frozen=True)
class MNIST:
    """Handwritten digits: `(N, 1, 28, 28)` bytes, with labels 0 to 9.

    Reference:
        LeCun et al. (1998), Gradient-based learning applied to document recognition.

    Attributes:
        validation: Fraction of the 60,000 training images to hold out for validation.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    validation: float = 0.1
    seed: int = 2020
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        """Read the data set. Raises `DataError` if a file is missing or damaged."""
        images, labels, train_files = _load_part(self._files(), "train")
        test, test_labels, test_files = _load_part(self._files(), "t10k")
        with problems_of(self._files()["train-images"].fetch()):
            kept, held = holdout_split(len(images), self.validation, self.seed)
        return build_dataset(
            self,
            (images[kept], images[held], test),
            labels=(labels[kept], labels[held], test_labels),
            files=[*train_files, *test_files],
        )

    def _files(self) -> Mapping[str, RemoteFile]:
        return _MNIST


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Images of clothes in the format of MNIST: `(N, 1, 28, 28)` bytes, with labels 0 to 9.

    Reference:
        Xiao et al. (2017), https://arxiv.org/abs/1708.07747.
    """

    def _files(self) -> Mapping[str, RemoteFile]:
        return _FASHION


def parse_idx(content: bytes, path: Path, event: tuple[int, ...]) -> Tensor:
    """Parse an idx file of bytes, the format of MNIST. It may be compressed with gzip.

    The format is a magic number, the sizes of the dimensions, and the data.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        event: Expected shape of each row.

    Returns:
        The rows, shape `(N, *event)`, uint8.

    Raises:
        DataError: If the file is damaged or has another format or shape.
    """
    raw = io.BytesIO(content)
    file = gzip.GzipFile(fileobj=raw) if content[:2] == b"\x1f\x8b" else raw
    dims = 1 + len(event)
    try:
        header = file.read(4 + 4 * dims)
        magic, expected_magic = header[:4], bytes([0, 0, 0x08, dims])
        if magic != expected_magic:
            raise DataError(
                f"{path} is not the expected idx file: it starts with {magic.hex()!r}, expected "
                f"{expected_magic.hex()!r}"
            )
        if len(header) < 4 + 4 * dims:
            raise DataError(f"{path} is damaged: it ends within its header")
        n, *sizes = struct.unpack(f">{dims}I", header[4:])
        size = n * math.prod(event)
        if tuple(sizes) != event or size > expansion_limit(len(content)):
            raise DataError(f"{path} has {n:,} rows of shape {tuple(sizes)}, expected {event}")
        body = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if len(body) != size:
        actual = f"only {len(body):,}" if len(body) < size else "more"
        raise DataError(f"{path} is damaged: its header gives {size:,} bytes, but it has {actual}")
    return torch.from_numpy(np.frombuffer(body, np.uint8).copy().reshape(n, *event))


def _load_part(files: Mapping[str, RemoteFile], part: str) -> tuple[Tensor, Tensor, list[Json]]:
    images, image_file = files[f"{part}-images"].read(lambda c, p: parse_idx(c, p, (28, 28)))
    labels, label_file = files[f"{part}-labels"].read(lambda c, p: parse_idx(c, p, ()))
    if len(images) != len(labels):
        raise DataError(
            f"{files[f'{part}-images'].find()} has {len(images):,} images, but "
            f"{files[f'{part}-labels'].find()} has {len(labels):,} labels. Replace both with the "
            "official files"
        )
    return images[:, None], labels.long(), [image_file, label_file]


def _remote_files(
    folders: tuple[str, ...], mirrors: tuple[str, ...], checksums: Mapping[str, str]
) -> dict[str, RemoteFile]:
    files = {}
    for name, sha256 in checksums.items():
        full = f"{name}-idx{3 if 'images' in name else 1}-ubyte"
        files[name] = RemoteFile(
            names=(f"{full}.gz", full, full.replace("-idx", ".idx")),
            folders=folders,
            checksum=f"sha256:{sha256}",
            urls=tuple(f"{mirror}{full}.gz" for mirror in mirrors),
        )
    return files


_MNIST = _remote_files(
    ("mnist", "MNIST/raw", "MNIST", "mnist/MNIST/raw"),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    {
        "train-images": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)
_FASHION = _remote_files(
    ("fashion_mnist", "FashionMNIST/raw", "FashionMNIST", "fashion-mnist"),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    {
        "train-images": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)
