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
from fdsm.paper.tables import table2 as deep_ebm
from fdsm.paper.tables import table3 as nice_mnist
from fdsm.paper.tables import table5 as ncsn
from fdsm.paper.tables import table6_mnist as autoencoder_mnist
from fdsm.paper.tables import toy_densities as density
from fdsm.projections import Sphere
from fdsm.recipes.recipe import Recipe
from fdsm.serialize import replace_fields
from fdsm.typing import Derivative, Objective

from ...models.contract_cases import CASES, Case

LEVELS = Geometric(1.0, 0.1, 3)
pytestmark = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


def assert_same_loss(
    objective: Objective, f: Callable[..., Tensor], model: nn.Module, *inputs: Tensor
) -> None:
    """Check the losses of an objective by Taylor, and their gradients, against Autodiff."""
    truth, found = (
        loss_and_gradients(
            replace_fields(objective, "derivative", lambda _, e=engine: e), f, model, inputs
        )
        for engine in (Autodiff(), Taylor())
    )
    for a, b in zip(found, truth, strict=True):
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10 * scale)


def loss_and_gradients(
    objective: Objective, f: Callable[..., Tensor], model: nn.Module, inputs: tuple[Tensor, ...]
) -> list[Tensor]:
    losses = objective(f, *inputs, generator=Generator().manual_seed(3))
    weights = torch.linspace(0.5, 1.5, len(losses))
    gradients = torch.autograd.grad(
        losses @ weights, list(model.parameters()), retain_graph=True, materialize_grads=True
    )
    return [losses.detach(), *gradients]


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


RECIPES: dict[str, tuple[Recipe, tuple[int, ...]]] = {
    f"{family}, {recipe.name}": (recipe, shape)
    for family, table, shape in (
        ("deep_ebm", deep_ebm.CPU, (1, 16, 16)),
        ("density", density.CPU, (2,)),
        ("ncsn", ncsn.CPU, (1, 8, 8)),
        ("nice_mnist", nice_mnist.CPU, (16,)),
    )
    for recipe in table
    if "SSM" in recipe.name or recipe.name == "FD-DSM"
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str, generator: Generator) -> None:
    recipe, shape = RECIPES[name]
    model = recipe.build(torch.Size(shape))
    x = torch.rand(2, *shape, generator=generator)
    assert_same_loss(cast(Any, recipe).objective, model, model, x)


PAPER: dict[str, tuple[Recipe, tuple[int, ...], Objective]] = {
    "deep_ebm": (deep_ebm.PAPER[0], (1, 32, 32), SSM(projection=Sphere(1.0))),
    "ncsn": (ncsn.PAPER[0], (3, 32, 32), Annealed(SSMVR())),
    "nice_mnist": (nice_mnist.PAPER[0], (784,), SSM(projection=Sphere(1.0))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_models_of_the_size_of_the_paper(name: str, generator: Generator) -> None:
    recipe, shape, objective = PAPER[name]
    model = recipe.build(torch.Size(shape)).float()
    x = torch.rand(1, *shape, generator=generator).float()

    def loss(engine: Derivative) -> Tensor:
        changed = replace_fields(objective, "derivative", lambda _: engine)
        with torch.no_grad():
            return changed(model, x, generator=Generator().manual_seed(3))

    torch.testing.assert_close(loss(Taylor()), loss(Autodiff()), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", ["VAE", "WAE"])
def test_scores_of_autoencoders(kind: str, generator: Generator) -> None:
    recipe = next(row for row in autoencoder_mnist.CPU if row.name == f"{kind} SSMVR")
    auto = cast(Any, recipe.build(torch.Size((1, 28, 28))))
    x = torch.rand(2, 1, 28, 28, generator=generator)
    z = auto.encode(x, generator).detach()
    assert_same_loss(recipe.objective, auto.score, auto.score, z, *auto.score_conditions(x))
