r"""How a learning rate or a step size goes down while a model is trained.

A schedule is a factor as a function of the fraction of the training that is done, so that it
needs to know neither how long that is nor what it multiplies.
"""

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..serialize import replace_fields

T = TypeVar("T")


class Schedule(Protocol):
    """A factor as a function of the fraction done."""

    def __call__(self, done: float) -> float:
        """Return the factor after a fraction `done`, from zero to one, of the iterations."""
        ...


@dataclass(frozen=True)
class ConstantSchedule:
    """Always one."""

    def __call__(self, done: float) -> float:
        """Return one."""
        return 1.0


@dataclass(frozen=True)
class CosineSchedule:
    r"""Half a cosine from one to `last`, $c + (1 - c)(1 + \cos πt)/2$.

    The paper's schedule for deep energy-based models, with a `last` of zero (App. C.2).

    Attributes:
        last: The factor at the end, $c$.

    Example:
        >>> [round(CosineSchedule()(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
    """

    last: float = 0.0

    def __call__(self, done: float) -> float:
        """Return the factor after the fraction `done`."""
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class ExponentialSchedule:
    r"""From one to `last` by a constant ratio, $c^t$.

    For the step size: the objectives converge to score matching as it goes to zero (Theorem 2),
    but a network that has no curvature yet needs a large one to rise above rounding error.

    Attributes:
        last: The factor at the end, $c$.

    Example:
        >>> [round(ExponentialSchedule(0.01)(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.1, 0.01]
    """

    last: float

    def __post_init__(self) -> None:
        if not 0 < self.last <= 1:
            raise ValueError(f"the last factor must be in (0, 1], but is {self.last}")

    def __call__(self, done: float) -> float:
        """Return the factor after the fraction `done`."""
        return float(self.last**done)


def scale_step_size(objective: T, factor: float) -> T:
    """Return an objective with all its steps multiplied by a factor.

    The step of a finite difference is the `radius` of its projection, however deep that is:
    `Annealed(SSMVR(FiniteDifference(), Sphere(0.1)))` has one too.

    Args:
        objective: A frozen dataclass.
        factor: What the radius of every projection in it is multiplied by.

    Returns:
        The same objective if it has no step or the factor is one, else a copy.

    Example:
        >>> from fdsm.objectives import SSM
        >>> scale_step_size(SSM(), 0.5).projection.radius
        0.05
    """
    if factor == 1:
        return objective
    return replace_fields(objective, "radius", lambda radius: factor * radius)
