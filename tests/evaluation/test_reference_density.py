"""Fitted Gaussians and mixtures compared with closed forms."""

import math

import pytest
import torch
from sklearn.covariance import ledoit_wolf
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

from fdsm.derivatives import score_of
from fdsm.evaluation import exact_sm_loss, exact_sm_loss_of_score, nll, sm_losses
from fdsm.evaluation.reference_density import (
    FittedDensity,
    fit_gaussian,
    fit_gaussian_mixture,
    shrunk_covariance,
)


def correlated(n: int, generator: Generator) -> Tensor:
    root = torch.tensor([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.7, 0.2]])
    return torch.tensor([1.0, -2.0, 0.5]) + torch.randn(n, 3, generator=generator) @ root.T


def two_modes(n: int, generator: Generator) -> Tensor:
    modes = 6.0 * (torch.rand(n, 1, generator=generator) < 0.3)
    return modes + torch.randn(n, 2, generator=generator) * torch.tensor([1.0, 0.5])


def densities(generator: Generator) -> list[FittedDensity]:
    mixture = fit_gaussian_mixture(two_modes(500, generator), 3, generator=generator)
    assert mixture is not None
    return [fit_gaussian(two_modes(500, generator)), mixture]


def test_gaussian_agrees_with_torch(generator: Generator) -> None:
    x = correlated(1000, generator)
    gaussian = fit_gaussian(x)
    expected = MultivariateNormal(gaussian.means[0], gaussian.covariances[0])
    torch.testing.assert_close(gaussian(x), expected.log_prob(x))
    torch.testing.assert_close(gaussian.means[0], x.mean(0))
    torch.testing.assert_close(gaussian.covariances[0], x.T.cov(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rows", [5, 20, 1000])
def test_shrinkage_is_that_of_scikit_learn(rows: int, generator: Generator) -> None:
    x = torch.randn(rows, 10, generator=generator) * torch.linspace(0.1, 3, 10)
    centered = x - x.mean(0)
    expected, _ = ledoit_wolf(centered.numpy(), assume_centered=True)
    torch.testing.assert_close(shrunk_covariance(centered), torch.from_numpy(expected))


@pytest.mark.parametrize("kind", ["dependent columns", "constant column", "two rows"])
def test_covariance_is_never_singular(kind: str, generator: Generator) -> None:
    x = torch.randn(2 if kind == "two rows" else 500, 3, generator=generator)
    if kind == "dependent columns":
        x[:, 2] = x[:, 0] - x[:, 1]
    if kind == "constant column":
        x[:, 2] = 4.0
    gaussian = fit_gaussian(x)
    assert gaussian(x).isfinite().all()
    assert torch.linalg.eigvalsh(gaussian.covariances).min() > 1e-7


def test_both_are_normalized(generator: Generator) -> None:
    axes = torch.linspace(-20, 25, 600), torch.linspace(-20, 25, 600)
    cell = (45 / 599) ** 2
    for density in densities(generator):
        total = density(torch.cartesian_prod(*axes)).exp().sum() * cell
        assert total.item() == pytest.approx(1.0, abs=1e-4)


def test_score_is_the_gradient(generator: Generator) -> None:
    x = two_modes(50, generator)
    for density in densities(generator):
        torch.testing.assert_close(density.score(x), score_of(density)(x))


def test_closed_form_losses_agree_with_exact_ones(generator: Generator) -> None:
    x = two_modes(50, generator)
    for density in densities(generator):
        torch.testing.assert_close(density.sm_losses(x), sm_losses(density, x))
        mean = density.sm_losses(x).mean().item()
        assert mean == pytest.approx(exact_sm_loss(density, x).value)
        assert mean == pytest.approx(exact_sm_loss_of_score(density.score, x).value)


def test_mean_loss_of_a_gaussian_in_closed_form(generator: Generator) -> None:
    """With data covariance S and precision P the loss is -tr P + tr(P S P) / 2."""
    x = correlated(2000, generator)
    gaussian = fit_gaussian(x)
    precision = torch.linalg.inv(gaussian.covariances[0])
    sample = (x - x.mean(0)).T @ (x - x.mean(0)) / len(x)
    expected = -precision.trace() + (precision @ sample @ precision).trace() / 2
    torch.testing.assert_close(gaussian.sm_losses(x).mean(), expected)


def test_likelihood_of_a_standard_normal(generator: Generator) -> None:
    train, test = torch.randn(2, 5000, 4, generator=generator)
    measured = nll(fit_gaussian(train), test)
    entropy = 2 * (1 + math.log(2 * math.pi))
    assert measured.error is not None
    assert abs(measured.value - entropy) < 5 * measured.error


def test_noise_is_added_to_the_covariance(generator: Generator) -> None:
    x = two_modes(500, generator)
    gaussian, noisy = fit_gaussian(x), fit_gaussian(x, noise=0.5)
    torch.testing.assert_close(noisy.covariances, gaussian.covariances + 0.25 * torch.eye(2))
    mixtures = [
        fit_gaussian_mixture(x, 2, noise=noise, generator=Generator().manual_seed(0))
        for noise in (0.0, 0.5)
    ]
    clean, blurred = (m.covariances for m in mixtures if m is not None)
    torch.testing.assert_close(blurred, clean + 0.25 * torch.eye(2))


def test_number_of_components_is_chosen_by_bic(generator: Generator) -> None:
    mixture = fit_gaussian_mixture(two_modes(1000, generator), generator=generator)
    assert mixture is not None
    assert mixture.weights.sort().values.tolist() == pytest.approx([0.3, 0.7], abs=0.05)
    test = two_modes(1000, generator)
    assert mixture(test).mean() > fit_gaussian(test)(test).mean() + 0.3
    single = fit_gaussian_mixture(correlated(1000, generator), generator=generator)
    assert single is not None
    assert len(single.weights) == 1


def test_the_generator_determines_the_mixture(generator: Generator) -> None:
    x = two_modes(200, generator)
    first, second = (
        fit_gaussian_mixture(x, 2, generator=Generator().manual_seed(3)) for _ in range(2)
    )
    assert first is not None
    assert second is not None
    assert torch.equal(first(x), second(x))


def test_there_is_no_mixture_without_enough_rows(generator: Generator) -> None:
    assert fit_gaussian_mixture(torch.randn(39, 2, generator=generator)) is None
    assert fit_gaussian_mixture(torch.randn(40, 2, generator=generator)) is not None
    assert fit_gaussian_mixture(torch.randn(40, 2, generator=generator), 3) is None


def test_images_are_flattened(generator: Generator) -> None:
    images = torch.randn(300, 1, 2, 2, generator=generator, dtype=torch.float32)
    gaussian = fit_gaussian(images)
    assert gaussian(images).shape == (300,)
    assert gaussian.score(images).shape == images.shape
    torch.testing.assert_close(gaussian(images), gaussian(images.flatten(1)))


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (torch.zeros(3, 2), {}, "all 3 rows are equal"),
        (torch.zeros(0, 2), {}, r"shape \(N, \*E\), but got \(0, 2\)"),
        (torch.zeros(3), {}, r"but got \(3,\)"),
        (torch.tensor([[1.0], [torch.nan]]), {}, "not finite in rows"),
        (torch.eye(2), {"noise": -1.0}, "noise must be finite and not negative"),
    ],
)
def test_invalid_arguments_are_refused(x: Tensor, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_gaussian(x, **options)
