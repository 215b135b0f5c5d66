"""CIFAR-10: 50,000 + 10,000 color images of 32x32."""

import io
import pickle
import pickletools
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fdsm.serialize import Json
from fdsm.untrusted import Decompressed, InputError, expansion_limit, quote

from ..dataset import Dataset, build_dataset
from ..download import RemoteFile
from ..errors import DataError, problems_of
from ..files.archives import require_inside
from ..split import holdout_split
from ..transforms import Chain, Dequantize, Flip, Transform

MAX_BYTES = 2**26
"""Largest accepted size of a batch. The official batches have 31 million bytes."""

MAX_OPCODES = 10**6
"""Largest number of instructions of a pickle. The official batches have 60,000."""
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CIFAR10:
    """Photographs of ten classes: `(N, 3, 32, 32)` bytes, with labels 0 to 9.

    The official batches are pickles. They are read without importing or calling anything that
    a pickle names, so a hostile file cannot run code.

    Reference:
        Krizhevsky (2009), Learning multiple layers of features from tiny images.

    Attributes:
        batches: Numbers of the training batches to read, out of 1 to 5.
        validation: Fraction of the training images to hold out for validation.
        seed: Random seed of the split.
        transform: Transform from stored images to model inputs.
    """

    batches: tuple[int, ...] = (1, 2, 3, 4, 5)
    validation: float = 0.1
    seed: int = 2020
    transform: Transform = Chain((Flip(), Dequantize()))

    def __post_init__(self) -> None:
        if not self.batches or not set(self.batches) <= {1, 2, 3, 4, 5}:
            raise ValueError(f"batches must be numbers from 1 to 5, but is {self.batches}")

    def load(self) -> Dataset:
        """Read the data set. Raises `DataError` if a file is missing or damaged."""
        wanted = [*(f"data_batch_{i}" for i in self.batches), "test_batch"]
        (*train, (test, test_labels)), files = _read_batches(wanted)
        images, labels = (torch.cat(parts) for parts in zip(*train, strict=True))
        with problems_of(", ".join(wanted[:-1])):
            kept, held = holdout_split(len(images), self.validation, self.seed)
        absent = sorted({1, 2, 3, 4, 5} - set(self.batches))
        return build_dataset(
            self,
            (images[kept], images[held], test),
            labels=(labels[kept], labels[held], test_labels),
            files=files,
            parts=[f"training batches {list(self.batches)} without {absent}"] if absent else [],
        )


class _Placeholder:
    """Stands in for the numpy objects in a pickle and keeps their state."""

    state: Any = None

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    # numpy itself is not allowed in: with a hostile buffer, numpy.ndarray can crash the process.
    _ALLOWED = frozenset({
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    })

    def find_class(self, module: str, name: str) -> type[_Placeholder]:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}. Nothing was run")
        return _Placeholder


def _unpickle(content: bytes) -> dict[bytes, Any]:
    """Return the content of a pickle, with placeholders for numpy arrays."""
    if len(content) > MAX_BYTES:
        raise pickle.UnpicklingError(f"{len(content):,} bytes are more than {MAX_BYTES:,}")
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if count > MAX_OPCODES:
            raise pickle.UnpicklingError(f"it has more than {MAX_OPCODES:,} instructions")
        # Official batches share no objects. Shared objects can take exponential time, and a
        # large memo index takes memory in proportion.
        if "GET" in opcode.name or opcode.name == "DUP":
            raise pickle.UnpicklingError(f"the opcode {opcode.name} is not allowed")
        if "PUT" in opcode.name and int(argument or 0) > len(content):
            raise pickle.UnpicklingError(f"the memo index {argument} is too large")
    batch: dict[bytes, Any] = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    return batch


def parse_batch(content: bytes, name: str | Path) -> tuple[Tensor, Tensor]:
    """Parse an official batch.

    Args:
        content: Content of the file.
        name: Name of the file, for errors.

    Returns:
        Images of shape `(N, 3, 32, 32)`, uint8, and labels, int64.

    Raises:
        DataError: If it is not an official batch.
    """
    try:
        batch = _unpickle(content)
        labels = torch.tensor([_require_label(label) for label in batch[b"labels"]])
        _, shape, _, fortran_order, pixels = batch[b"data"].state
        images = torch.from_numpy(np.frombuffer(pixels, np.uint8).copy())
        images = images.view(len(labels), 3, 32, 32)
    except Exception as error:  # a damaged pickle can raise any exception
        raise DataError(
            f"{name} is not an official CIFAR-10 batch ({type(error).__name__}: {error})"
        ) from error
    if not len(labels) or shape != (len(labels), PIXELS) or fortran_order:
        raise DataError(
            f"{name} is not an official CIFAR-10 batch: it has {len(labels)} labels and images of "
            f"shape {quote(shape)}"
        )
    return images, labels


def _require_label(label: object) -> int:
    if not isinstance(label, int) or not 0 <= label < 10:
        raise ValueError(f"{quote(label)} is not a label from 0 to 9")
    return label


def _read_batches(wanted: list[str]) -> tuple[list[tuple[Tensor, Tensor]], list[Json]]:
    """Read batches from the unpacked folder if it has all of them, else from the archive."""
    if all(_BATCHES[name].find() for name in wanted):
        read = [_BATCHES[name].read(parse_batch) for name in wanted]
        return [batch for batch, _ in read], [file for _, file in read]
    try:
        contents, file = _ARCHIVE.read(lambda content, path: _members(content, path, wanted))
    except DataError as error:
        raise DataError(f"{error}{_available_batches()}") from error
    names = {name: f"{name} in {_ARCHIVE.names[0]}" for name in wanted}
    return [parse_batch(contents[name], names[name]) for name in wanted], [file]


def _available_batches() -> str:
    batches = tuple(i for i in range(1, 6) if _BATCHES[f"data_batch_{i}"].find())
    if not batches or not _BATCHES["test_batch"].find():
        return ""
    return f". Or read only the batches that exist: CIFAR10(batches={batches})"


def _members(content: bytes, path: Path, wanted: list[str]) -> dict[str, bytes]:
    """Return members of the archive. Nothing is written to disk."""
    contents = {}
    try:
        unpacked = Decompressed(io.BytesIO(content), expansion_limit(len(content)))
        with tarfile.open(fileobj=io.BufferedReader(unpacked), mode="r|") as archive:
            for member in archive:
                require_inside(path, member.name)
                if member.size > MAX_BYTES:
                    raise DataError(
                        f"{path}: {quote(member.name)} has {member.size:,} bytes, more than "
                        f"{MAX_BYTES:,}"
                    )
                file = archive.extractfile(member) if member.isreg() else None
                if file and Path(member.name).name in wanted:
                    contents[Path(member.name).name] = file.read()
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path} {error}") from error
    except Exception as error:  # damaged headers raise many types of errors
        raise DataError(f"{path} is damaged: {error}") from error
    missing = [name for name in wanted if name not in contents]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}")
    return contents


_ARCHIVE = RemoteFile(
    ("cifar-10-python.tar.gz",),
    ("", "cifar-10-batches-py", "cifar10", "cifar-10", "CIFAR10"),
    "md5:c58f30108f718f92721af3b95e74349a",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
)
_BATCHES = {
    name: RemoteFile(
        (name,),
        (
            "cifar-10-batches-py",
            "cifar10/cifar-10-batches-py",
            "cifar-10/cifar-10-batches-py",
            "CIFAR10/cifar-10-batches-py",
            "cifar10",
        ),
        f"md5:{md5}",
        homepage="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
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
