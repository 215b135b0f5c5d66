r"""Stochastic gradient descent on FD-SSM with a decaying step size (Theorem 2).

According to the theorem, stochastic gradient descent on FD-SSM converges to a stationary point of
SSM if the learning rates satisfy $\sum α_k = ∞$ and $\sum α_k² < ∞$ and the step size $ε$ decays
to zero.

The study uses the family of `paper.support.double_well`, whose minimizers are known: that of
SSM is $-A_0^{-1} b_0$, and that of FD-SSM with a constant step has a bias of order $ε²$.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fdsm.derivatives import FiniteDifference, Taylor
from fdsm.evaluation import Measurement, mean_of
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.training import derived_seed
from fdsm.typing import Objective

from ..report import Line, Panel
from ..run_store import RunStore
from ..study import StudyResult
from ..support.double_well import DoubleWell, DoubleWellFamily


@dataclass(frozen=True)
class StepDecay:
    r"""FD-SSM whose step size decays, $ε_k = ε_0 (1 + k)^{-p}$.

    The bias at iteration `k` is of order $ε_k²$ and the noise of the descent is of order
    $k^{-1/2}$. For a power above one quarter the noise dominates.

    Attributes:
        first: The first step size, $ε_0$.
        power: The power $p$. The step size is constant if it is zero.
    """

    first: float
    power: float = 0.0

    def objective(self, k: int) -> Objective:
        """Return FD-SSM with the step size of an iteration."""
        return SSM(FiniteDifference(), Sphere(self.first * (1 + k) ** -self.power))

    def limit(self) -> float:
        """Return the limit of the step size."""
        return 0.0 if self.power else self.first


@dataclass(frozen=True)
class ExactSSM:
    """SSM with exact derivatives, in Taylor mode."""

    def objective(self, k: int) -> Objective:
        """Return SSM."""
        return SSM(Taylor())

    def limit(self) -> float:
        """Return zero."""
        return 0.0


@dataclass(frozen=True)
class Theorem2:
    r"""Distance to the optimum of SSM against the iteration, for several step sizes.

    The learning rates are $α_k = 2 / (k + k_0)$. The effect of the initial value then decays as
    $k^{-2}$ and the noise as $k^{-1/2}$. All descents use the same data and directions.

    Attributes:
        steps: Schedules of the step size by name. SSM must be one of them.
        data: The distribution of the data.
        iterations: Number of iterations.
        batch: Number of rows in a batch.
        descents: Number of independent descents.
        offset: The $k_0$ of the learning rates.
        start: Initial value of the descents, as $φ - φ^*$.
        num_points: Number of iterations at which the distance is measured.
    """

    steps: tuple[tuple[str, StepDecay | ExactSSM], ...]
    data: DoubleWell = DoubleWell()
    iterations: int = 4000
    batch: int = 64
    descents: int = 16
    offset: int = 50
    start: tuple[float, float] = (1.0, 1.0)
    num_points: int = 25
    provenance: ClassVar[str] = (
        "Theorem 2 and App. A.4. The conditions are those of Bottou et al. (2018) and a step size "
        "that decays to zero. The paper does not say how fast it has to decay, reports no "
        "measurement, and trains with constant step sizes. The model with a known optimum and the "
        "powers are ours."
    )

    def __post_init__(self) -> None:
        if not any(isinstance(steps, ExactSSM) for _, steps in self.steps):
            raise ValueError("steps must contain SSM, as `ExactSSM()`, for comparison")

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the distances, and the measured and predicted bias of constant step sizes."""
        family, iterations = DoubleWellFamily(self.data), self._iterations()
        best = family.optimum()
        lines: dict[str, Line] = {}
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.steps))):
            name, steps = self.steps[i]
            path = descend(self, steps, iterations, seed)
            distance = torch.linalg.vector_norm(path - best, dim=2)
            error = distance.std(1) / math.sqrt(self.descents)
            means, errors = tuple(distance.mean(1).tolist()), tuple(error.tolist())
            lines[name] = Line(name, tuple(map(float, iterations)), means, errors)
            numbers[f"distance, {name}"] = mean_of(distance[-1], iterations=self.iterations)
            if steps.limit():
                numbers |= _biases(name, family, steps.limit(), path[-1])
                bias = (family.optimum(steps.limit()) - best).norm().item()
                ends = float(iterations[0]), float(iterations[-1])
                lines[f"bias, {name}"] = Line(f"bias, {name}", ends, (bias, bias), reference=True)
        label, drawn = "distance to the optimum of SSM", (*lines.values(), self._rate(lines))
        panel = Panel("Distance", "iteration", label, drawn, x_log=True, y_log=True)
        return StudyResult(numbers, (panel,))

    def _rate(self, lines: Mapping[str, Line]) -> Line:
        """Return the theoretical rate of the noise, through the last point of SSM."""
        exact = next(lines[name] for name, steps in self.steps if isinstance(steps, ExactSSM))
        late = tuple(k for k in exact.x if k >= self.offset)
        rate = tuple(exact.y[-1] * math.sqrt(exact.x[-1] / k) for k in late)
        return Line("iteration^(-1/2)", late, rate, reference=True)

    def _iterations(self) -> list[int]:
        powers = torch.linspace(0, math.log(self.iterations), self.num_points, dtype=torch.float64)
        return sorted({round(math.exp(p)) for p in powers.tolist()})


