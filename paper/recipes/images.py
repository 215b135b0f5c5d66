"""The recipe for a folder or an array of images, if the user names none."""

from dataclasses import replace

from fdsm.noise import Geometric
from fdsm.objectives import AnnealedDSM, ViaScore

from ..data import Affine, Chain, Dataset, Pad, Source
from .noise_conditional import NoiseConditionalEBM
from .recipe import TrainingPlan

LEVELS = Geometric(3.0, 0.1, 20)
"""Noise levels of images with values from -1 to 1."""


def image_recipe(source: Source, data: Dataset) -> NoiseConditionalEBM:
    """Return an energy-based model for images, trained by denoising score matching.

    Args:
        source: The source of the images.
        data: The images. Their number determines the length of the training.

    Returns:
        The recipe. Its transform adds a black border if the network needs larger images, and
        scales values from -1 to 1.

    Raises:
        ValueError: If the data are not images.
    """
    if data.train.ndim != 4:
        raise ValueError("there is no default recipe for data that are not images: give --recipe")
    rows = len(data.train)
    iterations = 1000 if rows < 1000 else 2000 if rows < 100_000 else 4000
    size = padded_size(data)
    border = () if size is None else (Pad(size),)
    transform = Chain((*border, source.transform, Affine(2.0, -1.0)))
    return NoiseConditionalEBM(
        "images",
        ViaScore(AnnealedDSM(LEVELS)),
        replace(source, transform=transform),  # type: ignore[type-var]
        levels=LEVELS,
        plan=TrainingPlan(
            iterations,
            num_samples=100,
            batch=min(64, rows),
            validate_every=iterations // 40,
            checkpoint_every=iterations // 8,
            patience=iterations // 4,
        ),
        validation_rows=100,
    )


def padded_size(data: Dataset) -> int | None:
    """Return the height and width of images with a border, or `None` if they need none.

    The network needs squares whose size is a multiple of eight.

    Args:
        data: The images.
    """
    *_, height, width = data.train.shape
    size = -(-max(height, width) // 8) * 8
    return None if height == width == size else size
