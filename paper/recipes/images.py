"""The recipe for a folder or an array of images, if the user names none."""

from dataclasses import replace

from fdsm.noise import Geometric, LogNormal
from fdsm.objectives import AnnealedDSM, ViaScore
from fdsm.training import Adam, CosineSchedule

from ..data import Affine, Chain, Dataset, Pad, Source
from .networks import DensityUNet
from .noise_conditional import NoiseConditionalEBM
from .recipe import TrainingPlan

LEVELS = Geometric(20.0, 0.1, 10)
"""Noise levels of the sampler, for images of unit variance."""
TRAINING_LEVELS = LogNormal(2.0, 1.0)
"""Noise levels in training. Between 1 and 5 the model decides what an image shows."""
STATISTICS_ROWS = 1000
"""Number of images that give mean and variance."""


def image_recipe(source: Source, data: Dataset) -> NoiseConditionalEBM:
    """Return an energy-based model for images, trained by denoising score matching.

    Args:
        source: The source of the images.
        data: The images. Their number determines the length of the training, and their values
            the scale.

    Returns:
        The recipe. Its transform adds a black border if the network needs larger images, and
        scales all values to zero mean and unit variance.

    Raises:
        ValueError: If the data are not images.
    """
    if data.train.ndim != 4:
        raise ValueError("there is no default recipe for data that are not images: give --recipe")
    rows = len(data.train)
    iterations = 1000 if rows < 1000 else 4000
    size = padded_size(data)
    border = () if size is None else (Pad(size),)
    x = data.transform.deterministic(data.train[:STATISTICS_ROWS])
    mean, std = x.mean().item(), max(x.std().item(), 0.01)
    scaled = Affine(round(1 / std, 3), round(-mean / std, 3))
    transform = Chain((*border, source.transform, scaled))
    return NoiseConditionalEBM(
        "images",
        ViaScore(AnnealedDSM(TRAINING_LEVELS)),
        replace(source, transform=transform),  # type: ignore[type-var]
        DensityUNet(24),
        LEVELS,
        Adam(1e-3, (0.9, 0.99), clip=1.0, schedule=CosineSchedule()),
        TrainingPlan(
            iterations,
            num_samples=100,
            batch=min(64, rows),
            validate_every=iterations // 40,
            checkpoint_every=iterations // 8,
            ema_decay=0.995,
            patience=iterations // 4,
        ),
        validation_rows=100,
    )


def padded_size(data: Dataset) -> int | None:
    """Return the height and width of images with a border, or `None` if they need none.

    The network needs a height and a width that are multiples of four. Images with a border are
    squares.

    Args:
        data: The images.
    """
    *_, height, width = data.train.shape
    if height % 4 == width % 4 == 0:
        return None
    return -(-max(height, width) // 4) * 4
