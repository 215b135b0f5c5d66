"""The format of MNIST: a magic number, the sizes of the dimensions, the bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError

BYTES = 0x08
"""The code of the only type of number that is read."""

LIMIT = 2**30
"""More bytes than this are refused, whatever the header says: MNIST has 47 million."""


def read_idx(path: Path, event: tuple[int, ...]) -> Tensor:
    """Read an idx file of bytes, compressed by gzip or not.

    Args:
        path: The file.
        event: The shape that each row must have.

    Returns:
        The rows, shape `(N, *event)`, uint8.

    Raises:
        DataError: If the file is not what it should be.
    """
    try:
        with _opened(path) as file:
            n = _rows(path, file, event)
            expected = n * math.prod(event)
            body = file.read(expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if len(body) != expected:
        found = f"only {len(body):,}" if len(body) < expected else "more"
        raise DataError(f"{path} announces {expected:,} bytes of data but has {found}")
    return torch.from_numpy(np.frombuffer(body, np.uint8).copy().reshape(n, *event))


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _rows(path: Path, file: BinaryIO, event: tuple[int, ...]) -> int:
    magic, wanted = file.read(4), bytes([0, 0, BYTES, 1 + len(event)])
    if magic != wanted:
        raise DataError(
            f"{path} is not the idx file it should be: it starts with {magic.hex()} "
            f"instead of {wanted.hex()}"
        )
    header = file.read(4 * (1 + len(event)))
    if len(header) < 4 * (1 + len(event)):
        raise DataError(f"{path} is damaged: it ends within its header")
    n, *sizes = struct.unpack(f">{1 + len(event)}I", header)
    if tuple(sizes) != event or n * math.prod(event) > LIMIT:
        raise DataError(f"{path} announces {n:,} rows of {tuple(sizes)} instead of {event}")
    return int(n)
