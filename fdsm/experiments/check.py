"""Whether the finite differences of a trained model can be trusted."""

from ..derivatives import FiniteDifference
from ..evaluation import Consistency, check_consistency
from ..nested import found, replaced
from ..projections import Sphere
from .recipe import Differentiable
from .run import RunError
from .trained import Trained

ROWS = 64
"""How many rows of the training data to check."""


def check(trained: Trained) -> Consistency:
    """Compare the objective of a run by finite differences with the same by autodiff.

    If the run was trained by exact derivatives, the check is of what finite differences with a
    step of 0.1 would have done.

    Args:
        trained: A trained model.

    Returns:
        The report.

    Raises:
        RunError: If its objective takes no directional derivative.
    """
    run, recipe = trained.run, trained.run.recipe
    if not isinstance(recipe, Differentiable):
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
    x = trained.transform.draw(rows, generator)
    return check_consistency(differenced, recipe.checked(trained.model), x, generator=generator)
