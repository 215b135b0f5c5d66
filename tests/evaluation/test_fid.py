"""Fréchet distances compared with closed forms and torchmetrics."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from fdsm.evaluation import Pixels, feature_moments, fid, frechet_distance


def random_covariance(n: int, rank: int, generator: Generator) -> Tensor:
    root = torch.randn(n, rank, generator=generator)
    return root @ root.T


def test_commuting_covariances(generator: Generator) -> None:
    """With common axes the distance is ‖μ_1 - μ_2‖² + Σ (√a_i - √b_i)²."""
    a, b = torch.rand(2, 4, generator=generator)
    mean1, mean2 = torch.randn(2, 4, generator=generator)
    axes = torch.linalg.qr(torch.randn(4, 4, generator=generator)).Q
    expected = (mean1 - mean2).square().sum() + (a.sqrt() - b.sqrt()).square().sum()
    cov1, cov2 = (axes * a @ axes.T, axes * b @ axes.T)
    assert frechet_distance(mean1, cov1, mean2, cov2) == pytest.approx(expected.item())


def test_two_by_two_in_closed_form(generator: Generator) -> None:
    """For 2 × 2 matrices tr √M = √(tr M + 2√det M), commuting or not."""
    cov1, cov2 = (random_covariance(2, 2, generator) for _ in range(2))
    product = cov1 @ cov2
    assert (product - product.T).abs().max() > 0.1
    cross = math.sqrt(product.trace() + 2 * math.sqrt(product.det()))
    expected = (cov1.trace() + cov2.trace() - 2 * cross).item()
    zero = torch.zeros(2)
    assert frechet_distance(zero, cov1, zero, cov2) == pytest.approx(expected)
    assert frechet_distance(zero, cov2, zero, cov1) == pytest.approx(expected)


def test_singular_covariances_in_closed_form(generator: Generator) -> None:
    """For aaᵀ and bbᵀ the distance is ‖a‖² + ‖b‖² - 2|a·b|; it vanishes for a = b."""
    a, b = torch.randn(2, 6, generator=generator)
    zero, cov1, cov2 = torch.zeros(6), torch.outer(a, a), torch.outer(b, b)
    expected = (a @ a + b @ b - 2 * (a @ b).abs()).item()
    assert frechet_distance(zero, cov1, zero, cov2) == pytest.approx(expected)
    assert frechet_distance(zero, cov1, zero, cov1) == pytest.approx(0, abs=1e-7)


class Projection(nn.Module):
    """A fixed random layer; torchmetrics asks for the number of features."""

    name = "random projection"
    num_features = 5

    def __init__(self) -> None:
        super().__init__()
        draw = Generator().manual_seed(1)
        self.weight = nn.Parameter(torch.randn(12, 5, generator=draw), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images.double().flatten(1) @ self.weight).tanh()


def test_agrees_with_torchmetrics(generator: Generator) -> None:
    real, fake = torch.rand(2, 300, 3, 2, 2, generator=generator)
    fake = fake**2
    theirs = FrechetInceptionDistance(feature=Projection(), normalize=True).set_dtype(
        torch.float64
    )
    rounded = [(255 * images).round() / 255 for images in (real, fake)]
    for images, is_real in zip(rounded, (True, False), strict=True):
        theirs.update(images, real=is_real)
    expected = theirs.compute().item()
    measured = fid(Projection(), real, fake, batch=64)
    assert expected > 0.1
    assert measured.value == pytest.approx(expected, rel=1e-6)
    assert measured.error is None
    assert measured.settings == {
        "features": "random projection", "dimension": 5, "real": 300, "fake": 300, "levels": 256,
    }  # fmt: skip


def test_samples_of_gaussians_approach_the_closed_form(generator: Generator) -> None:
    n, d = 40_000, 4
    real = 0.5 + 0.05 * torch.randn(n, 1, 2, 2, generator=generator)
    fake = 0.6 + 0.10 * torch.randn(n, 1, 2, 2, generator=generator)
    exact = d * (0.1**2 + 0.05**2)
    measured = fid(Pixels(), real, fake, levels=None)
    assert measured.value == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_moments_in_batches_of_any_size(batch: int, generator: Generator) -> None:
    images = torch.rand(23, 1, 2, 2, generator=generator)
    moments = feature_moments(Pixels(), images, batch=batch, levels=None)
    assert moments.count == 23
    torch.testing.assert_close(moments.mean, images.flatten(1).mean(0))
    torch.testing.assert_close(moments.covariance, images.flatten(1).T.cov())


def test_moments_are_accurate_for_a_large_mean() -> None:
    """Sums of squares would lose a spread of 1e-6 around one; merged deviations do not."""
    images = 1 - 1e-6 * torch.rand(1000, 1, 2, 2)
    moments = feature_moments(Pixels(), images, batch=10, levels=None)
    expected = (images - 1).flatten(1).T.cov()
    torch.testing.assert_close(moments.covariance, expected, rtol=1e-6, atol=1e-22)


def test_moments_can_replace_the_images(generator: Generator) -> None:
    real, fake = torch.rand(2, 50, 1, 2, 2, generator=generator)
    stored = feature_moments(Pixels(), real)
    assert fid(Pixels(), stored, fake) == fid(Pixels(), real, fake)


def test_samples_are_clipped_and_rounded_to_levels(generator: Generator) -> None:
    stored = torch.randint(256, (64, 1, 2, 2), generator=generator).to(torch.uint8)
    exact = stored / 255
    assert fid(Pixels(), stored, exact).value == pytest.approx(0, abs=1e-8)
    jitter = (torch.rand(exact.shape, generator=generator) - 0.5) * 0.9 / 255
    assert fid(Pixels(), stored, exact + jitter).value == pytest.approx(0, abs=1e-8)
    assert fid(Pixels(), stored, exact + jitter, levels=None).value > 1e-7
    wild = exact + 9 * (exact == 1) - 9 * (exact == 0)
    assert fid(Pixels(), stored, wild).value == pytest.approx(0, abs=1e-8)


def test_invalid_images_and_features_are_refused() -> None:
    class Flat:
        name = "flat"

        def __call__(self, images: Tensor, /) -> Tensor:
            return images.sum((1, 2, 3))

    images = torch.rand(5, 1, 2, 2)
    with pytest.raises(ValueError, match=r"floats from 0 to 1, but are .* from -1 to 1"):
        fid(Pixels(), 2 * images.round() - 1, images)
    with pytest.raises(ValueError, match="two or more images"):
        fid(Pixels(), images[:1], images)
    with pytest.raises(ValueError, match="features 'flat'"):
        fid(Flat(), images, images)
    with pytest.raises(ValueError, match=r"shape \(N, C, H, W\)"):
        feature_moments(Pixels(), images[:, 0])