def descend(
    study: Theorem2, steps: StepDecay | ExactSSM, iterations: Sequence[int], seed: int
) -> Tensor:
    r"""Run many descents in parallel, $φ_{k+1} = φ_k - α_k \hat∇J(φ_k)$.

    Args:
        study: The settings.
        steps: Schedule of the step size.
        iterations: Numbers of iterations after which the parameters are recorded, in order.
        seed: Random seed of data and directions.

    Returns:
        The recorded parameters, shape `(len(iterations), descents, 2)`.
    """
    family, generator = (
        DoubleWellFamily(study.data),
        Generator().manual_seed(derived_seed(seed, "descent")),
    )
    log_density, start = family.log_density(), torch.tensor(study.start, dtype=torch.float64)
    phi = (family.optimum() + start).repeat(study.descents, 1)
    recorded = []
    for k in range(iterations[-1]):
        x = study.data.sample(study.descents * study.batch, generator)
        rows = phi.repeat_interleave(study.batch, 0).requires_grad_()
        losses = steps.objective(k)(log_density, x, rows, generator=generator)
        (gradients,) = torch.autograd.grad(losses.sum(), rows)
        gradient = gradients.view(study.descents, study.batch, 2).mean(1)
        phi = phi - 2 / (k + study.offset) * gradient
        if k + 1 in iterations:
            recorded.append(phi)
    return torch.stack(recorded)


def _biases(
    name: str, family: DoubleWellFamily, step: float, phi: Tensor
) -> dict[str, Measurement]:
    """Return the bias of a constant step size, measured and predicted."""
    bias = family.optimum(step) - family.optimum()
    measured = (phi - family.optimum()) @ (bias / bias.norm())
    return {
        f"bias, {name}": mean_of(measured, step=step),
        f"bias, {name}, predicted": Measurement(bias.norm().item(), settings={"step": step}),
    }


STEPS: tuple[tuple[str, StepDecay | ExactSSM], ...] = (
    ("constant ε = 0.5", StepDecay(0.5)),
    ("constant ε = 0.1", StepDecay(0.1)),
    ("ε = 0.5 k^(-1/8)", StepDecay(0.5, 1 / 8)),
    ("ε = 0.5 k^(-1/3)", StepDecay(0.5, 1 / 3)),
    ("SSM", ExactSSM()),
)

CPU = Theorem2(STEPS)
"""One minute on one core."""

PAPER = Theorem2(STEPS, iterations=300_000, descents=128)
"""The number of iterations of the deep models in the paper."""
