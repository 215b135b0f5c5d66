r"""Stochastic gradient descent on FD-SSM with a step that decays (Theorem 2).

The theorem says that FD-SSM under stochastic gradient descent converges to a stationary point of
SSM if learning rates satisfy $\sum α_k = ∞$, $\sum α_k² < ∞$ and the step $ε$ decays to zero.

It is watched on a model with a known optimum, $\log p_θ(x) = θ^T T(x)$ with
$T = (-\sum x_i²/2, -\sum x_i⁴/4)$, on data with two wells in each coordinate. SSM and FD-SSM are
both quadratic in $θ$,

$$J_ε(θ) = \tfrac12 θ^T A_ε θ + b_ε^T θ, \qquad
  A_ε = \frac1{ε²} E[D D^T], \quad b_ε = \frac1{ε²} E[T(x+v) + T(x-v) - 2T(x)], \quad
  D = \tfrac12 (T(x+v) - T(x-v))$$

and polynomial in $x$ and $v$, so that both minimisers are ratios of moments: that of SSM is
$A_0^{-1}$, and that of FD-SSM with a constant step is off by a bias of order $ε²$ that is known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from ..derivatives import FiniteDifference, Taylor
from ..evaluation import Measurement, mean_of
from ..objectives import SSM
from ..projections import Sphere
from ..samplers import Progress
from ..tensors import dot
from ..training import derived_seed
from ..typing import LogDensity, Objective
from .place import Place
from .study import Findings, Line, Panel


@dataclass(frozen=True)
class Wells:
    r"""Independent coordinates, each $\tfrac12 N(-m, s²) + \tfrac12 N(m, s²)$.

    Attributes:
        centre: Where the wells are, $m$.
        width: How wide they are, $s$.
        dimension: How many coordinates there are.

    Example:
        >>> Wells(centre=0.0, width=2.0).moments()
        (4.0, 48.0, 960.0)
    """

    centre: float = 1.0
    width: float = 0.5
    dimension: int = 2

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Return `n` independent samples in float64, shape `(n, D)`."""
        shape = (n, self.dimension)
        signs = 2 * torch.randint(2, shape, dtype=torch.float64, generator=generator) - 1
        noise = torch.randn(shape, dtype=torch.float64, generator=generator)
        return self.centre * signs + self.width * noise

    def moments(self) -> tuple[float, float, float]:
        """Return $E[x_i²]$, $E[x_i⁴]$ and $E[x_i⁶]$."""
        m, s = self.centre**2, self.width**2
        return (
            m + s,
            m**2 + 6 * m * s + 3 * s**2,
            m**3 + 15 * m**2 * s + 45 * m * s**2 + 15 * s**3,
        )


def statistics(x: Tensor) -> Tensor:
    r"""Return $(-\sum x_i²/2, -\sum x_i⁴/4)$, shape `(B, D) -> (B, 2)`."""
    return torch.stack([-x.square().sum(1) / 2, -x.pow(4).sum(1) / 4], 1)


def quadratic(data: Wells, step: float) -> tuple[Tensor, Tensor]:
    r"""Return $A_ε$ and $b_ε$ of the mean of FD-SSM, for directions on the sphere of radius $ε$.

    Args:
        data: Where `x` comes from.
        step: The radius $ε$; zero for SSM.

    Returns:
        Of shapes `(2, 2)` and `(2,)`, in float64.

    Example:
        >>> A, b = quadratic(Wells(centre=0.0, width=1.0), 0.0)
        >>> A @ A.new_tensor([1.0, 0.0]) + b  # the gradient at the truth, a standard normal
        tensor([0., 0.], dtype=torch.float64)
    """
    d, (x2, x4, x6) = data.dimension, data.moments()
    # E[v_i²], E[v_i⁴] and E[v_i⁶] over ε², times d
    v2, v4, v6 = 1.0, 3 * step**2 / (d + 2), 15 * step**4 / ((d + 2) * (d + 4))
    mixed = x4 * v2 + x2 * v4
    A = [[x2 * v2, mixed], [mixed, x6 * v2 + 2 * x4 * v4 + x2 * v6]]
    b = [-v2, -3 * x2 * v2 - v4 / 2]
    return torch.tensor(A, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)


