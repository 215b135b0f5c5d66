r"""Compare finite-difference objectives with exact ones.

Lemma 2 of the paper bounds the angle between the parameter gradients of the two. In exact
arithmetic the angle goes to zero with the step. In floating point it has a minimum, at a step
that depends on the model. The functions in this module measure the angle.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from ..derivatives import Autodiff, Taylor, rounding_error, step_size
from ..derivatives.checks.arguments import check_values
from ..derivatives.checks.observation import random_state, restore_random_state
from ..serialize import find_fields, replace_fields
from ..tensors import dot
from ..typing import Derivative, LogDensity, Objective, Projection, Score


def gradient_angle(
    objective: Objective,
    reference: Objective,
    model: nn.Module,
    x: Tensor,
    *cond: Tensor,
    generator: Generator | None = None,
) -> float:
    r"""Return the angle between the parameter gradients of two objectives, in radians.

    Both objectives use the same random numbers, so two forms of one objective differ only by the
    error of their derivatives. The angle is computed as
    $2 \arctan(‖\hat a - \hat b‖ / ‖\hat a + \hat b‖)$, which is accurate for small angles.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Lemma 2.

    Args:
        objective: The objective to check.
        reference: The objective to compare it with.
        model: A log-density or a score, as the objectives require.
        x: The data, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        generator: Random number generator. Both objectives start from its state, which is not
            changed. Default: a fixed seed.

    Returns:
        The angle, from 0 to $π$.

    Raises:
        ValueError: If a gradient is zero or not finite, or the model has no parameters.
    """
    (_, a), (_, b) = _both(objective, reference, model, x, *cond, generator=generator)
    return angle_between(a, b)


@dataclass(frozen=True)
class Consistency:
    """The difference between a finite-difference objective and the exact one on one batch.

    Attributes:
        reference: The derivative engine of the exact objective.
        value_error: Error of the losses relative to the exact ones, root mean square.
        angle: Angle between the parameter gradients, in degrees.
        rounding_error: Estimated relative rounding error of the differences.
        step: Length of the directions.
        recommended_step: Length at which truncation and rounding errors are balanced.
    """

    reference: str
    value_error: float
    angle: float
    rounding_error: float
    step: float
    recommended_step: float

    def __str__(self) -> str:
        return "\n".join([
            f"reference                     {self.reference}",
            f"loss, relative error          {self.value_error:10.2e}",
            f"parameter gradient, angle     {self.angle:10.2e} degrees",
            f"differences, rounding error   {self.rounding_error:10.2e}",
            f"step                          {self.step:10.2e}",
            f"step, recommended             {self.recommended_step:10.2e}",
        ])


def check_consistency(
    objective: Objective,
    model: nn.Module,
    x: Tensor,
    *cond: Tensor,
    generator: Generator | None = None,
) -> Consistency:
    """Compare a finite-difference objective with the same objective with exact derivatives.

    The reference is `Taylor(fallback=Autodiff())`. It is not `Autodiff()` alone, because the
    parameter gradients of nested autograd are wrong for layer and instance norm.

    The rounding error and the recommended step are those of the highest difference that the
    objective uses: the second difference for SSM, the first difference at noisy data for DSM, and
    the first difference of $v^T s$ for a score.

    Args:
        objective: The objective to check, a dataclass with a `derivative` and a `projection`, or
            a dataclass that contains such an objective, for example `Annealed`.
        model: A log-density or a score, as the objective requires.
        x: A batch of data, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        generator: Random number generator. Its state is not changed. Default: a fixed seed.

    Returns:
        The report. `print` shows it as a table.

    Raises:
        ValueError: If the objective uses no directional derivative.

    Example:
        >>> from fdsm.derivatives import FiniteDifference
        >>> from fdsm.objectives import SSM
        >>> from fdsm.projections import Sphere
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))
        >>> x = torch.randn(32, 2, generator=Generator().manual_seed(0)).double()
        >>> report = check_consistency(SSM(FiniteDifference(), Sphere(0.1)), model.double(), x)
        >>> report.angle < 1 and report.rounding_error < 1e-6 and report.step == 0.1
        True
    """
    check_values(x)
    derivative = next(find_fields(objective, "derivative"), None)
    projection: Projection | None = next(find_fields(objective, "projection"), None)
    if derivative is None or projection is None:
        raise ValueError(
            f"{objective} cannot be checked: it has no `derivative` and `projection`. Use an "
            "objective with random directions, such as SSM"
        )
    exact = Reference()
    reference = replace_fields(objective, "derivative", lambda _: exact)
    (loss, a), (exact_loss, b) = _both(objective, reference, model, x, *cond, generator=generator)
    accuracy = getattr(derivative, "accuracy", 2)
    f, x, v, order, cond = exact.last
    return Consistency(
        reference=exact.name,
        value_error=relative_error(loss, exact_loss),
        angle=math.degrees(angle_between(a, b)),
        rounding_error=rounding_error(f, x, v, *cond, order=order, accuracy=accuracy),
        step=math.sqrt(projection.second_moment(x)),
        recommended_step=step_size(f, x, v, order, *cond, accuracy=accuracy),
    )


@dataclass
class Recorder:
    """A derivative engine that keeps the arguments of its last call.

    Attributes:
        engine: The engine that computes the derivatives.
        used: Whether it has been called.
        last: Function, point, direction, order and conditions of the last call.
    """

    engine: Derivative
    used: bool = field(default=False, init=False)
    last: tuple[LogDensity, Tensor, Tensor, int, tuple[Tensor, ...]] = field(init=False)

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Record the arguments, and return what the engine does."""
        self._record(f, x, v, order, cond)
        return self.engine.jet(f, x, v, order, *cond)

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Record the arguments with the first direction, and return what the engine does."""
        self._record(f, x, v[0], 2, cond)
        return self.engine.sliced(f, x, v, *cond)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Record $v^T s$ and its arguments, and return what the engine does."""
        self._record(_along(s), x, v, 1, (v, *cond))
        return self.engine.quadratic(s, x, v, *cond)

    def _record(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, cond: tuple[Tensor, ...]
    ) -> None:
        self.used = True
        self.last = f, x.detach(), v, order, cond


