"""All evaluation functions accept distributions, and refuse numpy arrays and meta tensors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, MultivariateNormal, Normal

from fdsm.derivatives import FiniteDifference, score_of
from fdsm.evaluation import (
    Pixels,
    auc,
    check,
    check_consistency,
    exact_sm_loss,
    exact_sm_loss_of_score,
    fid,
    fisher_divergence,
    fit_gaussian,
    fit_gaussian_mixture,
    flow_of_velocity,
    log_densities,
    log_likelihood,
    mean_of,
    median_of,
    nll,
    ood_auc,
    ood_scores,
    relative_fisher_divergence,
    typicality,
)
from fdsm.objectives import SSM


class Model(nn.Module):
    """A log-density with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return -self.a.to(x.device) * x.square().sum(1) / 2


FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "auc": lambda x: auc(x[:, 0], x[:, 1]),
    "check": lambda x: check(SSM(FiniteDifference()), Model(), x),
    "check_consistency": lambda x: check_consistency(SSM(FiniteDifference()), Model(), x),
    "exact_sm_loss": lambda x: exact_sm_loss(Model(), x),
    "fid": lambda x: fid(Pixels(), x.reshape(-1, 1, 1, 2), x.reshape(-1, 1, 1, 2)),
    "exact_sm_loss_of_score": lambda x: exact_sm_loss_of_score(lambda x: -x, x),
    "fisher_divergence": lambda x: fisher_divergence(lambda x: -x, lambda x: -x, x),
    "fit_gaussian": fit_gaussian,
    "fit_gaussian_mixture": fit_gaussian_mixture,
    "log_densities": lambda x: log_densities(Model(), x),
    "log_likelihood": lambda x: log_likelihood(
        flow_of_velocity(lambda x, t: x, Independent(Normal(torch.zeros(2), 1.0), 1)), x
    ),
    "mean_of": lambda x: mean_of(x[:, 0]),
    "median_of": lambda x: median_of(x[:, 0]),
    "nll": lambda x: nll(Model(), x, log_partition=0.0),
    "ood_auc": lambda x: ood_auc(Model(), x, x, x),
    "ood_scores": lambda x: ood_scores(Model(), x, x),
    "relative_fisher_divergence": lambda x: relative_fisher_divergence(
        lambda x: -x, lambda x: -x, x
    ),
    "typicality": lambda x: typicality(x[:, 0], x[:, 1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_arrays_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"got numpy.ndarray: use torch.from_numpy\(x\)"):
        FUNCTIONS[name](np.ones((50, 2)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_meta_tensors_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="meta device, where tensors have a shape but no values"):
        FUNCTIONS[name](torch.ones(50, 2, device="meta"))


COVARIANCE = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double()


def test_likelihood_and_loss_of_a_multivariate_normal() -> None:
    density, precision = MultivariateNormal(torch.zeros(2), COVARIANCE), COVARIANCE.inverse()
    x = density.sample((5000,))
    entropy = 1 + math.log(2 * math.pi) + torch.logdet(COVARIANCE).item() / 2
    for measured, expected in (
        (nll(density, x), entropy),
        (exact_sm_loss(density, x), -precision.trace().item() / 2),
        (fisher_divergence(score_of(density), lambda x: -x @ precision, x), 0.0),
    ):
        assert measured.error is not None
        assert abs(measured.value - expected) <= 5 * measured.error + 1e-12


def test_typicality_with_a_distribution() -> None:
    density = Independent(Normal(torch.zeros(20), 1.0), 1)
    train, test, other = torch.randn(3, 500, 20)
    by_function = ood_auc(density.log_prob, train, test, 3 * other)
    assert ood_auc(density, train, test, 3 * other) == by_function
    assert by_function.value > 0.99


def test_distributions_with_a_batch_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Independent\(dist, 1\)"):
        nll(Normal(torch.zeros(2), 1.0), torch.zeros(3, 2))
