"""Writing samples: an array or a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fdsm.atomic_io import replace_file
from fdsm.extras import name_missing_extra

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_WIDTH = 320
"""Minimum width of a picture in pixels. Smaller ones are enlarged."""


def save_samples(folder: Path, samples: Tensor, max_value: float) -> list[Path]:
    """Write samples into a folder: `samples.npy`, and images also as `samples.png`.

    Args:
        folder: The folder. It is created if it does not exist.
        samples: Samples in the space of the data, shape `(N, *E)`.
        max_value: Value that is shown as white.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    suffixes = [".npy", ".png"] if samples.ndim == 4 else [".npy"]
    return [save_sample_file(folder / f"samples{s}", samples, max_value) for s in suffixes]


def save_sample_file(path: Path, samples: Tensor, max_value: float) -> Path:
    """Write samples into a `.npy` file, or images into a `.png` file.

    Args:
        path: The file.
        samples: Samples in the space of the data, shape `(N, *E)`.
        max_value: Value that is shown as white.

    Returns:
        The file.

    Raises:
        ValueError: If the samples cannot be written in that format.
    """
    writers: dict[str, Callable[[Path], None]] = {
        ".npy": lambda draft: _write_array(draft, samples)
    }
    if samples.ndim == 4:
        writers[".png"] = lambda draft: grid(samples.double() / max_value).save(draft, "PNG")
    if path.suffix not in writers:
        raise ValueError(
            f"{path}: these samples can be written as {' or '.join(writers)}, not {path.suffix!r}"
        )
    with replace_file(path) as draft:
        writers[path.suffix](draft)
    return path


def _write_array(draft: Path, samples: Tensor) -> None:
    with draft.open("wb") as file:
        np.save(file, samples.numpy())


def grid(images: Tensor) -> "Image":
    """Return images as one picture, in a grid that is about square.

    Args:
        images: Values from zero to one, shape `(N, C, H, W)`. Values outside are clipped. With
            three channels they are colors; otherwise the first channel is shown.

    Returns:
        The picture, enlarged by a whole factor if it is small.

    Example:
        >>> grid(torch.rand(5, 1, 8, 8)).size  # three across, two down, a pixel between
        (336, 228)
    """
    with name_missing_extra("writing images"):
        from PIL.Image import Resampling, fromarray

    across = int(np.ceil(np.sqrt(len(images))))
    down = -(-len(images) // across)
    if images.shape[1] != 3:
        images = images[:, :1]
    tiles = pad(images.clamp(0, 1), (1, 0, 1, 0), value=0.5)
    missing = across * down - len(tiles)
    tiles = torch.cat([tiles, tiles.new_full((missing, *tiles.shape[1:]), 0.5)])
    rows = (
        tiles
        .view(down, across, *tiles.shape[1:])
        .permute(2, 0, 3, 1, 4)
        .flatten(1, 2)
        .flatten(2, 3)
    )
    whole = pad(rows, (0, 1, 0, 1), value=0.5)
    pixels = (255 * whole).round().byte().permute(1, 2, 0).numpy()
    picture = fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    factor = -(-MIN_WIDTH // picture.width)
    return picture.resize((factor * picture.width, factor * picture.height), Resampling.NEAREST)
