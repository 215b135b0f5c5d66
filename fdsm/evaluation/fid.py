r"""Fréchet distance between sets of images, in the feature space of a network.

$$‖μ_1 - μ_2‖² + \mathrm{tr}\left(Σ_1 + Σ_2 - 2 (Σ_1 Σ_2)^{1/2}\right)$$

Distances with different features cannot be compared. Only those with the Inception network of 2015
are "FID". Distances with different numbers of images cannot be compared
either, because of a positive bias of about $1/N$. The settings of a measurement record both.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..tensors import require_values
from .measurement import Measurement


class Features(Protocol):
    """A feature extractor of images: a callable with a name."""

    @property
    def name(self) -> str:
        """Name of the features in the settings of a measurement."""
        ...

    def __call__(self, images: Tensor, /) -> Tensor:
        """Return the features of images with values from 0 to 1, `(B, C, H, W) -> (B, F)`."""
        ...


@dataclass(frozen=True)
class Pixels:
    """Pixels as features, for small images."""

    name: str = "pixels"

    def __call__(self, images: Tensor, /) -> Tensor:
        """Return the flattened images, `(B, C, H, W) -> (B, C · H · W)`."""
        return images.flatten(1)


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of features.

    Attributes:
        count: Number of images.
        mean: The mean, shape `(F,)`.
        covariance: The covariance with divisor `count - 1`, shape `(F, F)`.
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
        features: The feature extractor.
        real: Images, shape `(N, C, H, W)`, uint8 or from 0 to 1; or their `feature_moments`.
        fake: Generated images, shape `(M, C, H, W)`, clipped to the range from 0 to 1.
        batch: Number of images per batch.
        levels: Number of levels to which pixels are rounded, 256 as in an image file; None for no
            rounding.

    Returns:
        The distance, without a standard error.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> images = torch.rand(2000, 1, 2, 2, generator=g) / 2
        >>> print(fid(Pixels(), images, images + 0.5, levels=None))
        1
    """
    if not isinstance(real, Moments):
        real = feature_moments(features, real, batch=batch, levels=levels)
    require_values(fake)
    clipped = fake.clamp(0, 1) if fake.is_floating_point() else fake
    other = feature_moments(features, clipped, batch=batch, levels=levels)
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
    """Return mean and covariance of the features of images, in float64.

    Args:
        features: The feature extractor.
        images: Images, shape `(N, C, H, W)`, uint8 or from 0 to 1.
        batch: Number of images per batch.
        levels: Number of levels to which pixels are rounded; None for no rounding.

    Returns:
        The moments.

    Raises:
        ValueError: If there are fewer than two images, or values or features are not valid.
    """
    require_values(images)
    if images.ndim != 4 or len(images) < 2:
        raise ValueError(
            f"expected two or more images of shape (N, C, H, W), but got {tuple(images.shape)}"
        )
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for part in torch.split(images, batch):
        with torch.no_grad():
            z = features(_quantize(unit_range(part), levels)).double()
        if z.ndim != 2 or len(z) != len(part) or not z.isfinite().all():
            raise ValueError(
                f"the features {features.name!r} of {len(part)} images must be finite and of "
                f"shape ({len(part)}, F), but have shape {tuple(z.shape)}"
            )
        total, center = count + len(z), z.mean(0)
        shift = center - mean.to(z)
        scatter = scatter.to(z) + (z - center).T @ (z - center)
        scatter = scatter + torch.outer(shift, shift) * (count * len(z) / total)
        count, mean = total, mean.to(z) + shift * (len(z) / total)
    return Moments(count, mean, scatter / (count - 1))


def frechet_distance(mean1: Tensor, cov1: Tensor, mean2: Tensor, cov2: Tensor) -> float:
    r"""Return the squared Fréchet (2-Wasserstein) distance between two Gaussians.

    With $Σ_i = A_i A_i^T$ the trace of $(Σ_1 Σ_2)^{1/2}$ is the sum of the singular values of
    $A_1^T A_2$. This avoids the square root of a non-symmetric matrix and is stable for singular
    covariances.

    Reference:
        Dowson and Landau (1982), The Fréchet distance between multivariate normal distributions.

    Args:
        mean1: Mean of the first Gaussian, shape `(F,)`.
        cov1: Covariance of the first Gaussian, shape `(F, F)`.
        mean2: Mean of the second Gaussian.
        cov2: Covariance of the second Gaussian.

    Returns:
        The squared distance, at least zero.

    Example:
        >>> identity = torch.eye(3)
        >>> round(frechet_distance(torch.zeros(3), identity, torch.ones(3), 4 * identity), 6)
        6.0
    """
    shift = (mean1.double() - mean2.double()).square().sum()
    cross = torch.linalg.svdvals(_root(cov1).T @ _root(cov2)).sum()
    traces = cov1.double().trace() + cov2.double().trace()
    return max(0.0, float(shift + traces - 2 * cross))


def unit_range(images: Tensor) -> Tensor:
    """Return images as floating-point numbers from 0 to 1.

    Args:
        images: Images, uint8 from 0 to 255 or floating point from 0 to 1.

    Returns:
        The images. Floating-point images are returned unchanged.

    Raises:
        ValueError: If the values are out of range.
    """
    if images.dtype == torch.uint8:
        return images.float() / 255
    if not (images.is_floating_point() and images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"images must be uint8, or floats from 0 to 1, but are {images.dtype} from "
            f"{images.min().item():.4g} to {images.max().item():.4g}: apply the inverse of the "
            "data transform first"
        )
    return images


def _root(covariance: Tensor) -> Tensor:
    """Return $A$ with $A A^T = Σ$."""
    values, vectors = torch.linalg.eigh(covariance.double())
    root: Tensor = vectors * values.clamp(min=0).sqrt()
    return root


def _quantize(images: Tensor, levels: int | None) -> Tensor:
    return images if levels is None else (images * (levels - 1)).round() / (levels - 1)
