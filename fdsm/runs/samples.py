"""Samples as a picture and as arrays."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from ..atomic_io import replace_file

SMALLEST = 320
"""How wide a picture is at least, in pixels; small images are enlarged."""


def save_samples(folder: Path, samples: Tensor, largest: float) -> list[Path]:
    """Write samples as `samples.npy`, and those that are images as `samples.png` too.

    Args:
        folder: Where to.
        samples: In the space of the data, shape `(N, *E)`.
        largest: The value of white.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "samples.npy"]
    with replace_file(files[0]) as draft, draft.open("wb") as file:
        np.save(file, samples.numpy())
    if samples.ndim == 4:
        files.append(folder / "samples.png")
        picture = grid(samples.double() / largest)
        with replace_file(files[1]) as draft:
            picture.save(draft, format="PNG")
    return files


def grid(images: Tensor) -> Image.Image:
    """Return images side by side, about as many across as down.

    Args:
        images: Values from zero to one, shape `(N, C, H, W)`; what is outside is clipped. Three
            channels are colours, of any other number the first is shown.

    Returns:
        The picture, enlarged by a whole factor if it is small.

    Example:
        >>> grid(torch.rand(5, 1, 8, 8)).size  # three across, two down, a pixel between
        (336, 228)
    """
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
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    factor = -(-SMALLEST // picture.width)
    return picture.resize(
        (factor * picture.width, factor * picture.height), Image.Resampling.NEAREST
    )
