r"""Whether a finite-difference objective trains as the exact one would.

Lemma 2 of the paper bounds the angle between the parameter gradients of the two. In exact
arithmetic it vanishes as the step does; in floating point it has a minimum, at a step that
depends on the model. These functions measure it.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from ..derivatives import Autodiff, rounding_error, step_size
from ..derivatives.guards import random_state, restore_random_state
from ..nested import found, replaced
from ..tensors import dot
from ..typing import LogDensity, Objective, Projection, Score


def gradient_angle(
    objective: Objective,
    reference: Objective,
    model: nn.Module,
    x: Tensor,
    *cond: Tensor,
    generator: Generator | None = None,
) -> float:
    r"""Return the angle between the parameter gradients of two objectives, in radians.

    Both see the same randomness, so that two forms of one objective differ by the error of
    their derivatives only. The angle is computed as
    $2 \arctan(‖\hat a - \hat b‖ / ‖\hat a + \hat b‖)$, which stays accurate when it is tiny.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Lemma 2.

    Args:
        objective: The objective in question.
        reference: What it should agree with.
        model: The model, a log-density or a score as the objectives take it.
        x: The data, shape `(B, *E)`.
        cond: What the model is conditioned on.
        generator: Where to start the randomness of both; a fixed seed by default.

    Returns:
        The angle, from 0 to $π$.

    Raises:
        ValueError: If a gradient vanishes, so that there is no angle.
    """
    (_, a), (_, b) = _both(objective, reference, model, x, *cond, generator=generator)
    return _angle(a, b)


@dataclass(frozen=True)
class Consistency:
    """How well a finite-difference objective agrees with the exact one, on one batch.

    Attributes:
        value_error: The difference of the losses relative to the exact ones, root mean square.
        angle: The angle between the parameter gradients, in degrees.
        cancellation: The estimated relative rounding error of the differences.
        step: The length of the directions.
        recommended_step: The length that balances truncation against rounding.
    """

    value_error: float
    angle: float
    cancellation: float
    step: float
    recommended_step: float

    def __str__(self) -> str:
        return "\n".join([
            f"loss, relative error          {self.value_error:10.2e}",
            f"parameter gradient, angle     {self.angle:10.2e} degrees",
            f"differences, rounding error   {self.cancellation:10.2e}",
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
    """Compare a finite-difference objective with the same objective by autodiff.

    Rounding error and recommended step are those of the highest difference that the objective
    takes, where it takes it: the second for SSM, the first at noisy data for DSM, and the first
    of $v^T s$ for a score.

    Args:
        objective: The objective to check, a dataclass with a `derivative` and a `projection`, or
            around one that has them, such as `Annealed`.
        model: The model, a log-density or a score as the objective takes it.
        x: A batch of data, shape `(B, *E)`.
        cond: What the model is conditioned on.
        generator: Where to start the randomness; a fixed seed by default.

    Returns:
        The report, which prints as a table.

    Raises:
        ValueError: If the objective takes no directional derivative.

    Example:
        >>> from fdsm.derivatives import FiniteDifference
        >>> from fdsm.objectives import SSM
        >>> from fdsm.projections import Sphere
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))
        >>> x = torch.randn(32, 2, generator=Generator().manual_seed(0)).double()
        >>> report = check_consistency(SSM(FiniteDifference(), Sphere(0.1)), model.double(), x)
        >>> report.angle < 1 and report.cancellation < 1e-6 and report.step == 0.1
        True
    """
    derivative = next(found(objective, "derivative"), None)
    projection: Projection | None = next(found(objective, "projection"), None)
    if derivative is None or projection is None:
        raise ValueError(f"{objective} takes no directional derivative, so there is none to check")
    recorder = _Recorder()
    reference = replaced(objective, "derivative", lambda _: recorder)
    (approximate, a), (exact, b) = _both(
        objective, reference, model, x, *cond, generator=generator
    )
    accuracy = getattr(derivative, "accuracy", 2)
    f, x, v, order, cond = recorder.seen
    return Consistency(
        value_error=((approximate - exact).norm() / exact.norm()).item(),
        angle=math.degrees(_angle(a, b)),
        cancellation=rounding_error(f, x, v, *cond, order=order, accuracy=accuracy),
        step=math.sqrt(projection.second_moment(x)),
        recommended_step=step_size(f, x, v, order, *cond, accuracy=accuracy),
    )


@dataclass
class _Recorder:
    """Autodiff that remembers what it was last asked to differentiate, where and how often."""

    seen: tuple[LogDensity, Tensor, Tensor, int, tuple[Tensor, ...]] = field(init=False)

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        self.seen = f, x.detach(), v, order, cond
        return Autodiff().jet(f, x, v, order, *cond)

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        self.seen = f, x.detach(), v[0], 2, cond
        return Autodiff().sliced(f, x, v, *cond)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        self.seen = _along(s), x.detach(), v, 1, (v, *cond)
        return Autodiff().quadratic(s, x, v, *cond)


def _along(score: Score) -> LogDensity:
    """Return $v^T s(x)$ as a function of `x`, given `v`."""
    return lambda x, v, *cond: dot(v, score(x, *cond))


def _started(x: Tensor, generator: Generator | None) -> Generator:
    """Return a generator of its own in the state of the given one, or with a fixed seed."""
    own = Generator(x.device)
    if generator is None:
        return own.manual_seed(0)
    own.set_state(generator.get_state())
    return own


def _both(
    objective: Objective,
    reference: Objective,
    model: nn.Module,
    x: Tensor,
    *cond: Tensor,
    generator: Generator | None,
) -> list[tuple[Tensor, Tensor]]:
    """Return losses and parameter gradients of both objectives under the same randomness."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("the model has no parameters to train, so there is nothing to compare")
    state, results = random_state(x.device), []
    for chosen in (objective, reference):
        restore_random_state(state, x.device)
        losses = chosen(model, x, *cond, generator=_started(x, generator))
        gradients = torch.autograd.grad(
            losses.mean(), parameters, allow_unused=True, materialize_grads=True
        )
        flat = torch.cat([g.flatten() for g in gradients]).double()
        results.append((losses.detach().double(), flat))
    return results


def _angle(a: Tensor, b: Tensor) -> float:
    if not (a.norm() > 0 and b.norm() > 0):
        raise ValueError("a parameter gradient is zero or not a number, so there is no angle")
    a, b = a / a.norm(), b / b.norm()
    return 2 * math.atan2((a - b).norm().item(), (a + b).norm().item())
