r"""Noise-contrastive estimation and minimum probability flow against FD-SSM (Sec. 7, App. B.7).

NCE with shifted data as noise, MPF to a small sphere and the naive difference $R$ all have the
mean gradient of SSM as the step size vanishes. The variance of the gradient of one example
differs. A one-sided form has a term $2 v^T∇\log p / ε²$ with mean zero, so that its standard
deviation grows as $1/ε$. In a symmetric form these terms cancel in pairs.

The first two panels are exact. They use the family of `paper.support.double_well`, with
quadrature over data and directions. In its coordinates the standard deviation of a one-sided
gradient tends to $2\sqrt{2}/ε$. The third panel shows networks trained on a density in the plane.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, score_of
from fdsm.evaluation import Measurement, mean_of, relative_fisher_divergence
from fdsm.objectives import MPF, NCE, SSM, NaiveFD, Sliced
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.training import (
    Adam,
    CosineSchedule,
    GradientStep,
    OptimizerConfig,
    derived_seed,
    objective_loss,
)
from fdsm.typing import LogDensity, Objective, Projection

from ..data import GaussianMixtureDensity, KnownDensity
from ..recipes import GaussianTail, Network
from ..report import Line, Panel
from ..run_store import RunStore
from ..study import StudyResult
from ..support.analysis import loglog_slope, measured_line, with_step_size
from ..support.double_well import DoubleWell, DoubleWellFamily, quadrature


@dataclass(frozen=True)
class OneSidedMPF(Sliced):
    r"""Minimum probability flow along `v` only, as in the paper.

    $$J(x, v) = \frac{4}{C_v} \left[ e^{(L(x + v) - L(x))/2} - 1 \right]$$

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, App. B.7.

    Attributes:
        derivative: Evaluates the density at the nodes.
        projection: The distribution of `v`.
        directions: Number of directions per example; always one.
    """

    derivative: FiniteDifference = FiniteDifference()
    projection: Projection = Sphere(0.1)
    directions: int = 1

    def at(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
        """Return $J(x, v)$ for one direction per example."""
        v = v[0] if v.ndim > x.ndim else v
        center, plus = self.derivative.values(f, x, v, (0, 1), *cond)
        flow: Tensor = ((plus - center) / 2).expm1()
        return 4 * flow / self.projection.second_moment(x)


OBJECTIVES: tuple[tuple[str, Sliced], ...] = (
    ("FD-SSM", SSM(FiniteDifference())),
    ("NCE", NCE()),
    ("MPF, both sides", MPF()),
    ("MPF, one side", OneSidedMPF()),
    ("naive R", NaiveFD()),
)


def gradient_moments(
    objective: Sliced,
    family: DoubleWellFamily,
    phi: Tensor,
    step: float,
    *,
    nodes: int,
    angles: int,
) -> tuple[Tensor, float]:
    r"""Return mean and standard deviation of the gradient of one example, by quadrature.

    Args:
        objective: The objective. Its step size is replaced.
        family: The model and the data.
        phi: The parameters, shape `(2,)`.
        step: The step size $ε$.
        nodes: Number of quadrature nodes of each Gaussian.
        angles: Number of directions.

    Returns:
        The mean, shape `(2,)`, and $\sqrt{\mathrm{tr}\,\mathrm{Cov}}$.
    """
    x, v, weights = quadrature(family.data, step, nodes, angles)
    rows = phi.repeat(len(x), 1).requires_grad_()
    losses = with_step_size(objective, step).at(family.log_density(), x, v, rows)
    (gradients,) = torch.autograd.grad(losses.sum(), rows)
    mean = weights @ gradients
    variance = weights @ (gradients - mean).square().sum(1)
    return mean, variance.sqrt().item()


@dataclass(frozen=True)
class ContrastiveGradients:
    """Bias and noise of gradients against the step size, and their effect on training.

    Attributes:
        steps: Step sizes for bias and noise.
        max_fit_step: Largest step size to which the exponents are fitted.
        reported_step: Step size at which bias and noise are reported. One of `steps`.
        data: Data of the double-well family.
        start: Parameters of the double-well family, as $φ - φ^*$.
        nodes: Number of quadrature nodes of each Gaussian.
        angles: Number of directions of the quadrature.
        training_steps: Step sizes for the training of networks.
        density: The density that networks learn.
        network: The network.
        optimizer: The optimizer.
        iterations: Number of training iterations.
        batch: Number of rows in a batch.
        trainings: Number of networks for each objective and step size.
    """

    steps: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    max_fit_step: float = 0.02
    reported_step: float = 0.1
    data: DoubleWell = DoubleWell()
    start: tuple[float, float] = (1.0, 1.0)
    nodes: int = 12
    angles: int = 32
    training_steps: tuple[float, ...] = (0.01, 0.1)
    density: KnownDensity = GaussianMixtureDensity(
        ((-1.5, 0.0), (1.0, 1.2), (1.2, -1.0)), (0.6, 0.35, 0.45), (0.5, 0.2, 0.3)
    )
    network: Network = GaussianTail((32, 32))
    optimizer: OptimizerConfig = Adam(5e-3, clip=10.0, schedule=CosineSchedule())
    iterations: int = 500
    batch: int = 128
    trainings: int = 3
    provenance: ClassVar[str] = (
        "Sec. 7 (NCE with shifted data as noise) and App. B.7 (MPF and R). The paper claims an "
        "error of o(1) and reports no measurement. The experiment is ours. MPF is shown as "
        "published, along one direction, and as in this library, along a direction and its "
        "opposite."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return bias and noise of the gradients, and the error of trained networks."""
        numbers, noise, bias = self._moments()
        exact = self._fisher(SSM(Autodiff()), seed)
        numbers["fisher, SSM"] = exact
        lines = [measured_line("SSM", self.training_steps, [exact] * len(self.training_steps))]
        for i in progress(range(len(OBJECTIVES))):
            name, objective = OBJECTIVES[i]
            divergences = [
                self._fisher(with_step_size(objective, step), seed) for step in self.training_steps
            ]
            for step, measured in zip(self.training_steps, divergences, strict=True):
                numbers[f"fisher, {name}, ε = {step}"] = measured
            lines.append(measured_line(name, self.training_steps, divergences))
        label, title = "relative Fisher divergence", f"After {self.iterations} iterations"
        training = Panel(title, "step ε", label, tuple(lines), x_log=True, y_log=True)
        return StudyResult(numbers, (noise, bias, training))

    def _moments(self) -> tuple[dict[str, Measurement], Panel, Panel]:
        """Return noise and bias of the gradients, with their exponents."""
        family = DoubleWellFamily(self.data)
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
        """Return the exponent of a quantity, and its value at the reported step size."""
        few = [step for step in self.steps if step <= self.max_fit_step]
        return {
            f"exponent of the {label}": Measurement(loglog_slope(few, values[: len(few)])),
            f"{label}, ε = {self.reported_step}": Measurement(
                values[self.steps.index(self.reported_step)]
            ),
        }

    def _fisher(self, objective: Objective, seed: int) -> Measurement:
        """Return the mean relative Fisher divergence of networks trained with an objective."""
        x = self._sample(20_000, Generator().manual_seed(derived_seed(seed, "test")))
        divergences = []
        for i in range(self.trainings):
            score = score_of(self._train(objective, derived_seed(seed, "training", i)))
            divergences.append(relative_fisher_divergence(score, self.density.score, x).value)
        return mean_of(torch.tensor(divergences, dtype=torch.float64), iterations=self.iterations)

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


CPU = ContrastiveGradients()
"""One minute on one core."""

PAPER = ContrastiveGradients(
    training_steps=(0.01, 0.03, 0.1, 0.3),
    network=GaussianTail(),
    iterations=5000,
    batch=512,
    trainings=10,
)
"""Wider networks, trained longer. The paper has no such experiment."""
