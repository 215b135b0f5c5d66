r"""FD-SSM of a latent-variable model through SUMO (App. B.6 of the paper).

The model is linear, $z ∼ N(0, I)$, $x|z ∼ N(Wz + b, s²I)$, so that everything is known in closed
form: the marginal $N(b, WW^T + s²I)$, therefore the loss that SUMO bounds, and the posterior. If
the encoder is the posterior, all importance weights are $p(x)$, and bound and loss are equal for
every example. Otherwise the bound exceeds the loss by the variance of the estimated slope. The
nodes share their random draws. An encoder that is only too wide therefore costs nothing, because
its weights are $p(x)$ times a factor that is the same at all nodes. A wrong mean does cost.

The paper draws the number of terms independently for $x + v$, $x - v$ and $x$. This adds
$\mathrm{Var}[\mathrm{SUMO}] / 4ε²$ to the excess of the bound, which is why the library shares the
draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.evaluation import Measurement, mean_of
from fdsm.objectives import MLE, SSM, SUMO
from fdsm.objectives.latent import LogWeight, draw_terms, log_likelihood
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.training import (
    Adam,
    CosineSchedule,
    GradientStep,
    Loss,
    OptimizerConfig,
    derived_seed,
    objective_loss,
)
from fdsm.typing import DensityFunction, LogDensity

from ..report import Line, Panel
from ..run_store import RunStore
from ..study import StudyResult
from ..support.analysis import measured_line

FD_SSM = SSM(FiniteDifference(), Sphere(0.1))
WITH_SUMO = "FD-SSM by SUMO"
COMPARED_ENCODER = "shrunk by 10 %"
"""The encoder for which shared and independent draws are compared."""


class LinearGaussian(nn.Module):
    r"""A linear latent-variable model with an encoder $q(z|x) = N(Ax + c, FF^T)$, in float64.

    Args:
        loadings: The matrix $W$, shape `(D, Q)`.
        mean: The mean $b$, shape `(D,)`.
        noise: The standard deviation $s$.
    """

    def __init__(self, loadings: Tensor, mean: Tensor, noise: float) -> None:
        super().__init__()
        d, q = loadings.shape
        self.W = nn.Parameter(loadings.double())
        self.b = nn.Parameter(mean.double())
        self.log_s = nn.Parameter(torch.tensor(math.log(noise), dtype=torch.float64))
        self.A = nn.Parameter(torch.zeros(q, d, dtype=torch.float64))
        self.c = nn.Parameter(torch.zeros(q, dtype=torch.float64))
        self.F = nn.Parameter(torch.eye(q, dtype=torch.float64))

    def covariance(self) -> Tensor:
        """Return $WW^T + s²I$."""
        s2: Tensor = (2 * self.log_s).exp()
        return s2 * torch.eye(len(self.b), dtype=torch.float64) + self.W @ self.W.T

    def log_density(self, x: Tensor) -> Tensor:
        """Return the normalized log-density of the marginal, shape `(B, D) -> (B,)`."""
        factor = torch.linalg.cholesky(self.covariance())
        r = torch.linalg.solve_triangular(factor, (x - self.b).T, upper=False)
        constant = factor.diagonal().log().sum() + len(self.b) * math.log(2 * math.pi) / 2
        value: Tensor = -r.square().sum(0) / 2 - constant
        return value

    def log_weight(self, x: Tensor, noise: Tensor) -> Tensor:
        r"""Return $\log p(z) + \log p(x|z) - \log q(z|x)$ at $z = Ax + c + F · \text{noise}$."""
        z = x @ self.A.T + self.c + noise @ self.F.T
        r = (x - z @ self.W.T - self.b) / self.log_s.exp()
        constant = len(self.b) * (self.log_s + math.log(2 * math.pi) / 2)
        log_det = torch.linalg.slogdet(self.F).logabsdet
        squares = noise.square().sum(1) - z.square().sum(1) - r.square().sum(1)
        value: Tensor = squares / 2 + log_det - constant
        return value

    @torch.no_grad()
    def set_encoder(self, gain: float = 1.0, width: float = 1.0) -> "LinearGaussian":
        """Set the encoder to the posterior, or to a wrong one.

        Args:
            gain: Factor of the posterior mean.
            width: Factor of the posterior standard deviation.

        Returns:
            The model itself.
        """
        s2 = (2 * self.log_s).exp()
        identity = torch.eye(len(self.c), dtype=torch.float64)
        covariance = torch.linalg.inv(identity + self.W.T @ self.W / s2)
        self.A.copy_(gain * covariance @ self.W.T / s2)
        self.c.copy_(-self.A @ self.b)
        self.F.copy_(width * torch.linalg.cholesky(covariance))
        return self

    @torch.no_grad()
    def sample(self, n: int, generator: Generator) -> Tensor:
        """Return `n` samples of the marginal, shape `(n, D)`."""
        noise = torch.randn(n, len(self.b), dtype=torch.float64, generator=generator)
        x: Tensor = noise @ torch.linalg.cholesky(self.covariance()).T + self.b
        return x


@torch.no_grad()
def divergence(truth: LinearGaussian, model: LinearGaussian) -> float:
    """Return the Kullback-Leibler divergence of a model from the truth, in nats.

    It is the difference between the mean NLL and its minimum.
    """
    C, P = truth.covariance(), torch.linalg.inv(model.covariance())
    shift = truth.b - model.b
    excess = (P @ C).trace() - len(C) - torch.logdet(P @ C) + shift @ P @ shift
    return float(excess) / 2


@torch.no_grad()
def relative_fisher(truth: LinearGaussian, model: LinearGaussian) -> float:
    """Return $E‖s - s^*‖² / E‖s^*‖²$ under the truth, in closed form."""
    C, P = truth.covariance(), torch.linalg.inv(model.covariance())
    difference, shift = P - torch.linalg.inv(C), P @ (truth.b - model.b)
    error = (difference @ C @ difference).trace() + shift @ shift
    return float(error / torch.linalg.inv(C).trace())


@dataclass(frozen=True)
class Excess:
    """Difference between the losses of two log-densities, with the same directions.

    Attributes:
        objective: The loss.
        log_density: The second log-density. It takes no conditions.
    """

    objective: SSM
    log_density: DensityFunction

    def __call__(
        self, f: LogDensity, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the differences at `x`, shape `(B,)`."""
        v = self.objective.projection.sample(x, generator)
        return self.objective.at(f, x, v, *cond) - self.objective.at(self.log_density, x, v)


