"""Rows with gaps: the marginal score, and the moments of a Gaussian from what is observed."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from fdsm.derivatives import score_of
from fdsm.objectives import DSM, GaussianProposal, MissingDSM

from .mixture_cases import mean_and_error

SIGMA = 0.5
MEAN = torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64)
COVARIANCE = torch.tensor(
    [[1.0, 0.8, -0.3], [0.8, 1.5, 0.2], [-0.3, 0.2, 0.7]], dtype=torch.float64
)
NOISY = COVARIANCE + SIGMA**2 * torch.eye(3, dtype=torch.float64)
TRUTH = GaussianProposal(MEAN, NOISY)


def rows_with_gaps(n: int, share: float, generator: Generator) -> Tensor:
    """Return rows of the Gaussian with a share of cells that are missing at random."""
    x = MEAN + torch.randn(n, 3, generator=generator) @ torch.linalg.cholesky(COVARIANCE).T
    return x.masked_fill(torch.rand(n, 3, generator=generator) < share, torch.nan)


class GaussianModel(nn.Module):
    """A Gaussian given by its mean and the root of its precision, without its constant."""

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean.clone())
        self.root = nn.Parameter(torch.linalg.cholesky(covariance.inverse()).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        return -((x - self.mean) @ self.root).square().sum(1) / 2

    @property
    def covariance(self) -> Tensor:
        """The covariance without noise."""
        root = self.root.detach()
        return (root @ root.T).inverse() - SIGMA**2 * torch.eye(3)


def test_draws_have_the_conditional_distribution(generator: Generator) -> None:
    x, n = torch.tensor([[0.2, 9.0, 9.0]]), 100_000
    missing = torch.tensor([[False, True, True]])
    rows, log_q = TRUTH.fill(x, missing, torch.randn(n, 1, 3, generator=generator))
    mean = MEAN[1:] + NOISY[1:, 0] / NOISY[0, 0] * (0.2 - MEAN[0])
    covariance = NOISY[1:, 1:] - NOISY[1:, :1] @ NOISY[:1, 1:] / NOISY[0, 0]
    assert (rows[:, :, 0] == x[:, 0]).all()
    torch.testing.assert_close(rows[:, 0, 1:].mean(0), mean, rtol=0, atol=0.02)
    torch.testing.assert_close(rows[:, 0, 1:].T.cov(), covariance, rtol=0, atol=0.02)
    expected = MultivariateNormal(mean, covariance).log_prob(rows[:, 0, 1:])
    gap = log_q[:, 0] - expected
    torch.testing.assert_close(gap, gap[:1].expand(n))


def test_moments_of_observed_cells(generator: Generator) -> None:
    x = rows_with_gaps(50_000, 0.4, generator)
    proposal = GaussianProposal.fit(x, noise=SIGMA)
    torch.testing.assert_close(proposal.mean, MEAN, rtol=0, atol=0.03)
    torch.testing.assert_close(proposal.covariance, NOISY, rtol=0, atol=0.05)


def test_the_marginal_score_of_a_mixture(generator: Generator) -> None:
    """Many draws from a proposal that is not the model give the score of the known marginal."""
    weights, means = torch.tensor([0.3, 0.7]), torch.tensor([[-1.0, 0.5, 1.0], [1.0, 0.0, -1.0]])
    mixture = lambda columns: MixtureSameFamily(
        Categorical(weights),
        MultivariateNormal(means[:, columns], COVARIANCE[columns][:, columns].expand(2, -1, -1)),
    )
    x = torch.tensor([[0.5, torch.nan, -0.2], [torch.nan, torch.nan, 0.4], [0.3, 0.1, 0.2]])
    zero, u = torch.zeros(3, 3), torch.randn(40_000, 3, 3, generator=generator)
    wide = GaussianProposal(torch.zeros(3), 3 * torch.eye(3))
    losses = MissingDSM(SIGMA, wide).at(mixture([0, 1, 2]), x, zero, u)
    for loss, row in zip(losses, x, strict=True):
        observed = (~row.isnan()).nonzero().flatten().tolist()
        score = score_of(mixture(observed))(row[observed][None])
        assert loss.item() == pytest.approx(score.square().sum().item() / 3, rel=0.04)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_gradient_vanishes_at_the_truth_with_few_draws(share: float) -> None:
    generator, model = Generator().manual_seed(0), GaussianModel(MEAN, NOISY)
    gradients = []
    for _ in range(40):
        x = rows_with_gaps(2000, share, generator)
        loss = MissingDSM(SIGMA, TRUTH, draws=2)(model, x, generator=generator).mean()
        parts = torch.autograd.grad(loss, [model.mean, model.root])
        gradients.append(torch.cat([part.flatten() for part in parts]))
    mean, error = mean_and_error(torch.stack(gradients))
    assert (mean.abs() < 4 * error).all()


def minimize(loss: Callable[[], Tensor], model: GaussianModel) -> None:
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=60, line_search_fn="strong_wolfe", tolerance_change=1e-7
    )

    def closure() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value.item()

    optimizer.step(closure)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_moments_of_a_gaussian_are_recovered_and_mean_filling_is_biased(
    share: float, generator: Generator
) -> None:
    """Noise and its negative have no mean, which leaves the error of the data."""
    x = rows_with_gaps(10_000, share, generator)
    half = SIGMA * torch.randn(x.shape, generator=generator)
    rows, noise = torch.cat([x, x]), torch.cat([half, -half])
    u = torch.randn(16, *rows.shape, generator=generator)
    model = GaussianModel(torch.zeros(3), torch.eye(3))
    objective = MissingDSM(SIGMA, GaussianProposal.fit(x, noise=SIGMA))
    minimize(lambda: objective.at(model, rows, noise, u).mean(), model)
    torch.testing.assert_close(model.mean.detach(), MEAN, rtol=0, atol=0.05)
    torch.testing.assert_close(model.covariance, COVARIANCE, rtol=0, atol=0.06)

    filled = torch.where(rows.isnan(), x.nanmean(0), rows)
    biased = GaussianModel(torch.zeros(3), torch.eye(3))
    minimize(lambda: DSM(SIGMA).at(biased, filled, noise).mean(), biased)
    kept = (1 - share) * (1 - share + share * torch.eye(3))
    torch.testing.assert_close(biased.covariance, kept * COVARIANCE, rtol=0, atol=0.12)
    error, bias = ((m.covariance - COVARIANCE).abs().max() for m in (model, biased))
    assert error < bias / 4


def test_complete_rows_have_the_loss_of_denoising(generator: Generator) -> None:
    x, noise = torch.randn(2, 6, 3, generator=generator)
    model = GaussianModel(MEAN, NOISY)
    found = MissingDSM(SIGMA, TRUTH).at(model, x, noise, torch.randn(4, 6, 3))
    torch.testing.assert_close(found, DSM(SIGMA).at(model, x, noise))


def test_wrong_arguments_are_named() -> None:
    x = torch.ones(4, 3)
    x[1, 2] = torch.inf
    with pytest.raises(ValueError, match=r"data are not finite in rows \[1\] of 4"):
        MissingDSM(SIGMA, TRUTH)(GaussianModel(MEAN, NOISY), x)
    with pytest.raises(ValueError, match="the proposal has 3 columns, but the rows have 2 cells"):
        MissingDSM(SIGMA, TRUTH)(GaussianModel(MEAN, NOISY), torch.ones(4, 2))
    with pytest.raises(ValueError, match="at least one draw per estimate, but got 0"):
        MissingDSM(SIGMA, TRUTH, 0)
    with pytest.raises(TypeError, match="proposal must draw missing cells, such as Gaussian"):
        MissingDSM(SIGMA, torch.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"columns \[1\] are missing in all rows: leave them out"):
        GaussianProposal.fit(torch.tensor([[1.0, torch.nan], [2.0, torch.nan]]))
