"""From image files of any size to one array of bytes."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import DataError
from .archives import Archive

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

GREY = {"1", "L", "LA", "La", "I;16", "I;16B", "I;16L"}
"""The modes of greyscale images."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Decoder:
    """How image files become arrays.

    Attributes:
        size: Height and width of the result.
        crop: The size of the square that is cut out of the middle first; at most, and by
            default, the shorter side.
        channels: 1 for greyscale, 3 for colour; by default colour if any of the files has it.
    """

    size: int
    crop: int | None = None
    channels: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1 or (self.crop is not None and self.crop < 1):
            raise ValueError(f"sizes are at least 1, but got size={self.size}, crop={self.crop}")
        if self.channels not in {None, 1, 3}:
            raise ValueError(f"channels is 1, 3 or None, but got {self.channels}")

    def read(self, archive: Archive, names: Sequence[str]) -> Tensor:
        """Read images.

        Args:
            archive: Where they are.
            names: Which, in which order.

        Returns:
            Bytes of shape `(N, C, size, size)`.

        Raises:
            DataError: If one of them is not a readable image, with its name.
        """
        result = torch.empty(
            len(names), self.channels or 3, self.size, self.size, dtype=torch.uint8
        )
        grey = True
        with ThreadPoolExecutor() as pool:
            for i, image in enumerate(pool.map(lambda name: self._one(archive, name), names)):
                result[i] = torch.from_numpy(image)
                grey = grey and len(image) == 1
        return result[:, :1].contiguous() if grey else result

    def _one(self, archive: Archive, name: str) -> Bytes:
        from PIL import Image, ImageOps

        content = archive.read(name)
        try:
            with Image.open(io.BytesIO(content)) as image:
                return self._squared(_eight_bits(ImageOps.exif_transpose(image)))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DataError(
                f"{archive.path}, {name}: not a readable image ({type(error).__name__}). "
                "Repair or delete it"
            ) from error

    def _squared(self, image: "Picture") -> Bytes:
        from PIL import Image

        grey = image.mode in GREY if self.channels is None else self.channels == 1
        image = image.convert("L" if grey else "RGB")
        side = min(*image.size, self.crop or max(image.size))
        left, top = round((image.width - side) / 2), round((image.height - side) / 2)
        image = image.crop((left, top, left + side, top + side))
        if side != self.size:
            image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        levels = np.array(image)
        return levels[None] if grey else levels.transpose(2, 0, 1)


def _eight_bits(image: "Picture") -> "Picture":
    """Return the image with its levels in a byte; Pillow would clip and not scale them."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        levels: npt.NDArray[Any] = np.asarray(image)
        return Image.fromarray((levels >> 8).astype(np.uint8))
    if image.mode in {"I", "F"}:
        raise ValueError(f"mode {image.mode}, 32 bits per pixel; save it with 8 or 16")
    return image
