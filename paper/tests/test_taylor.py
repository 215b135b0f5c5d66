"""All rows of the paper: losses by Taylor and by Autodiff agree."""

from typing import Any, cast

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import Autodiff, Taylor
from fdsm.objectives import SSM, SSMVR, Annealed
from fdsm.projections import Sphere
from fdsm.serialize import replace_fields
from fdsm.typing import Derivative, Objective
from paper.recipes import Recipe
from paper.tables import table2 as deep_ebm
from paper.tables import table3 as nice_mnist
from paper.tables import table5 as ncsn
from paper.tables import table6_mnist as autoencoder_mnist
from paper.tables import toy_densities as density
from tests.derivatives.taylor.loss_cases import assert_same_loss

pytestmark = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")

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


@pytest.mark.nightly
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