@dataclass(frozen=True)
class Family:
    r"""The model in coordinates in which the mean of SSM is round, $φ = L^T θ$ for $A_0 = L L^T$.

    Then $‖φ - φ^*‖²$ is twice the excess of SSM, and one learning rate suits all directions.

    Attributes:
        data: What it is fitted to.
    """

    data: Wells

    def log_density(self) -> LogDensity:
        """Return the log-density of each row under its own parameters, `(B, D), (B, 2) -> (B,)`.

        The gradient of a sum of losses is then that of every example by itself.
        """
        whitened = torch.linalg.inv(self._factor()).T
        return lambda x, phi: dot(phi, statistics(x) @ whitened)

    def optimum(self, step: float = 0.0) -> Tensor:
        """Return the minimiser of FD-SSM with a step, or of SSM, shape `(2,)`."""
        A, b = quadratic(self.data, step)
        phi: Tensor = self._factor().T @ torch.linalg.solve(A, -b)
        return phi

    def gradient(self, phi: Tensor, step: float = 0.0) -> Tensor:
        """Return the mean gradient of FD-SSM with a step, or of SSM, shape `(2,) -> (2,)`."""
        A, b = quadratic(self.data, step)
        inverse: Tensor = torch.linalg.inv(self._factor())
        return inverse @ (A @ (inverse.T @ phi) + b)

    def _factor(self) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(quadratic(self.data, 0.0)[0])
        return factor


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
        steps: How the step goes down, by name.
        data: What the model is fitted to.
        iterations: How many.
        batch: How many rows a batch has.
        descents: How many independent descents are averaged.
        offset: The $k_0$ of the learning rates.
        start: Where descents start, as $φ - φ^*$.
        looks: How many iterations the distance is measured at.
        title: What it shows.
        source: Where in the paper it is.
    """

    steps: tuple[tuple[str, Decay | Exact], ...]
    data: Wells = Wells()
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
    source: str = field(
        default="Theorem 2 and App. A.4, whose conditions are those of Bottou et al. (2018) and a "
        "step that decays to zero. The paper says neither how fast, nor measures it, and trains "
        "with constant steps everywhere; the model with a known optimum and the powers are ours.",
        repr=False,
    )

    def measure(self, place: Place, seed: int, progress: Progress) -> Findings:
        """Return the distances, and the bias of constant steps against what it should be."""
        family, looks = Family(self.data), self._looks()
        best, lines = family.optimum(), []
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.steps))):
            name, steps = self.steps[i]
            path = descend(self, steps, looks, seed)
            distance = torch.linalg.vector_norm(path - best, dim=2)
            error = distance.std(1) / math.sqrt(self.descents)
            means, errors = tuple(distance.mean(1).tolist()), tuple(error.tolist())
            lines.append(Line(name, tuple(map(float, looks)), means, errors))
            numbers[f"distance, {name}"] = mean_of(distance[-1], iterations=self.iterations)
            if steps.limit():
                numbers |= _biases(name, family, steps.limit(), path[-1])
                bias = (family.optimum(steps.limit()) - best).norm().item()
                ends = float(looks[0]), float(looks[-1])
                lines.append(Line(f"bias, {name}", ends, (bias, bias), reference=True))
        scale = lines[-1].y[-1] * math.sqrt(looks[-1])
        late = [float(k) for k in looks if k >= self.offset]
        rate = tuple(scale / math.sqrt(k) for k in late)
        lines.append(Line("iteration^(-1/2)", tuple(late), rate, reference=True))
        label = "distance to the optimum of SSM"
        panel = Panel("Distance", "iteration", label, tuple(lines), x_log=True, y_log=True)
        return Findings(numbers, (panel,))

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
