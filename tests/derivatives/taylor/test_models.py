"""All models of this library: the losses of every objective agree for Taylor and Autodiff."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import (
    DKEF,
    NICE,
    BernoulliDecoder,
    DecoderCNN,
    DecoderMLP,
    GaussianDecoder,
    GaussianTailMLP,
    ImplicitEncoder,
    MultiInputMLP,
    QuadraticMLP,
    QuadraticResNet,
    RefineNet,
    ShiftedSoftplus,
)
from fdsm.noise import Geometric
from fdsm.objectives import (
    SM,
    SSM,
    SSMVR,
    SUMO,
    Annealed,
    FisherInformation,
    GradientPenalty,
    MultiscaleDSM,
    SlicedDSM,
    ViaScore,
)
from fdsm.projections import Sphere
from fdsm.typing import Objective

from ...models.contract_cases import CASES, Case
from .loss_cases import assert_same_loss, loss_and_gradients

LEVELS = Geometric(1.0, 0.1, 3)
pytestmark = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_models_of_the_zoo(case: Case, generator: Generator) -> None:
    model = case.make()
    objective = case.loss(Autodiff(), 1.0)
    assert_same_loss(objective, case.function(model), model, *case.inputs(generator))


DENSITIES: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: QuadraticMLP((1, 4, 4), (8, 6), ShiftedSoftplus),
    "gaussian tail mlp": lambda: GaussianTailMLP((1, 4, 4), (8, 6)),
    "resnet": lambda: QuadraticResNet((1, 8, 8), width=2),
    "nice": lambda: NICE((1, 4, 4), hidden=6, depth=2),
}
OBJECTIVES: dict[str, Objective] = {
    "ssm, three directions": SSM(directions=3, projection=Sphere(1.0)),
    "sliced dsm": SlicedDSM(0.3),
    "multi-scale": MultiscaleDSM(SlicedDSM(0.3, directions=2)),
    "sm": SM(chunk=7),
    "gradient penalty": GradientPenalty(directions=2),
    "ssmvr of the gradient": ViaScore(SSMVR(projection=Sphere(1.0))),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", DENSITIES)
def test_objectives_of_densities(name: str, objective: str, generator: Generator) -> None:
    if name == "resnet" and objective == "sm":
        pytest.skip("Autodiff takes seconds")
    model = DENSITIES[name]()
    side = 8 if name == "resnet" else 4
    x = torch.randn(3, 1, side, side, generator=generator)
    assert_same_loss(OBJECTIVES[objective], model, model, x)


def test_a_kernel_family_that_is_finished(generator: Generator) -> None:
    x, v = torch.randn(2, 20, 3, generator=generator)
    model = DKEF(x[:5], features=4)
    model.finalize(model.equations(x, v))
    assert_same_loss(SSM(directions=2), model, model, x)


@pytest.mark.parametrize("relative", [True, False])
def test_annealed_scores(relative: bool, generator: Generator) -> None:
    model = RefineNet(1, width=4, levels=LEVELS.levels)
    x = torch.rand(3, 1, 8, 8, generator=generator)
    objective = Annealed(SSMVR(projection=Sphere(1.0)), LEVELS, relative)
    assert_same_loss(objective, model, model, x)


def test_bounds_of_latent_variable_models(generator: Generator) -> None:
    """Autodiff's gradients are NaN here, where samples are left out by weights of zero."""
    network = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))

    def log_weight(x: Tensor, noise: Tensor) -> Tensor:
        found: Tensor = network(torch.cat([x, noise], 1)) - (x[:, :2] - noise).square().sum(1)
        return found

    x = torch.randn(6, 3, generator=generator)
    found, expected = (
        loss_and_gradients(SUMO((2,), SSM(engine, Sphere(0.03))), log_weight, network, (x,))
        for engine in (Taylor(), FiniteDifference(accuracy=8))
    )
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)


DECODERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "bernoulli mlp": (lambda: BernoulliDecoder(DecoderMLP(4, (1, 3, 3), (8,))), (1, 3, 3)),
    "gaussian mlp": (lambda: GaussianDecoder(DecoderMLP(4, (1, 3, 3), (8,))), (1, 3, 3)),
    "gaussian cnn": (lambda: GaussianDecoder(DecoderCNN(4, (1, 16, 16), width=2)), (1, 16, 16)),
}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_are_likelihoods_of_their_code(name: str, generator: Generator) -> None:
    make, shape = DECODERS[name]
    model = cast(Any, make())
    x = torch.rand(3, *shape, generator=generator)
    z = torch.randn(3, 4, generator=generator)
    likelihood = lambda z, x: model.log_likelihood(x, z)
    for objective in (SSM(directions=2), FisherInformation()):
        assert_same_loss(objective, likelihood, model, z, x)


def test_encoders(generator: Generator) -> None:
    """A density of the code that a picture gets."""
    encoder = ImplicitEncoder(MultiInputMLP([(1, 3, 3), 2], 4, (8,)), 2)
    model = nn.ModuleList([encoder, QuadraticMLP(4, (6,))])
    x, noise = torch.rand(3, 1, 3, 3, generator=generator), torch.randn(3, 2, generator=generator)
    f = lambda x, noise: model[1](model[0](x, noise))
    assert_same_loss(SSM(), f, model, x, noise)
