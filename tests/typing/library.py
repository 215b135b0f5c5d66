"""Objectives, engines, operators and samplers in use. Read by type checkers and not run."""

from typing import assert_type

import torch
from torch import Generator, Tensor, nn
from torch.distributions import MultivariateNormal

import fdsm
from fdsm import (
    DSM,
    SM,
    SSM,
    SSMVR,
    Annealed,
    Autodiff,
    FiniteDifference,
    Gaussian,
    MultiscaleDSM,
    SlicedDSM,
    Sphere,
    Taylor,
)
from fdsm.evaluation import ModelCheck, exact_sm_loss, ood_auc
from fdsm.measurement import Measurement
from fdsm.models import QuadraticMLP
from fdsm.noise import Geometric
from fdsm.objectives import NCE, FlowMatching, GradientPenalty, MeanFlow, ScoreDSM, ViaScore
from fdsm.operators import directional_derivative, divergence, hessian_diagonal, laplacian
from fdsm.samplers import Chains, ais, annealed_langevin, hmc, langevin
from fdsm.training import Adam, GradientStep, IterationEvent, compiled_step, fit, objective_loss
from fdsm.typing import Derivative, LogDensity, Objective, Projection


class Network(nn.Module):
    """A model of a user."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density, shape `(B, D) -> (B,)`."""
        return -x.square().sum(1)


def log_density(x: Tensor, label: Tensor) -> Tensor:
    """Return a log-density given a label."""
    return -(x - label[:, None]).square().sum(1)


class Coordinates:
    """A projection of a user, which inherits from nothing."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return one direction per row."""
        return torch.randn(x.shape, generator=generator)

    def second_moment(self, x: Tensor) -> float:
        """Return the expected squared length."""
        return float(x[0].numel())


def use_objectives(x: Tensor, label: Tensor, generator: Generator) -> Tensor:
    """Evaluate objectives with models of each kind."""
    objectives: list[Objective] = [
        SSM(),
        SSM(Taylor(), directions=4),
        SSM(FiniteDifference(), Sphere(0.1)),
        SSM(Autodiff(), Coordinates()),
        SlicedDSM(0.3, FiniteDifference()),
        MultiscaleDSM(DSM(0.1)),
        SM(Taylor(fallback=Autodiff())),
        ViaScore(SSMVR()),
        NCE(),
        GradientPenalty(),
    ]
    scores: list[Objective] = [ScoreDSM(0.3), SSMVR(), Annealed(SSMVR(), Geometric(1, 0.01, 10))]
    scores += [FlowMatching(), MeanFlow(FiniteDifference(), p=1.0)]
    loss = sum((f(Network(), x, generator=generator).mean() for f in objectives), x.new_zeros(()))
    loss += scores[0](lambda x: -x, x).mean() + SSM()(log_density, x, label).mean()
    assert_type(SSM()(Network(), x), Tensor)
    assert_type(DSM(0.1)(QuadraticMLP(3), x), Tensor)
    loss.backward()
    return loss


def use_protocols(x: Tensor, v: Tensor) -> None:
    """Pass objects where protocols are expected."""
    engines: list[Derivative] = [Taylor(), FiniteDifference(), Autodiff()]
    projections: list[Projection] = [Sphere(), Gaussian(), Coordinates()]
    normal: LogDensity = MultivariateNormal(torch.zeros(2), torch.eye(2))
    densities: list[LogDensity] = [Network(), lambda x: x.sum(1), log_density, normal]
    assert_type(engines[0].jet(densities[0], x, v, 2), tuple[Tensor, ...])
    assert_type(projections[0].sample(x), Tensor)


def use_operators(x: Tensor, v: Tensor) -> None:
    """Differentiate functions and modules."""
    assert_type(laplacian(Network(), x), Tensor)
    assert_type(fdsm.biharmonic(lambda x: x.pow(4).sum(1), x), Tensor)
    assert_type(hessian_diagonal(Network(), x, derivative=Autodiff()), Tensor)
    assert_type(divergence(lambda x: x.pow(3), x), Tensor)
    assert_type(directional_derivative(Network(), x, v, order=5), Tensor)


def use_samplers(x: Tensor, generator: Generator) -> None:
    """Draw samples and estimate a normalizing constant."""
    chains = hmc(Network(), x, steps=10, generator=generator)
    assert_type(chains, Chains)
    assert_type(chains.samples, Tensor)
    assert_type(langevin(lambda x: -x, x, 5, 0.1, generator=generator), Tensor)
    assert_type(annealed_langevin(lambda x, sigma: -x, x, (1.0, 0.1)), Tensor)
    assert_type(ais(Network(), Network(), x).log_weights, Tensor)


def use_evaluation(x: Tensor) -> float:
    """Measure a model."""
    assert_type(fdsm.check(SSM(), Network(), x), ModelCheck)
    assert_type(ood_auc(Network(), train=x, test_in=x, test_out=x + 3), Measurement)
    return exact_sm_loss(Network(), x).value


def use_training(x: Tensor, generator: Generator) -> None:
    """Train with the loop of the library, and with a compiled step."""
    model = QuadraticMLP(3, widths=(8, 8))
    step = GradientStep(objective_loss(SSM(), model), model, Adam(1e-3), iterations=4)
    event = fit(step, lambda i, generator: x, 4, generator=generator)
    assert_type(event, IterationEvent | None)
    compiled = compiled_step(SSM(), model, torch.optim.Adam(model.parameters()))
    assert_type(compiled(x)["loss"], Tensor)
