"""The base class of recipes, training plans, and what every recipe promises."""

import pytest
import torch

from fdsm.objectives import DSM, MLE, SSM, SSMVR
from paper.data import Digits, ImageArray
from paper.recipes import (
    EBM,
    VAE,
    Autoencoder,
    Flow,
    HasLogDensity,
    HasObjective,
    KernelFamily,
    NoiseConditionalEBM,
    Recipe,
    ScoreNetwork,
    TrainingPlan,
    require_parameters,
)
from paper.recipes.recipe import seeded

from .recipe_cases import tiny


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, r"plan.iterations must be at least 1, but is 0"),
        ({"batch": 0}, r"plan.batch must be at least 1"),
        ({"log_every": 0}, r"plan.log_every must be at least 1"),
        ({"validate_every": -1}, r"plan.validate_every must be at least 0"),
        ({"checkpoint_every": 0}, r"plan.checkpoint_every must be at least 1"),
        ({"keep_checkpoints": 0}, r"plan.keep_checkpoints must be at least 1"),
        ({"num_samples": -1}, r"plan.num_samples must be at least 0"),
        ({"patience": 3, "validate_every": 5}, r"between 1 and plan.patience = 3, but is 5"),
        ({"patience": 3, "validate_every": 0}, r"between 1 and plan.patience = 3, but is 0"),
        ({"iterations": 0, "batch": -2}, r"iterations must .*; plan.batch must .* is -2"),
    ],
)
def test_impossible_plans_list_all_problems(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingPlan(**changes)


def test_other_data_are_transformed_as_those_of_the_recipe() -> None:
    changed = tiny.with_data(ImageArray("x.npy"))
    assert changed.data == ImageArray("x.npy", transform=tiny.data.transform)
    assert changed.with_data(tiny.data) == tiny


IMAGES = ImageArray("x.npy")
RECIPES: list[tuple[Recipe, bool, bool]] = [
    (EBM("x", SSM(), IMAGES), True, True),
    (NoiseConditionalEBM("x", SSM(), IMAGES), True, True),
    (Flow("x", MLE(), IMAGES), True, True),
    (KernelFamily("x", SSM(), IMAGES), True, False),
    (ScoreNetwork("x", DSM(0.1), Digits()), False, True),
    (Autoencoder("x", SSMVR(), VAE, Digits()), False, False),
]


@pytest.mark.parametrize(
    ("recipe", "log_density", "objective"), RECIPES, ids=[type(r).__name__ for r, *_ in RECIPES]
)
def test_protocols_say_what_a_family_can_do(
    recipe: Recipe, log_density: bool, objective: bool
) -> None:
    assert isinstance(recipe, HasLogDensity) == log_density
    assert isinstance(recipe, HasObjective) == objective


def test_recipe_cannot_be_instantiated_without_its_methods() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Recipe()  # type: ignore[abstract]


def test_seeded_generators_repeat() -> None:
    first, again = (torch.rand(3, generator=seeded("cpu", 5)) for _ in range(2))
    assert torch.equal(first, again)


def test_models_with_too_many_parameters_are_not_built() -> None:
    """Those of the tiny recipe have 2 * 8 + 8, 8 * 8 + 8, 8 weights and a Gaussian tail."""
    shape = torch.Size([2])
    count = sum(p.numel() for p in tiny.build(shape).parameters())
    state = torch.get_rng_state()
    require_parameters(tiny, shape, count)
    assert torch.equal(state, torch.get_rng_state())
    with pytest.raises(ValueError, match=f"has more than {count - 1} parameters"):
        require_parameters(tiny, shape, count - 1)
    with pytest.raises(ValueError, match="has more than 1,000 parameters"):
        require_parameters(tiny, torch.Size([10**9]), 1000)
