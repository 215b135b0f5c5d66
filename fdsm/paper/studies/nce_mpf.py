r"""Noise contrast and probability flow against FD-SSM (Sec. 7 and App. B.7 of the paper).

NCE against shifted data, MPF to a small sphere and the naive difference $R$ all have the mean
gradient of SSM as the step vanishes. What differs is the gradient of one example: a one-sided
form has a term $2 v^T∇\log p / ε²$ of mean zero, so that its standard deviation grows as $1/ε$,
while the terms of a symmetric form cancel in pairs.

The first two panels are exact: the family of `wells`, whose data are mixtures of Gaussians,
integrated by quadrature over data and directions. In its coordinates the standard deviation of a
one-sided gradient tends to $2\sqrt{2}/ε$. The third is of networks on a density on the plane.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from ...data import GaussianMixtureDensity, KnownDensity
from ...derivatives import Autodiff, FiniteDifference, score_of
from ...evaluation import Measurement, mean_of, relative_fisher_divergence
from ...objectives import MPF, NCE, SSM, NaiveFD
from ...objectives.directions import Sliced
from ...projections import Sphere
from ...recipes.networks import GaussianTail, Network
from ...samplers import Progress
from ...training import (
    Adam,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    derived_seed,
    objective_loss,
)
from ...typing import LogDensity, Objective, Projection
from ..run_store import RunStore
from ..study import Findings, Line, Panel
from ..support.double_well import DoubleWell, Family, quadrature
from ..support.lines import line_of
from ..support.powers import exponent
from ..support.stepping import stepping


@dataclass(frozen=True)
class OneSidedMPF(Sliced):
    r"""Minimum probability flow along `v` only, as in the paper.

    $$J(x, v) = \frac{4}{C_v} \left[ e^{(L(x + v) - L(x))/2} - 1 \right]$$

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.7.

    Attributes:
        evaluation: Evaluates the density at the nodes.
        projection: The distribution of `v`.
        directions: Number of directions per example; always one.
    """

    evaluation: FiniteDifference = FiniteDifference()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for one direction per example."""
        v = v[0] if v.ndim > x.ndim else v
        centre, plus = self.evaluation.values(f, x, v, (0, 1), *cond)
        flow: Tensor = ((plus - centre) / 2).expm1()
        return 4 * flow / self.projection.second_moment(x)


OBJECTIVES: tuple[tuple[str, Sliced], ...] = (
    ("FD-SSM", SSM(FiniteDifference())),
    ("NCE", NCE()),
    ("MPF, both sides", MPF()),
    ("MPF, one side", OneSidedMPF()),
    ("naive R", NaiveFD()),
)


def gradient_moments(
    objective: Sliced, family: Family, phi: Tensor, step: float, *, nodes: int, angles: int
) -> tuple[Tensor, float]:
    r"""Return mean and standard deviation of the gradient of an example, by quadrature.

    Args:
        objective: The objective, of any step.
        family: The model and the data.
        phi: The parameters, shape `(2,)`.
        step: The step $ε$.
        nodes: How many nodes each well has.
        angles: How many directions there are.

    Returns:
        The mean, shape `(2,)`, and $\sqrt{\mathrm{tr}\,\mathrm{Cov}}$.
    """
    x, v, weights = quadrature(family.data, step, nodes, angles)
    rows = phi.repeat(len(x), 1).requires_grad_()
    losses = stepping(objective, step).at(family.log_density(), x, v, rows)
    (gradients,) = torch.autograd.grad(losses.sum(), rows)
    mean = weights @ gradients
    variance = weights @ (gradients - mean).square().sum(1)
    return mean, variance.sqrt().item()


