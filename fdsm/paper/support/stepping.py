"""Objectives whose step is varied."""

from typing import TypeVar

from ...serialize import replace_fields

T = TypeVar("T")


def stepping(objective: T, step: float) -> T:
    """Return an objective with another step.

    Args:
        objective: A frozen dataclass.
        step: The radius of all its projections.

    Returns:
        The changed objective.

    Example:
        >>> from fdsm.objectives import SSM
        >>> stepping(SSM(), 0.3).projection
        Sphere(radius=0.3)
    """
    return replace_fields(objective, "radius", lambda _: step)
