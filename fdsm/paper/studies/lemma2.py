r"""The angle between the gradients of finite-difference and exact objectives (Lemma 2).

The paper bounds the angle between the two parameter gradients by a multiple of the step $ε$. Odd
terms cancel in a central difference, so that it falls as $ε²$; and in floating point it rises
again for small steps, as $u/ε$ where the objective takes first differences and as $u/ε²$ where
it takes second ones.

Activations must be smooth: with ELU, which is differentiable once, exact gradients lose a term
that finite differences keep, and the angle does not vanish.
"""

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from ...derivatives import Autodiff, FiniteDifference, PrecisionWarning
from ...evaluation import Measurement, gradient_angle, mean_of
from ...noise import Arithmetic
from ...objectives import SSM, SSMVR, MultiscaleDSM, SlicedDSM, ViaScore
from ...projections import Sphere
from ...samplers import Progress
from ...serialize import replace_fields
from ...training import derived_seed
from ...typing import Objective
from ..run_store import RunStore
from ..study import Findings, Line, Panel
from ..support.lines import line_of
from ..support.powers import exponent
from ..support.stepping import stepping

PRECISIONS = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Case:
    """An objective, and the trained model that it is studied on.

    Attributes:
        name: The name of the objective.
        objective: The objective by finite differences; its step does not matter.
        recipe: The recipe of the model, of a log-density, as `experiment/row`.
        target: What its runs are for.
    """

    name: str
    objective: Objective
    recipe: str
    target: str = "table2"


def angles(
    objective: Objective,
    model: nn.Module,
    batches: Sequence[Tensor],
    steps: Sequence[float],
    seed: int,
) -> Tensor:
    """Return the angles between the gradients by finite differences and by autodiff.

    Both see the same noise and the same directions, which are only scaled from step to step.

    Args:
        objective: The objective by finite differences.
        model: The log-density.
        batches: The data, in batches of shape `(B, *E)`.
        steps: The lengths of the directions.
        seed: Decides noise and directions.

    Returns:
        The angles in radians, shape `(batches, steps)`.
    """
    found = torch.empty(len(batches), len(steps), dtype=torch.float64)
    for j, step in enumerate(steps):
        differenced = stepping(objective, step)
        exact = replace_fields(differenced, "derivative", lambda _: Autodiff())
        for i, x in enumerate(batches):
            generator = Generator(x.device).manual_seed(derived_seed(seed, "angle", i))
            found[i, j] = gradient_angle(differenced, exact, model, x, generator=generator)
    return found


@dataclass(frozen=True)
class Lemma2:
    """How the angle depends on the step, in float64 and in float32, on trained networks.

    Attributes:
        cases: What is compared.
        steps: The lengths $ε$ of the directions.
        fitted: From and to which step the exponent is fitted, in float64.
        published: The steps that the paper uses.
        rows: How many rows a batch has.
        batches: How many batches, for the errors.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    cases: tuple[Case, ...]
    steps: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    fitted: tuple[float, float] = (0.01, 0.1)
    published: tuple[float, ...] = (0.05, 0.1)
    rows: int = 16
    batches: int = 3
    title: str = field(
        default="Lemma 2: the angle between gradients by finite differences and exact ones",
        repr=False,
    )
    provenance: str = field(
        default="Lemma 2 and App. A.3 (FD-SSM), App. B.5 (FD-DSM). The paper states the bound for "
        "one example and shows no measurement; here the gradients are of batches, on the networks "
        "of Table 2, which have the smooth activation of the authors' final runs instead of the "
        "ELU of the text: the lemma asks for four continuous derivatives.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return the angle against the step for each case, before and after training."""
        numbers: dict[str, Measurement] = {}
        lines: dict[str, list[Line]] = {name: [] for name in PRECISIONS}
        for i in progress(range(len(self.cases))):
            case = self.cases[i]
            for when, model, batches in self._models(case, store, seed):
                steps = self.steps if when == "trained" else self.published
                for precision, dtype in PRECISIONS.items():
                    found = self._angles(case, model.to(dtype), batches, steps, seed)
                    numbers |= self._published(f"{case.name}, {precision}, {when}", steps, found)
                    if when == "trained":
                        lines[precision].append(
                            line_of(case.name, steps, [*map(mean_of, found.T)])
                        )
                    if when == "trained" and precision == "float64":
                        numbers[f"exponent, {case.name}"] = self._exponent(found)
        panels = [self._panel(precision, lines[precision]) for precision in PRECISIONS]
        return Findings(numbers, tuple(panels))

    def _models(
        self, case: Case, store: RunStore, seed: int
    ) -> Iterator[tuple[str, nn.Module, list[Tensor]]]:
        """Yield the network before and after training, with batches of what it was tested on."""
        trained = store.trained(case.target, case.recipe, seed)
        run = trained.run
        rows = run.recipe.data.load().test[: self.rows * self.batches].to(run.device)
        x = trained.transform.sample(rows, run.generator("lemma2"))
        batches = list(torch.split(x, self.rows))
        yield "untrained", run.build(trained.shape).eval(), batches
        yield "trained", copy.deepcopy(trained.model), batches

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
            warnings.simplefilter("ignore", PrecisionWarning)  # rounding is what is measured
            return angles(case.objective, model, [x.to(dtype) for x in batches], steps, seed)

    def _published(
        self, label: str, steps: Sequence[float], found: Tensor
    ) -> dict[str, Measurement]:
        """Return the angles at the steps of the paper, in degrees."""
        numbers = {}
        for j, step in enumerate(steps):
            if step in self.published:
                cosine = found[:, j].cos().mean().item()
                measured = mean_of(found[:, j].rad2deg(), unit="degrees", cosine=cosine)
                numbers[f"angle, {label}, ε = {step}"] = measured
        return numbers

    def _exponent(self, found: Tensor) -> Measurement:
        first, last = self.fitted
        chosen = [j for j, step in enumerate(self.steps) if first <= step <= last]
        steps = [self.steps[j] for j in chosen]
        exponents = [exponent(steps, row) for row in found[:, chosen].tolist()]
        return mean_of(torch.tensor(exponents, dtype=torch.float64), fitted=[first, last])

    def _panel(self, precision: str, lines: Sequence[Line]) -> Panel:
        j = max(range(len(self.steps)), key=lambda j: (self.steps[j] <= self.fitted[1], j))
        scale = lines[0].y[j] / self.steps[j] ** 2
        theory = tuple(scale * step**2 for step in self.steps)
        reference = Line("ε²", self.steps, theory, reference=True)
        label = "angle between the gradients (radians)"
        return Panel(precision, "step ε", label, (*lines, reference), x_log=True, y_log=True)


CASES = (
    Case("FD-SSM", SSM(FiniteDifference(), Sphere(0.05)), "deep_ebm/FD-SSM"),
    Case(
        "FD-DSM",
        MultiscaleDSM(SlicedDSM(0.1, FiniteDifference(), Sphere(0.05)), Arithmetic(0.05, 1.2)),
        "deep_ebm/FD-DSM",
    ),
    Case("FD-SSMVR", ViaScore(SSMVR(FiniteDifference(), Sphere(0.05))), "deep_ebm/FD-SSM"),
)
"""FD-DSM is the multi-scale form that the network is trained by."""

STUDY = Lemma2(CASES)
"""On the small networks of Table 2."""

PAPER = Lemma2(CASES, rows=64, batches=10)
"""On those of the published size."""
