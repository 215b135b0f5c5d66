"""CIFAR-10: 50,000 + 10,000 colour images of 32x32."""

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...serialize import Json
from ..dataset import Dataset, build_dataset
from ..download import Published
from ..errors import DataError
from ..files.archives import require_inside
from ..formats.pickles import Call, Global, tree
from ..split import held_out
from ..transforms import Chain, Dequantize, Flip, Transform

ARRAY = (
    Global("numpy.core.multiarray _reconstruct"),
    (Global("numpy ndarray"), (0,), "b"),
)
LIMIT = 2**26
"""A member of the archive with more bytes than this is refused; a batch has 31 million."""

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CIFAR10:
    """Photographs of ten kinds of things: `(N, 3, 32, 32)` bytes, with labels 0 to 9.

    The official batches are pickles. They are read without being run, so that a file from
    the network cannot do anything.

    Reference:
        Krizhevsky (2009), Learning multiple layers of features from tiny images.

    Attributes:
        batches: Which of the five training batches to read, `(1,)` for a part.
        validation: The share of the training images to hold out for validation.
        seed: Decides which.
        transform: From bytes to what the model sees.
    """

    batches: tuple[int, ...] = (1, 2, 3, 4, 5)
    validation: float = 0.1
    seed: int = 2020
    transform: Transform = Chain((Flip(), Dequantize()))

    def __post_init__(self) -> None:
        if not self.batches or not set(self.batches) <= {1, 2, 3, 4, 5}:
            raise ValueError(f"batches are numbered 1 to 5, but got {self.batches}")

    def load(self) -> Dataset:
        """Read the data set; raises `DataError` if that is impossible."""
        wanted = [*(f"data_batch_{i}" for i in self.batches), "test_batch"]
        (*train, (test, test_labels)), files = _batches(wanted)
        images, labels = (torch.cat(parts) for parts in zip(*train, strict=True))
        kept, held = held_out(len(images), self.validation, self.seed)
        absent = sorted({1, 2, 3, 4, 5} - set(self.batches))
        return build_dataset(
            self,
            (images[kept], images[held], test),
            labels=(labels[kept], labels[held], test_labels),
            files=files,
            parts=[f"training batches {list(self.batches)} without {absent}"] if absent else [],
        )


def parsed(content: bytes, name: str) -> tuple[Tensor, Tensor]:
    """Read a batch.

    Args:
        content: The bytes of the file.
        name: What to call it in an error.

    Returns:
        Images of shape `(N, 3, 32, 32)`, uint8, and labels, int64.

    Raises:
        DataError: If it is not what an official batch is.
    """
    try:
        batch: Any = tree(content)
    except DataError as error:
        raise DataError(f"{name} is not an official CIFAR-10 batch: {error}") from error
    data: Any = batch.get("data") if isinstance(batch, dict) else batch
    if not isinstance(batch, dict) or not _is_array(data):
        raise DataError(
            f"{name} is not an official CIFAR-10 batch: instead of an array of bytes it has "
            f"{_named(data)}. Nothing in it was run"
        )
    _, (n, width), _, _, text = data.state
    raw, labels = text.encode("latin-1", errors="ignore"), batch.get("labels")
    if n < 1 or (width, len(raw)) != (PIXELS, n * PIXELS) or not _are_labels(labels, n):
        raise DataError(f"{name} is damaged: images and labels do not have the announced sizes")
    pixels = torch.from_numpy(np.frombuffer(raw, np.uint8).copy())
    return pixels.view(n, 3, 32, 32), torch.tensor(labels)


def _is_array(data: object) -> bool:
    match data:
        case Call(
            function=function,
            arguments=arguments,
            state=(1, (int(), int()), Call(arguments=("u1", *_)), False, str()),
        ):
            return (function, arguments) == ARRAY
    return False


def _are_labels(labels: object, n: int) -> bool:
    if not isinstance(labels, list) or len(labels) != n:
        return False
    return all(isinstance(label, int) and 0 <= label < 10 for label in labels)


def _named(value: object) -> str:
    if isinstance(value, Call) and isinstance(value.function, Global):
        return f"a call of {value.function.name!r}"
    return type(value).__name__


def _batches(wanted: list[str]) -> tuple[list[tuple[Tensor, Tensor]], list[Json]]:
    """Return the batches from the unpacked folder, else from the archive."""
    if all(_BATCHES[name].find() for name in wanted):
        read = [_BATCHES[n].read(lambda p: parsed(p.read_bytes(), str(p))) for n in wanted]
        return [batch for batch, _ in read], [file for _, file in read]
    try:
        contents, file = _ARCHIVE.read(lambda path: _unpacked(path, wanted))
    except DataError as error:
        raise DataError(f"{error}{_present()}") from error
    return [parsed(contents[name], f"{name} in {_ARCHIVE.names[0]}") for name in wanted], [file]


def _present() -> str:
    found = tuple(i for i in range(1, 6) if _BATCHES[f"data_batch_{i}"].find())
    if not found or not _BATCHES["test_batch"].find():
        return ""
    return f". Or read the batches that are there, with CIFAR10(batches={found})"


def _unpacked(path: Path, wanted: list[str]) -> dict[str, bytes]:
    """Return members of the archive; nothing is written anywhere."""
    contents = {}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                require_inside(path, member.name)
                if member.size > LIMIT:
                    raise DataError(f"{path}, {member.name}: {member.size:,} bytes are too many")
                file = archive.extractfile(member) if member.isreg() else None
                if file and Path(member.name).name in wanted:
                    contents[Path(member.name).name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    missing = [name for name in wanted if name not in contents]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}")
    return contents


_ARCHIVE = Published(
    ("cifar-10-python.tar.gz",),
    ("", "cifar-10-batches-py", "cifar10", "cifar-10", "CIFAR10"),
    "md5:c58f30108f718f92721af3b95e74349a",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
)
_BATCHES = {
    name: Published(
        (name,),
        (
            "cifar-10-batches-py",
            "cifar10/cifar-10-batches-py",
            "cifar-10/cifar-10-batches-py",
            "CIFAR10/cifar-10-batches-py",
            "cifar10",
        ),
        f"md5:{md5}",
        page="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    )
    for name, md5 in {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    }.items()
}
