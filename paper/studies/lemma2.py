r"""Angle between the gradients of finite-difference and exact objectives (Lemma 2).

The paper bounds the angle between the two parameter gradients by a multiple of the step $ε$. Odd
terms cancel in a central difference, so that the angle decreases as $ε²$. In floating point it
increases again for small steps: as $u/ε$ for objectives with first differences, and as $u/ε²$ for
objectives with second differences.

Activations must be smooth. With ELU, which has only one continuous derivative, exact gradients
lose a term that finite differences keep, and the angle does not vanish.
"""

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning
from fdsm.evaluation import Measurement, gradient_angle, mean_of
from fdsm.noise import Arithmetic
from fdsm.objectives import SSM, SSMVR, MultiscaleDSM, SlicedDSM, ViaScore
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.serialize import replace_fields
from fdsm.training import derived_seed
from fdsm.typing import Objective

from ..report import Line, Panel
from ..run_store import RunStore
from ..study import StudyResult
from ..support.analysis import loglog_slope, measured_line, with_step_size

PRECISIONS = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Case:
    """An objective and a trained log-density.

    Attributes:
        name: Name of the objective.
        objective: The objective with finite differences. Its step is replaced.
        row: Row of the model.
        target: Table of the model.
    """

    name: str
    objective: Objective
    row: str
    target: str = "table2"


def angles(
    objective: Objective,
    model: nn.Module,
    batches: Sequence[Tensor],
    steps: Sequence[float],
    seed: int,
) -> Tensor:
    """Return the angles between finite-difference gradients and exact gradients.

    Both use the same noise and directions. Only the length of the directions depends on the step.

    Args:
        objective: The objective with finite differences.
        model: The log-density.
        batches: Batches of data, each of shape `(B, *E)`.
        steps: Lengths of the directions.
        seed: Random seed of noise and directions.

    Returns:
        The angles in radians, shape `(batches, steps)`.
    """
    radians = torch.empty(len(batches), len(steps), dtype=torch.float64)
    for j, step in enumerate(steps):
        differenced = with_step_size(objective, step)
        exact = replace_fields(differenced, "derivative", lambda _: Autodiff())
        for i, x in enumerate(batches):
            generator = Generator(x.device).manual_seed(derived_seed(seed, "angle", i))
            radians[i, j] = gradient_angle(differenced, exact, model, x, generator=generator)
    return radians


@dataclass(frozen=True)
class Lemma2:
    """Angle against the step size, in float64 and float32, for trained networks.

    Attributes:
        cases: Objectives and models.
        steps: Step sizes $ε$.
        fit_range: Smallest and largest step to which the exponent is fitted, in float64.
        published_steps: The step sizes of the paper.
        batch_size: Number of rows in a batch.
        batches: Number of batches.
    """

    cases: tuple[Case, ...]
    steps: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    fit_range: tuple[float, float] = (0.01, 0.1)
    published_steps: tuple[float, ...] = (0.05, 0.1)
    batch_size: int = 16
    batches: int = 3
    provenance: ClassVar[str] = (
        "Lemma 2 and App. A.3 (FD-SSM), App. B.5 (FD-DSM). The paper states the bound for one "
        "example and reports no measurement. Here the gradients are those of batches, for the "
        "networks of Table 2. Their activation is the smooth one of the authors' final runs, not "
        "the ELU of the text, because the lemma assumes four continuous derivatives."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the angle against the step size for each case, before and after training."""
        numbers: dict[str, Measurement] = {}
        lines: dict[str, list[Line]] = {name: [] for name in PRECISIONS}
        for i in progress(range(len(self.cases))):
            case = self.cases[i]
            for when, model, batches in self._models(case, store, seed):
                steps = self.steps if when == "trained" else self.published_steps
                for precision, dtype in PRECISIONS.items():
                    radians = self._angles(case, model.to(dtype), batches, steps, seed)
                    numbers |= self._published(f"{case.name}, {precision}, {when}", steps, radians)
                    if when == "trained":
                        lines[precision].append(
                            measured_line(case.name, steps, [*map(mean_of, radians.T)])
                        )
                    if when == "trained" and precision == "float64":
                        numbers[f"exponent, {case.name}"] = self._exponent(radians)
        panels = [self._panel(precision, lines[precision]) for precision in PRECISIONS]
        return StudyResult(numbers, tuple(panels))

    def _models(
        self, case: Case, store: RunStore, seed: int
    ) -> Iterator[tuple[str, nn.Module, list[Tensor]]]:
        """Yield the network before and after training, with batches of test data."""
        saved = store.trained(case.target, case.row, seed)
        run = saved.run
        rows = run.recipe.data.load().test[: self.batch_size * self.batches].to(run.device)
        x = saved.transform.sample(rows, run.generator("lemma2"))
        batches = list(torch.split(x, self.batch_size))
        yield "untrained", run.build(saved.shape).eval(), batches
        yield "trained", copy.deepcopy(saved.model), batches

    def _angles(
        self,
        case: Case,
        model: nn.Module,
        batches: Sequence[Tensor],
        steps: Sequence[float],
        seed: int,
    ) -> Tensor:
        dtype = next(model.parameters()).dtype
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", PrecisionWarning
            )  # rounding is part of the measurement
            return angles(case.objective, model, [x.to(dtype) for x in batches], steps, seed)

    def _published(
        self, label: str, steps: Sequence[float], radians: Tensor
    ) -> dict[str, Measurement]:
        """Return the angles at the step sizes of the paper, in degrees."""
        numbers = {}
        for j, step in enumerate(steps):
            if step in self.published_steps:
                cosine = radians[:, j].cos().mean().item()
                measured = mean_of(radians[:, j].rad2deg(), unit="degrees", cosine=cosine)
                numbers[f"angle, {label}, ε = {step}"] = measured
        return numbers

    def _exponent(self, radians: Tensor) -> Measurement:
        first, last = self.fit_range
        chosen = [j for j, step in enumerate(self.steps) if first <= step <= last]
        steps = [self.steps[j] for j in chosen]
        exponents = [loglog_slope(steps, row) for row in radians[:, chosen].tolist()]
        return mean_of(torch.tensor(exponents, dtype=torch.float64), fitted=[first, last])

    def _panel(self, precision: str, lines: Sequence[Line]) -> Panel:
        j = max(range(len(self.steps)), key=lambda j: (self.steps[j] <= self.fit_range[1], j))
        scale = lines[0].y[j] / self.steps[j] ** 2
        theory = tuple(scale * step**2 for step in self.steps)
        reference = Line("ε²", self.steps, theory, reference=True)
        label = "angle between the gradients (radians)"
        return Panel(precision, "step ε", label, (*lines, reference), x_log=True, y_log=True)


CASES = (
    Case("FD-SSM", SSM(FiniteDifference(), Sphere(0.05)), "FD-SSM"),
    Case(
        "FD-DSM",
        MultiscaleDSM(SlicedDSM(0.1, FiniteDifference(), Sphere(0.05)), Arithmetic(0.05, 1.2)),
        "FD-DSM",
    ),
    Case("FD-SSMVR", ViaScore(SSMVR(FiniteDifference(), Sphere(0.05))), "FD-SSM"),
)
"""FD-DSM is the multi-scale form with which the network is trained."""

CPU = Lemma2(CASES)
"""The small networks of Table 2."""

PAPER = Lemma2(CASES, batch_size=64, batches=10)
"""The networks of the published size."""