@dataclass(frozen=True)
class Contrast:
    """Bias and noise of gradients against the step, and what they do to training.

    Attributes:
        steps: The steps of which bias and noise are computed.
        fitted: Up to which step their exponents are fitted.
        shown: The step at which they are put in numbers, among `steps`.
        data: The data of the family.
        start: The parameters there, as $φ - φ^*$.
        nodes: The nodes of the quadrature per well.
        angles: The directions of the quadrature.
        trained: The steps with which networks are trained.
        density: What they learn.
        network: The networks.
        optimizer: How they are trained.
        iterations: For how long.
        batch: On how many rows at a time.
        trainings: How many networks each.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    steps: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    fitted: float = 0.02
    shown: float = 0.1
    data: DoubleWell = DoubleWell()
    start: tuple[float, float] = (1.0, 1.0)
    nodes: int = 12
    angles: int = 32
    trained: tuple[float, ...] = (0.01, 0.1)
    density: KnownDensity = GaussianMixtureDensity(
        ((-1.5, 0.0), (1.0, 1.2), (1.2, -1.0)), (0.6, 0.35, 0.45), (0.5, 0.2, 0.3)
    )
    network: Network = GaussianTail((32, 32))
    optimizer: OptimizerConfig = Adam(5e-3, clip=10.0, schedule=CosineSchedule())
    iterations: int = 500
    batch: int = 128
    trainings: int = 3
    title: str = field(
        default="NCE, MPF and the naive difference: the mean gradient of SSM, but not its noise",
        repr=False,
    )
    provenance: str = field(
        default="Sec. 7 (NCE whose noise is shifted data) and App. B.7 (MPF and R), where the "
        "paper claims an error of o(1) and measures nothing; the experiment is ours. MPF is shown "
        "as published, in one direction, and as the library has it, in a direction and its "
        "opposite.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return bias and noise of the gradients, and how well networks learn."""
        numbers, noise, bias = self._moments()
        exact = self._fisher(SSM(Autodiff()), seed)
        numbers["fisher, SSM"] = exact
        lines = [line_of("SSM", self.trained, [exact] * len(self.trained))]
        for i in progress(range(len(OBJECTIVES))):
            name, objective = OBJECTIVES[i]
            found = [self._fisher(stepping(objective, step), seed) for step in self.trained]
            for step, measured in zip(self.trained, found, strict=True):
                numbers[f"fisher, {name}, ε = {step}"] = measured
            lines.append(line_of(name, self.trained, found))
        label, title = "relative Fisher divergence", f"After {self.iterations} iterations"
        learnt = Panel(title, "step ε", label, tuple(lines), x_log=True, y_log=True)
        return Findings(numbers, (noise, bias, learnt))

    def _moments(self) -> tuple[dict[str, Measurement], Panel, Panel]:
        """Return the noise and the bias of gradients, with their exponents."""
        family = Family(self.data)
        numbers: dict[str, Measurement] = {}
        phi = family.optimum() + torch.tensor(self.start, dtype=torch.float64)
        noises, biases = [], []
        for name, objective in OBJECTIVES:
            moments = [
                gradient_moments(
                    objective, family, phi, step, nodes=self.nodes, angles=self.angles
                )
                for step in self.steps
            ]
            noise = tuple(deviation for _, deviation in moments)
            bias = tuple((mean - family.gradient(phi)).norm().item() for mean, _ in moments)
            noises.append(Line(name, self.steps, noise))
            biases.append(Line(name, self.steps, bias))
            numbers |= self._exponents(f"noise, {name}", noise)
            numbers |= self._exponents(f"bias, {name}", bias)
        one_sided = tuple(2 * math.sqrt(2) / step for step in self.steps)
        square = tuple(biases[0].y[0] * (step / self.steps[0]) ** 2 for step in self.steps)
        noises.append(Line("2√2 / ε", self.steps, one_sided, reference=True))
        biases.append(Line("ε²", self.steps, square, reference=True))
        spread = "standard deviation of an example's gradient"
        offset = "distance of the mean gradient from that of SSM"
        return (
            numbers,
            Panel("Noise", "step ε", spread, tuple(noises), x_log=True, y_log=True),
            Panel("Bias", "step ε", offset, tuple(biases), x_log=True, y_log=True),
        )

    def _exponents(self, label: str, values: Sequence[float]) -> dict[str, Measurement]:
        """Return the exponent of a quantity, and its value at the step that is shown."""
        few = [step for step in self.steps if step <= self.fitted]
        return {
            f"exponent of the {label}": Measurement(exponent(few, values[: len(few)])),
            f"{label}, ε = {self.shown}": Measurement(values[self.steps.index(self.shown)]),
        }

    def _fisher(self, objective: Objective, seed: int) -> Measurement:
        """Return the mean relative Fisher divergence of networks trained by an objective."""
        x = self._sample(20_000, Generator().manual_seed(derived_seed(seed, "test")))
        found = []
        for i in range(self.trainings):
            score = score_of(self._train(objective, derived_seed(seed, "training", i)))
            found.append(relative_fisher_divergence(score, self.density.score, x).value)
        return mean_of(torch.tensor(found, dtype=torch.float64), iterations=self.iterations)

    def _train(self, objective: Objective, seed: int) -> nn.Module:
        generator = Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.network.build(torch.Size([2])).double()
        loss = objective_loss(objective, model)
        step = GradientStep(loss, model, self.optimizer, self.iterations)
        for _ in range(self.iterations):
            step(self._sample(self.batch, generator), generator)
        return model

    def _sample(self, n: int, generator: Generator) -> Tensor:
        return self.density.sample(n, generator, dtype=torch.float64)


STUDY = Contrast()
"""A minute on one core."""

PAPER = Contrast(
    trained=(0.01, 0.03, 0.1, 0.3),
    network=GaussianTail(),
    iterations=5000,
    batch=512,
    trainings=10,
)
"""Longer, of wider networks; the paper has no such experiment."""
