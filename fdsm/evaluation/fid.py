r"""Fréchet distance between images, by the features of a network.

$$‖μ_1 - μ_2‖² + \mathrm{tr}\left(Σ_1 + Σ_2 - 2 (Σ_1 Σ_2)^{1/2}\right)$$

The features decide the number: distances by different features cannot be compared, and only
those of the Inception network of 2015 (`inception_features`) are "the FID". Nor can those of
different sample sizes, as the distance is biased upwards by about $1/N$. So all of this is in
the settings of a measurement.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .measurement import Measurement


class Features(Protocol):
    """What images look like to a network: any callable with a name."""

    @property
    def name(self) -> str:
        """The name by which the features go on record."""
        ...

    def __call__(self, images: Tensor, /) -> Tensor:
        """Return the features of images with values from 0 to 1, `(B, C, H, W) -> (B, F)`."""
        ...


@dataclass(frozen=True)
class Pixels:
    """The images themselves as features, for small images and want of a network."""

    name: str = "pixels"

    def __call__(self, images: Tensor, /) -> Tensor:
        """Return the pixels in a row, `(B, C, H, W) -> (B, C · H · W)`."""
        return images.flatten(1)


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of features, all that the distance depends on.

    Attributes:
        count: Of how many images.
        mean: Shape `(F,)`.
        covariance: Shape `(F, F)`, with the divisor `count - 1`.
    """

    count: int
    mean: Tensor
    covariance: Tensor


def fid(
    features: Features,
    real: Tensor | Moments,
    fake: Tensor,
    *,
    batch: int = 256,
    levels: int | None = 256,
) -> Measurement:
    """Return the Fréchet distance between real and generated images.

    Args:
        features: What to compare.
        real: Images, shape `(N, C, H, W)`, uint8 or from 0 to 1; or their `feature_moments`.
        fake: Generated images, shape `(M, C, H, W)`; clipped to the range from 0 to 1.
        batch: How many images at a time.
        levels: To how many levels both are rounded, 256 as if stored in a file; `None` leaves
            them as they are.

    Returns:
        The distance; it has no standard error.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> images = torch.rand(2000, 1, 2, 2, generator=g) / 2
        >>> print(fid(Pixels(), images, images + 0.5, levels=None))
        1
    """
    if not isinstance(real, Moments):
        real = feature_moments(features, real, batch=batch, levels=levels)
    other = feature_moments(features, _clipped(fake), batch=batch, levels=levels)
    return Measurement(
        frechet_distance(real.mean, real.covariance, other.mean, other.covariance),
        settings={
            "features": features.name,
            "dimension": len(real.mean),
            "real": real.count,
            "fake": other.count,
            "levels": levels,
        },
    )


def feature_moments(
    features: Features, images: Tensor, *, batch: int = 256, levels: int | None = 256
) -> Moments:
    """Return mean and covariance of the features of images, in float64, a batch at a time.

    Args:
        features: What to look at.
        images: Shape `(N, C, H, W)`, uint8 or from 0 to 1.
        batch: How many at a time, which bounds the memory.
        levels: To how many levels they are rounded, if at all.

    Returns:
        The moments.

    Raises:
        ValueError: If there are fewer than two images, or their values or features are no good.
    """
    if images.ndim != 4 or len(images) < 2:
        raise ValueError(
            f"expected two or more images of shape (N, C, H, W), but got {tuple(images.shape)}"
        )
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for part in torch.split(images, batch):
        with torch.no_grad():
            z = features(_rounded(unit_range(part), levels)).double()
        if z.ndim != 2 or len(z) != len(part) or not z.isfinite().all():
            raise ValueError(
                f"the features {features.name!r} of {len(part)} images must be finite and of "
                f"shape ({len(part)}, F), but have shape {tuple(z.shape)}"
            )
        total, centre = count + len(z), z.mean(0)
        shift = centre - mean.to(z)
        scatter = scatter.to(z) + (z - centre).T @ (z - centre)
        scatter = scatter + torch.outer(shift, shift) * (count * len(z) / total)
        count, mean = total, mean.to(z) + shift * (len(z) / total)
    return Moments(count, mean, scatter / (count - 1))


def frechet_distance(mean1: Tensor, cov1: Tensor, mean2: Tensor, cov2: Tensor) -> float:
    r"""Return the squared Fréchet (2-Wasserstein) distance between two Gaussians.

    With $Σ_i = A_i A_i^T$ the trace of $(Σ_1 Σ_2)^{1/2}$ is the sum of the singular values of
    $A_1^T A_2$, which needs no root of a matrix that is not symmetric and is safe for singular
    covariances.

    Reference:
        Dowson and Landau (1982), The Fréchet distance between multivariate normal distributions.

    Args:
        mean1: The mean of the first, shape `(F,)`.
        cov1: Its covariance, shape `(F, F)`.
        mean2: The mean of the second.
        cov2: Its covariance.

    Returns:
        The distance, not negative.

    Example:
        >>> one = torch.eye(3)
        >>> round(frechet_distance(torch.zeros(3), one, torch.ones(3), 4 * one), 6)
        6.0
    """
    shift = (mean1.double() - mean2.double()).square().sum()
    cross = torch.linalg.svdvals(_root(cov1).T @ _root(cov2)).sum()
    traces = cov1.double().trace() + cov2.double().trace()
    return max(0.0, float(shift + traces - 2 * cross))


def unit_range(images: Tensor) -> Tensor:
    """Return images as floating-point numbers from 0 to 1.

    Args:
        images: Either uint8, from 0 to 255, or already from 0 to 1.

    Returns:
        The images; floating-point ones are returned as they are.

    Raises:
        ValueError: If they are not from 0 to 1.
    """
    if images.dtype == torch.uint8:
        return images.float() / 255
    if not (images.is_floating_point() and images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"images must be uint8, or floats from 0 to 1, but are {images.dtype} from "
            f"{images.min().item():.4g} to {images.max().item():.4g}: bring them to the space of "
            "the data first, with the inverse of the transform"
        )
    return images


def _root(covariance: Tensor) -> Tensor:
    """Return $A$ with $A A^T = Σ$."""
    values, vectors = torch.linalg.eigh(covariance.double())
    root: Tensor = vectors * values.clamp(min=0).sqrt()
    return root


def _clipped(images: Tensor) -> Tensor:
    return images.clamp(0, 1) if images.is_floating_point() else images


def _rounded(images: Tensor, levels: int | None) -> Tensor:
    return images if levels is None else (images * (levels - 1)).round() / (levels - 1)
