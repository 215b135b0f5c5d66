r"""Schedules of the learning rate or of the step size during training.

A schedule is a factor as a function of progress, the fraction of the iterations that are
completed. It does not depend on the number of iterations or on the value it multiplies.
"""

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..serialize import replace_fields

T = TypeVar("T")


class Schedule(Protocol):
    """A factor as a function of progress."""

    def __call__(self, progress: float) -> float:
        """Return the factor at `progress`, which goes from 0 to 1."""
        ...


@dataclass(frozen=True)
class ConstantSchedule:
    """The factor is always one."""

    def __call__(self, progress: float) -> float:
        """Return one."""
        return 1.0


@dataclass(frozen=True)
class CosineSchedule:
    r"""Cosine decay from one to `final_factor`, $c + (1 - c)(1 + \cos πt)/2$.

    The paper uses it for deep energy-based models, with a final factor of zero (App. C.2).

    Attributes:
        final_factor: The factor at the end, $c$.

    Example:
        >>> [round(CosineSchedule()(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
    """

    final_factor: float = 0.0

    def __call__(self, progress: float) -> float:
        """Return the factor at `progress`."""
        c = self.final_factor
        return c + (1 - c) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class ExponentialSchedule:
    r"""Exponential decay from one to `final_factor`, $c^t$.

    Suitable for the step size of finite differences. The objectives converge to score matching as
    the step goes to zero (Theorem 2). But the curvature of an untrained network is so small that
    only a large step gives differences above the rounding error.

    Attributes:
        final_factor: The factor at the end, $c$.

    Example:
        >>> [round(ExponentialSchedule(0.01)(t), 3) for t in (0.0, 0.5, 1.0)]
        [1.0, 0.1, 0.01]
    """

    final_factor: float

    def __post_init__(self) -> None:
        if not 0 < self.final_factor <= 1:
            raise ValueError(f"final_factor must be in (0, 1], but is {self.final_factor}")

    def __call__(self, progress: float) -> float:
        """Return the factor at `progress`."""
        return float(self.final_factor**progress)


def scale_step_size(objective: T, factor: float) -> T:
    """Return an objective with its finite-difference steps multiplied by a factor.

    The step is the `radius` of the objective's projection. Projections of nested objectives are
    scaled too, for example in `Annealed(SSMVR(FiniteDifference(), Sphere(0.1)))`.

    Args:
        objective: A frozen dataclass.
        factor: Factor of the radius.

    Returns:
        A copy, or the same objective if it has no radius or the factor is one.

    Example:
        >>> from fdsm.objectives import SSM
        >>> scale_step_size(SSM(), 0.5).projection.radius
        0.05
    """
    if factor == 1:
        return objective
    return replace_fields(objective, "radius", lambda radius: factor * radius)
