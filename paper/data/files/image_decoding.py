"""Decode image files of any size into one array of bytes."""

import io
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fdsm.extras import name_missing_extra

from ..errors import DataError
from .archives import Archive

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

GRAY_MODES = {"1", "L", "LA", "La", "I;16", "I;16B", "I;16L"}
"""Pillow's modes of grayscale images."""

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's formats that are read, whatever the name of a file says. Pillow gives PostScript files
to another program, for example."""
MAX_PIXELS = 2**26
"""Largest number of pixels of an image: 8192 × 8192. Decoding it takes 0.8 GB."""
LARGE_PIXELS = 2**22
"""Images with more pixels are decoded by one thread, one at a time. The allocator keeps the memory
that a thread has freed for this thread, so several would take a multiple of it."""
PIXELS_PER_BYTE, MIN_TOTAL_PIXELS = 100, 2**28
"""Largest number of pixels of all images together: 100 for each byte of their files, and in any
case 268 million. Photographs have at most 20 pixels per byte."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ImageDecoder:
    """Decodes image files: crops the central square and resizes it.

    Attributes:
        size: Height and width of the result.
        crop: Size of the central square, at most the shorter side. Default: the shorter side.
        channels: 1 for grayscale, 3 for color. Default: color if any image has color.
    """

    size: int
    crop: int | None = None
    channels: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1 or (self.crop is not None and self.crop < 1):
            raise ValueError(
                f"size and crop must be at least 1, but are {self.size} and {self.crop}"
            )
        if self.channels not in {None, 1, 3}:
            raise ValueError(f"channels must be 1, 3 or None, but is {self.channels}")

    def read(self, archive: Archive, names: Sequence[str]) -> Tensor:
        """Read images.

        Args:
            archive: Folder or zip file of the images.
            names: Names of the images, in the order of the result.

        Returns:
            Bytes of shape `(N, C, size, size)`.

        Raises:
            DataError: If an image cannot be read. The error names it.
        """
        result = torch.empty(
            len(names), self.channels or 3, self.size, self.size, dtype=torch.uint8
        )
        gray, budget = True, _PixelBudget(archive)
        with ThreadPoolExecutor(1) as alone, ThreadPoolExecutor() as pool:
            decoded = pool.map(lambda name: self._decode(archive, name, budget, alone), names)
            try:
                for i, image in enumerate(decoded):
                    result[i] = torch.from_numpy(image)
                    gray = gray and len(image) == 1
            except DataError:
                pool.shutdown(cancel_futures=True)
                raise
        return result[:, :1].contiguous() if gray else result

    def _decode(
        self, archive: Archive, name: str, budget: "_PixelBudget", alone: Executor
    ) -> Bytes:
        with name_missing_extra("reading images"):
            from PIL import Image

        content = archive.read(name)
        try:
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                pixels = image.width * image.height
                budget.spend(name, pixels, len(content))
                if pixels > LARGE_PIXELS:
                    return alone.submit(self._decode_pixels, image).result()
                return self._decode_pixels(image)
        except DataError:
            raise
        except Exception as error:  # Pillow raises many types of errors for damaged files
            raise DataError(
                f"{archive.path}: {name} is not a readable image "
                f"({type(error).__name__}: {error}). Repair or delete it"
            ) from error

    def _decode_pixels(self, image: "Picture") -> Bytes:
        from PIL import ImageOps

        ImageOps.exif_transpose(image, in_place=True)
        decoded = self._crop_and_resize(_to_eight_bits(image))
        image.close()  # frees the pixels before the next image is decoded
        return decoded

    def _crop_and_resize(self, image: "Picture") -> Bytes:
        from PIL import Image

        gray = image.mode in GRAY_MODES if self.channels is None else self.channels == 1
        image = image.convert("L" if gray else "RGB")
        side = min(*image.size, self.crop or max(image.size))
        left, top = round((image.width - side) / 2), round((image.height - side) / 2)
        image = image.crop((left, top, left + side, top + side))
        if side != self.size:
            image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        levels = np.array(image)
        return levels[None] if gray else levels.transpose(2, 0, 1)


class _PixelBudget:
    """Counts pixels and bytes of the images of an archive, and refuses too many pixels."""

    def __init__(self, archive: Archive) -> None:
        self._path, self._pixels, self._bytes = archive.path, 0, 0
        self._counting = Lock()

    def spend(self, name: str, pixels: int, size: int) -> None:
        """Count an image, before it is decoded."""
        if pixels > MAX_PIXELS:
            raise DataError(
                f"{self._path}: {name} has {pixels:,} pixels, more than {MAX_PIXELS:,}. "
                "Make it smaller, or delete it"
            )
        with self._counting:
            self._pixels, self._bytes = self._pixels + pixels, self._bytes + size
            if self._pixels > max(MIN_TOTAL_PIXELS, PIXELS_PER_BYTE * self._bytes):
                raise DataError(
                    f"{self._path}: the images up to {name} have {self._pixels:,} pixels in "
                    f"{self._bytes:,} bytes. Make them smaller, or save them as JPEG"
                )


def _to_eight_bits(image: "Picture") -> "Picture":
    """Return the image with 8 bits per channel. Pillow would clip 16 bits instead of scaling."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        levels: npt.NDArray[Any] = np.asarray(image)
        return Image.fromarray((levels >> 8).astype(np.uint8))
    if image.mode in {"I", "F"}:
        raise ValueError(f"mode {image.mode} has 32 bits per pixel; save it with 8 or 16")
    return image
