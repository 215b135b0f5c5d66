"""Check the finite differences of a trained model."""

from ..derivatives import FiniteDifference
from ..evaluation import Consistency, check_consistency
from ..nested import found, replaced
from ..projections import Sphere
from ..recipes.recipe import HasObjective
from .run import RunError
from .saved_model import SavedModel

ROWS = 64
"""Number of rows of the training data that are used."""


def check(trained: SavedModel) -> Consistency:
    """Compare the objective of a run, with finite differences, with exact derivatives.

    If the run was trained with exact derivatives, its objective is checked with finite
    differences of step 0.1 instead. The report names the exact engine.

    Args:
        trained: A trained model.

    Returns:
        The report of `check_consistency`.

    Raises:
        RunError: If the objective of the run uses no directional derivative.
    """
    run, recipe = trained.run, trained.run.recipe
    if not isinstance(recipe, HasObjective):
        raise RunError(
            f"{run.reference.recipe} does not train a log-density or a score by itself, so that "
            "there is no single one to check"
        )
    if not all(any(found(recipe.objective, name)) for name in ("derivative", "projection")):
        raise RunError(
            f"the objective of {run.reference.recipe} takes no derivative along random "
            "directions, so there are no finite differences to check"
        )
    differenced = recipe.objective
    if not any(isinstance(d, FiniteDifference) for d in found(differenced, "derivative")):
        differenced = replaced(differenced, "derivative", lambda _: FiniteDifference())
        differenced = replaced(differenced, "projection", lambda _: Sphere(0.1))
    generator = run.generator("check")
    rows = recipe.data.load().train[:ROWS].to(run.device)
    x = trained.transform.sample(rows, generator)
    return check_consistency(
        differenced, recipe.objective_model(trained.model), x, generator=generator
    )
