r"""Stochastic gradient descent on FD-SSM with a step that decays (Theorem 2).

The theorem says that FD-SSM under stochastic gradient descent converges to a stationary point of
SSM if learning rates satisfy $\sum α_k = ∞$, $\sum α_k² < ∞$ and the step $ε$ decays to zero.

It is watched on the family of `wells`, whose minimisers are known: that of SSM is
$-A_0^{-1} b_0$, and that of FD-SSM with a constant step is off by a bias of order $ε²$.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from ...derivatives import FiniteDifference, Taylor
from ...evaluation import Measurement, mean_of
from ...objectives import SSM
from ...projections import Sphere
from ...samplers import Progress
from ...training import derived_seed
from ...typing import Objective
from ..run_store import RunStore
from ..study import Findings, Line, Panel
from ..support.double_well import DoubleWell, Family


@dataclass(frozen=True)
class Decay:
    r"""The step of iteration `k`, $ε_k = ε_0 (1 + k)^{-p}$.

    The bias of iteration `k` is of order $ε_k²$, and the noise of descent of order $k^{-1/2}$: a
    power above one quarter costs nothing in the end.

    Attributes:
        first: The first step, $ε_0$.
        power: How fast it decays, $p$; it does not if zero.
    """

    first: float
    power: float = 0.0

    def objective(self, k: int) -> Objective:
        """Return FD-SSM with the step of an iteration."""
        return SSM(FiniteDifference(), Sphere(self.first * (1 + k) ** -self.power))

    def limit(self) -> float:
        """Return the step after all iterations."""
        return 0.0 if self.power else self.first


@dataclass(frozen=True)
class Exact:
    """No step: SSM by Taylor series."""

    def objective(self, k: int) -> Objective:
        """Return SSM."""
        return SSM(Taylor())

    def limit(self) -> float:
        """Return zero."""
        return 0.0


@dataclass(frozen=True)
class Theorem2:
    r"""The distance to the optimum of SSM against the iteration, for several steps.

    The learning rates are $α_k = 2 / (k + k_0)$, with which the start is forgotten as $k^{-2}$ and
    the noise falls as $k^{-1/2}$. All see the same data and directions.

    Attributes:
        steps: How the step goes down, by name; SSM must be among them.
        data: What the model is fitted to.
        iterations: How many.
        batch: How many rows a batch has.
        descents: How many independent descents are averaged.
        offset: The $k_0$ of the learning rates.
        start: Where descents start, as $φ - φ^*$.
        looks: How many iterations the distance is measured at.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    steps: tuple[tuple[str, Decay | Exact], ...]
    data: DoubleWell = DoubleWell()
    iterations: int = 4000
    batch: int = 64
    descents: int = 16
    offset: int = 50
    start: tuple[float, float] = (1.0, 1.0)
    looks: int = 25
    title: str = field(
        default="Theorem 2: stochastic gradient descent on FD-SSM finds the optimum of SSM",
        repr=False,
    )
    provenance: str = field(
        default="Theorem 2 and App. A.4, whose conditions are those of Bottou et al. (2018) and a "
        "step that decays to zero. The paper says neither how fast, nor measures it, and trains "
        "with constant steps everywhere; the model with a known optimum and the powers are ours.",
        repr=False,
    )

    def __post_init__(self) -> None:
        if not any(isinstance(steps, Exact) for _, steps in self.steps):
            raise ValueError("SSM, as `Exact()`, must be among the steps, to compare with")

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return the distances, and the bias of constant steps against what it should be."""
        family, looks = Family(self.data), self._looks()
        best = family.optimum()
        lines: dict[str, Line] = {}
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.steps))):
            name, steps = self.steps[i]
            path = descend(self, steps, looks, seed)
            distance = torch.linalg.vector_norm(path - best, dim=2)
            error = distance.std(1) / math.sqrt(self.descents)
            means, errors = tuple(distance.mean(1).tolist()), tuple(error.tolist())
            lines[name] = Line(name, tuple(map(float, looks)), means, errors)
            numbers[f"distance, {name}"] = mean_of(distance[-1], iterations=self.iterations)
            if steps.limit():
                numbers |= _biases(name, family, steps.limit(), path[-1])
                bias = (family.optimum(steps.limit()) - best).norm().item()
                ends = float(looks[0]), float(looks[-1])
                lines[f"bias, {name}"] = Line(f"bias, {name}", ends, (bias, bias), reference=True)
        label, drawn = "distance to the optimum of SSM", (*lines.values(), self._rate(lines))
        panel = Panel("Distance", "iteration", label, drawn, x_log=True, y_log=True)
        return Findings(numbers, (panel,))

    def _rate(self, lines: Mapping[str, Line]) -> Line:
        """Return the rate of the noise, drawn through the end of SSM."""
        exact = next(lines[name] for name, steps in self.steps if isinstance(steps, Exact))
        late = tuple(k for k in exact.x if k >= self.offset)
        rate = tuple(exact.y[-1] * math.sqrt(exact.x[-1] / k) for k in late)
        return Line("iteration^(-1/2)", late, rate, reference=True)

    def _looks(self) -> list[int]:
        powers = torch.linspace(0, math.log(self.iterations), self.looks, dtype=torch.float64)
        return sorted({round(math.exp(p)) for p in powers.tolist()})


def descend(study: Theorem2, steps: Decay | Exact, looks: Sequence[int], seed: int) -> Tensor:
    r"""Return the parameters of many descents side by side, $φ_{k+1} = φ_k - α_k \hat∇J(φ_k)$.

    Args:
        study: The settings.
        steps: How the step goes down.
        looks: After how many iterations to keep the parameters, in order.
        seed: Decides data and directions.

    Returns:
        The parameters, shape `(looks, descents, 2)`.
    """
    family, generator = Family(study.data), Generator().manual_seed(derived_seed(seed, "descent"))
    log_density, start = family.log_density(), torch.tensor(study.start, dtype=torch.float64)
    phi = (family.optimum() + start).repeat(study.descents, 1)
    kept = []
    for k in range(looks[-1]):
        x = study.data.sample(study.descents * study.batch, generator)
        rows = phi.repeat_interleave(study.batch, 0).requires_grad_()
        losses = steps.objective(k)(log_density, x, rows, generator=generator)
        (gradients,) = torch.autograd.grad(losses.sum(), rows)
        gradient = gradients.view(study.descents, study.batch, 2).mean(1)
        phi = phi - 2 / (k + study.offset) * gradient
        if k + 1 in looks:
            kept.append(phi)
    return torch.stack(kept)


def _biases(name: str, family: Family, step: float, phi: Tensor) -> dict[str, Measurement]:
    """Return the mean error along the bias of a constant step, measured and predicted."""
    bias = family.optimum(step) - family.optimum()
    measured = (phi - family.optimum()) @ (bias / bias.norm())
    return {
        f"bias, {name}": mean_of(measured, step=step),
        f"bias, {name}, predicted": Measurement(bias.norm().item(), settings={"step": step}),
    }


STEPS: tuple[tuple[str, Decay | Exact], ...] = (
    ("constant ε = 0.5", Decay(0.5)),
    ("constant ε = 0.1", Decay(0.1)),
    ("ε = 0.5 k^(-1/8)", Decay(0.5, 1 / 8)),
    ("ε = 0.5 k^(-1/3)", Decay(0.5, 1 / 3)),
    ("SSM", Exact()),
)

STUDY = Theorem2(STEPS)
"""A minute on one core."""

PAPER = Theorem2(STEPS, iterations=300_000, descents=128)
"""As many iterations as the deep models of the paper were trained for."""