def independent_excess(
    model: LinearGaussian, x: Tensor, step: float, terms: int, generator: Generator
) -> Tensor:
    """Return the excess of the bound if the three nodes have independent random draws.

    Args:
        model: The model.
        x: The data, shape `(B, D)`.
        step: Length of the directions.
        terms: Maximum number of terms of the series.
        generator: Random generator.

    Returns:
        Bound minus loss, shape `(B,)`.
    """
    v = Sphere(step).sample(x, generator)
    plus, minus, center = (
        _estimate(model.log_weight, y, terms, len(model.c), generator) for y in (x + v, x - v, x)
    )
    bound = (plus + minus - 2 * center + (plus - minus).square() / 8) / step**2
    return bound - SSM(FiniteDifference(), Sphere(step)).at(model.log_density, x, v)


def _estimate(
    log_weight: LogWeight, x: Tensor, most: int, latent: int, generator: Generator
) -> Tensor:
    terms = draw_terms(x, most, generator)
    shape = (len(x), int(terms.max()) + 1, latent)
    noise = torch.randn(shape, dtype=x.dtype, generator=generator)
    return log_likelihood(log_weight)(x, noise, terms)


@dataclass(frozen=True)
class SUMOBound:
    """Tightness of the bound, and models trained with it.

    Attributes:
        loadings: The true $W$, one row for each dimension of the data.
        mean: The true $b$.
        noise: The true $s$.
        encoders: Name, `gain` and `width` of encoders. One of them is `COMPARED_ENCODER`.
        gains: Gains of further encoders. Their width is that of the last of `encoders`.
        terms: Maximum numbers of terms of the series.
        steps: Step sizes for the comparison of shared and independent draws.
        rows: Number of samples for the mean excess.
        optimizer: The optimizer.
        iterations: Number of training iterations.
        batch: Number of rows in a batch.
        trainings: Number of models for each objective.
        measure_every: Iterations between two measurements of the divergence.
    """

    loadings: tuple[tuple[float, ...], ...] = ((1.0, 0.3), (-0.8, 0.5), (0.4, 1.0), (0.2, -0.7))
    mean: tuple[float, ...] = (0.5, -0.5, 0.0, 1.0)
    noise: float = 0.5
    encoders: tuple[tuple[str, float, float], ...] = (
        ("posterior", 1.0, 1.0),
        ("too wide", 1.0, 1.3),
        (COMPARED_ENCODER, 0.9, 1.3),
        ("shrunk by 30 %", 0.7, 1.3),
    )
    gains: tuple[float, ...] = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
    terms: tuple[int, ...] = (1, 5, 20, 80)
    steps: tuple[float, ...] = (0.03, 0.1, 0.3)
    rows: int = 10_000
    optimizer: OptimizerConfig = Adam(2e-2, clip=10.0, schedule=CosineSchedule())
    iterations: int = 800
    batch: int = 128
    trainings: int = 3
    measure_every: int = 50
    provenance: ClassVar[str] = (
        "App. B.6, which has no experiment. Its bound is an upper bound, although the text once "
        "calls it a lower bound. Here the nodes share their random draws; in the paper they are "
        "independent. The series is cut at 80 terms, because the square of an infinite one has no "
        "mean. The model and its training are ours."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the excess of the bound, and the divergence of models trained with it."""
        numbers, panels = self._tightness(Generator().manual_seed(derived_seed(seed, "excess")))
        losses, truth, lines = self._losses(), self._truth(), []
        names, models = list(losses), {name: self._initial_models(seed) for name in losses}
        for i in progress(range(len(names))):
            name = names[i]
            curves = torch.tensor([
                self._train(losses[name](model), model, derived_seed(seed, "training", j))
                for j, model in enumerate(models[name])
            ]).double()
            divergences = [mean_of(values, unit="nats") for values in curves.T]
            at = [self.measure_every * (k + 1) for k in range(len(divergences))]
            lines.append(measured_line(name, at, divergences))
            numbers[f"divergence, {name}"] = divergences[-1]
            fisher = [relative_fisher(truth, model) for model in models[name]]
            numbers[f"fisher, {name}"] = mean_of(torch.tensor(fisher))
        bounded, generator = models[WITH_SUMO][0], Generator().manual_seed(seed)
        numbers["excess, trained by SUMO"] = self._excess(bounded, self.terms[-1], generator)
        label = "divergence from the truth (nats)"
        training = Panel("Training", "iteration", label, tuple(lines), y_log=True)
        return StudyResult(numbers, (*panels, training))

    def _losses(self) -> dict[str, Callable[[LinearGaussian], Loss]]:
        """Return the losses of the training, as functions of a model."""
        sumo = SUMO((len(self.loadings[0]),), FD_SSM, self.terms[-1])
        return {
            "MLE": lambda model: objective_loss(MLE(), model.log_density),
            "FD-SSM": lambda model: objective_loss(FD_SSM, model.log_density),
            WITH_SUMO: lambda model: objective_loss(sumo, model.log_weight),
        }

    def _truth(self) -> LinearGaussian:
        loadings = torch.tensor(self.loadings, dtype=torch.float64)
        return LinearGaussian(loadings, loadings.new_tensor(self.mean), self.noise)

    def _excess(
        self, model: LinearGaussian, terms: int, generator: Generator, step: float = 0.1
    ) -> Measurement:
        """Return the mean excess, with the standard deviation of one example as a setting."""
        excesses = self._excesses(model, terms, generator, step)
        return mean_of(excesses, deviation=excesses.std().item(), terms=terms, step=step)

    @torch.no_grad()
    def _excesses(
        self, model: LinearGaussian, terms: int, generator: Generator, step: float = 0.1
    ) -> Tensor:
        """Return the excess at samples of the model, shape `(rows,)`."""
        x, objective = model.sample(self.rows, generator), SSM(FiniteDifference(), Sphere(step))
        bound = SUMO((len(model.c),), Excess(objective, model.log_density), terms)
        return bound(model.log_weight, x, generator=generator)

    def _tightness(self, generator: Generator) -> tuple[dict[str, Measurement], tuple[Panel, ...]]:
        truth, most = self._truth(), self.terms[-1]
        exact = -torch.linalg.inv(truth.covariance()).trace().item() / (2 * len(self.mean))
        numbers = {"loss, exact": Measurement(exact)}
        by_terms = []
        for name, gain, width in self.encoders:
            model = truth.set_encoder(gain, width)
            excesses = [self._excess(model, terms, generator) for terms in self.terms]
            numbers[f"excess, {name}"] = excesses[-1]
            by_terms.append(measured_line(name, self.terms, excesses))
        *_, (_, _, widest) = self.encoders
        by_gain = [
            self._excesses(truth.set_encoder(g, widest), most, generator) for g in self.gains
        ]
        label = "excess of the bound, per dimension"
        shrunk = (
            measured_line("excess", self.gains, [*map(mean_of, by_gain)]),
            Line("deviation of one example", self.gains, tuple(e.std().item() for e in by_gain)),
        )
        more, apart = self._independent(self._with_encoder(COMPARED_ENCODER), generator)
        return numbers | more, (
            Panel("Number of terms", "most terms", label, tuple(by_terms), x_log=True),
            Panel("Encoder", "gain of the encoder's mean", label, shrunk),
            apart,
        )

    def _independent(
        self, model: LinearGaussian, generator: Generator
    ) -> tuple[dict[str, Measurement], Panel]:
        """Return the excess with shared and with independent draws against the step size."""
        most, latent = self.terms[-1], len(model.c)
        x = model.sample(self.rows, generator)
        with torch.no_grad():
            a, b = (_estimate(model.log_weight, x, most, latent, generator) for _ in range(2))
            apart = [
                mean_of(independent_excess(model, x, step, most, generator), step=step)
                for step in self.steps
            ]
        variance = mean_of((a - b).square() / 2, terms=most)
        shared = [self._excess(model, most, generator, step) for step in self.steps]
        theory = tuple(shared[-1].value + variance.value / (4 * step**2) for step in self.steps)
        lines = (
            measured_line("shared draws", self.steps, shared),
            measured_line("independent draws", self.steps, apart),
            Line("Var / 4ε²", self.steps, theory, reference=True),
        )
        numbers = {"variance of SUMO": variance}
        for step, with_shared, with_independent in zip(self.steps, shared, apart, strict=True):
            numbers[f"excess, shared draws, ε = {step}"] = with_shared
            numbers[f"excess, independent draws, ε = {step}"] = with_independent
        label = "excess of the bound, per dimension"
        return numbers, Panel("Draws", "step ε", label, lines, x_log=True, y_log=True)

    def _train(self, loss: Loss, model: LinearGaussian, seed: int) -> list[float]:
        """Train a model, and return its divergence from the truth at regular intervals."""
        truth, generator = self._truth(), Generator().manual_seed(seed)
        step = GradientStep(loss, model, self.optimizer, self.iterations)
        curve = []
        for k in range(1, self.iterations + 1):
            step(truth.sample(self.batch, generator), generator)
            if k % self.measure_every == 0:
                curve.append(divergence(truth, model))
        return curve

    def _with_encoder(self, name: str) -> LinearGaussian:
        """Return the true model with one of the encoders."""
        gain, width = {name: wrong for name, *wrong in self.encoders}[name]
        return self._truth().set_encoder(gain, width)

    def _initial_models(self, seed: int) -> list[LinearGaussian]:
        """Return the models of all trainings before the first iteration."""
        return [self._initial_model(derived_seed(seed, "start", j)) for j in range(self.trainings)]

    def _initial_model(self, seed: int) -> LinearGaussian:
        """Return a random model. Its encoder is its posterior."""
        d, q = len(self.loadings), len(self.loadings[0])
        generator = Generator().manual_seed(seed)
        loadings = 0.5 * torch.randn(d, q, dtype=torch.float64, generator=generator)
        return LinearGaussian(loadings, torch.zeros(d), 1.0).set_encoder()


CPU = SUMOBound()
"""One minute on one core."""

PAPER = SUMOBound(rows=100_000, iterations=10_000, batch=512, trainings=10, measure_every=250)
"""Longer. The paper has no such experiment."""