class Reference(Recorder):
    """The exact derivatives to compare with, and the arguments of the last call."""

    def __init__(self) -> None:
        self._fallback = Recorder(Autodiff())
        super().__init__(Taylor(fallback=self._fallback))

    @property
    def name(self) -> str:
        """The engine, and whether it used the fallback."""
        engine = Taylor(fallback=Autodiff())
        return f"{engine}, which used the fallback" if self._fallback.used else str(engine)


def _along(score: Score) -> LogDensity:
    """Return $v^T s(x)$ as a function of `x`, given `v`."""
    return lambda x, v, *cond: dot(v, score(x, *cond))


def copy_generator(x: Tensor, generator: Generator | None) -> Generator:
    """Return a new generator in the state of the given one, or with a fixed seed."""
    copy = Generator(x.device)
    if generator is None:
        return copy.manual_seed(0)
    copy.set_state(generator.get_state())
    return copy


def _both(
    objective: Objective,
    reference: Objective,
    model: nn.Module,
    x: Tensor,
    *cond: Tensor,
    generator: Generator | None,
) -> list[tuple[Tensor, Tensor]]:
    """Return losses and parameter gradients of both objectives for the same random numbers."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(
            "the model has no parameters to train, so there are no gradients to compare"
        )
    state, results = random_state(x.device), []
    for each in (objective, reference):
        restore_random_state(state, x.device)
        losses = each(model, x, *cond, generator=copy_generator(x, generator))
        results.append((losses.detach().double(), parameter_gradient(losses, parameters)))
    return results


def parameter_gradient(losses: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return the gradient of the mean loss, flat and in float64, zero where it is unused."""
    gradients = torch.autograd.grad(
        losses.mean(), parameters, allow_unused=True, materialize_grads=True
    )
    return torch.cat([g.flatten() for g in gradients]).double()


def relative_error(losses: Tensor, exact: Tensor) -> float:
    """Return the error of losses relative to the exact ones, root mean square."""
    return float((losses - exact).norm() / exact.norm())


def angle_between(a: Tensor, b: Tensor) -> float:
    """Return the angle between two gradients, from 0 to $π$."""
    if not (a.norm() > 0 and b.norm() > 0):
        raise ValueError("a parameter gradient is zero or not a number, so there is no angle")
    a, b = a / a.norm(), b / b.norm()
    return 2 * math.atan2((a - b).norm().item(), (a + b).norm().item())
