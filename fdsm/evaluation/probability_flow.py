r"""Exact log-likelihoods of velocity fields, scores and noise-conditional log-densities.

Samples of a base density that follow $\dot x = v(x, t)$ have a density which changes along their
path by

$$\frac{d}{dt} \log p_t(x(t)) = -∇·v(x(t), t),$$

so $\log p$ at a point is that of the base where its path began, minus the integral of the
divergence. Data with noise of standard deviation $σ$ and score $s$ have the velocity
$dx / d\log σ = -σ² s(x, σ)$, the probability flow.

Reference:
    Chen et al. (2018), https://arxiv.org/abs/1806.07366, Theorem 1.
    Song et al. (2021), https://arxiv.org/abs/2011.13456, Eq. 13 and 39.
    Karras et al. (2022), https://arxiv.org/abs/2206.00364, Eq. 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from ..derivatives.autodiff import score_of
from ..derivatives.checks.arguments import as_normalized, check_values, checked_score
from ..derivatives.exact import EXACT
from ..noise import require_levels
from ..operators import divergence, laplacian
from ..operators.arguments import STEP
from ..projections import Sphere, draw_directions
from ..tensors import dimension, per_example, tile
from ..typing import Derivative, LogDensity, NormalizedDensity, Score
from .dormand_prince import integrate
from .measurement import Measurement, mean_of

TOLERANCE = 1e-6
ROUNDING = 100
"""The smallest tolerance, in units of the rounding error: 1e-5 in float32. Below it the solver
takes steps that only resolve the rounding of the model."""
COARSER = 10.0
"""The factor of the tolerance of a second solution. The difference to it is the stated error."""
DIRECTIONS = Sphere(STEP)
"""The distribution of random directions. The length is the step of finite differences."""
MIN_DIRECTIONS, SKEWNESS = 4, 25
"""Smallest number of directions, and a constant of their error. An estimate of a trace from few
directions is skewed, and its standard error too small. Times $\\sqrt{1 + 25/(V - 3)}$, twice the
error covers 95 % of the estimates in the most skewed case, a matrix of rank one (simulated)."""

Traces = Callable[..., Tensor]
"""`x, v, t, *cond -> (V, B)`: the divergence along each direction `(V, B, *E)`, or the exact one
of shape `(1, B)` if `v` is None."""


@dataclass(frozen=True, eq=False)
class ProbabilityFlow:
    r"""A density given by samples of a base density that follow a velocity field.

    `flow_of_velocity`, `flow_of_score` and `flow_of_log_density` return one. It is normalized, has
    `log_prob` and `sample`, and can be used as any other density: in `nll`, as a proposal of
    `importance_log_partition`, in `MLE`.

    Attributes:
        velocity: The velocity $v(x, t)$, `(B, *E), (B,), *cond -> (B, *E)`.
        traces: Its divergence, exact or along directions.
        base: The density at the time `base_time`.
        base_time: The time of the base.
        data_time: The time of the data.
        tolerance: Largest error of a step of the solver, relative to $1 + |x|$ for points and in
            nats for log-densities.
    """

    velocity: Score
    traces: Traces
    base: NormalizedDensity
    base_time: float
    data_time: float
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"tolerance must be a positive number, but is {self.tolerance}")

    def log_prob(self, x: Tensor, *cond: Tensor) -> Tensor:
        r"""Return $\log p(x)$ with the exact divergence, `(B, *E) -> (B,)`, in float64.

        It can be differentiated in `x` and in the parameters of the velocity. The memory grows
        with the number of steps, so use `torch.no_grad()` where no gradient is needed.
        `log_likelihood` also returns an error.
        """
        check_values(x)
        return self._log_probs(x, None, cond).squeeze(0)

    @torch.no_grad()
    def sample(
        self, n: int, generator: Generator | None = None, cond: Sequence[Tensor] = ()
    ) -> Tensor:
        """Return `n` independent samples, shape `(n, *E)`."""
        none = replace(self, traces=lambda x, v, t, *cond: x.new_zeros(1, len(x)))
        noise = self.base.sample(n, generator)
        return none._follow(noise, None, cond, self.base_time, self.data_time)[0]

    @torch.no_grad()
    def sample_with_log_prob(
        self, n: int, generator: Generator | None = None, cond: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor]:
        r"""Return `n` samples, shape `(n, *E)`, and their $\log p(x)$, shape `(n,)`."""
        noise = self.base.sample(n, generator)
        x, change = self._follow(noise, None, cond, self.base_time, self.data_time)
        return x, self.base.log_prob(noise).double() - change.squeeze(0)

    def _log_probs(self, x: Tensor, v: Tensor | None, cond: Sequence[Tensor]) -> Tensor:
        r"""Return $\log p(x)$ along each direction, or exactly if there is none, `(V, B)`."""
        noise, change = self._follow(x, v, cond, self.data_time, self.base_time)
        return self.base.log_prob(noise).double() + change

    def _follow(
        self, x: Tensor, v: Tensor | None, cond: Sequence[Tensor], start: float, end: float
    ) -> tuple[Tensor, Tensor]:
        """Return the ends of the paths from `x`, `(B, *E)`, and integrals of traces, `(V, B)`."""
        d, n = dimension(x), 1 if v is None else len(v)
        tolerance = max(self.tolerance, ROUNDING * torch.finfo(x.dtype).eps)

        def rate(time: float, state: Tensor) -> Tensor:
            points, t = state[:, :d].to(x.dtype).view_as(x), x.new_full(x.shape[:1], time)
            velocity = self.velocity(points, t, *cond).flatten(1)
            traces = self.traces(points, v, t, *cond)
            return torch.cat([velocity.double(), traces.T.double()], 1)

        def size(error: Tensor, state: Tensor) -> Tensor:
            scaled = torch.cat([error[:, :d] / (1 + state[:, :d].abs()), error[:, d:]], 1)
            parts = torch.split(scaled.square(), [d, n], 1)
            return torch.stack([part.mean(1) for part in parts]).max().sqrt() / tolerance

        state = torch.cat([x.flatten(1).double(), x.new_zeros(len(x), n).double()], 1)
        state = integrate(rate, state, start, end, size)
        return state[:, :d].to(x.dtype).view_as(x), state[:, d:].T


def flow_of_velocity(
    velocity: Score,
    base: NormalizedDensity | Distribution,
    *,
    base_time: float = 0.0,
    data_time: float = 1.0,
    derivative: Derivative = EXACT,
    tolerance: float = TOLERANCE,
) -> ProbabilityFlow:
    r"""Return the density of a velocity field, such as one trained by flow matching.

    Reference:
        Lipman et al. (2023), https://arxiv.org/abs/2210.02747.

    Args:
        velocity: The velocity $v(x, t)$, `(B, *E), (B,), *cond -> (B, *E)`.
        base: The density at the time `base_time`, with `log_prob` and `sample`.
        base_time: The time of the base.
        data_time: The time of the data.
        derivative: The engine. Default: `Taylor`, with `Autodiff` for models that use functions
            without a Taylor rule.
        tolerance: Largest error of a step of the solver, relative to $1 + |x|$ for points and in
            nats for log-densities.

    Returns:
        The density.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> normal = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
        >>> grow = lambda x, t: x  # x(1) = e x(0)
        >>> flow = flow_of_velocity(grow, normal)
        >>> flow.log_prob(torch.zeros(1, 2))  # -log 2π - 2
        tensor([-3.8379], dtype=torch.float64)
    """
    velocity = checked_score(velocity)

    def traces(x: Tensor, v: Tensor | None, t: Tensor, *cond: Tensor) -> Tensor:
        if v is None:
            return divergence(velocity, x, t, *cond, derivative=derivative)[None]
        copies = (tile(row, len(v)) for row in (t, *cond))
        _, slopes = derivative.quadratic(velocity, tile(x, len(v)), v.flatten(0, 1), *copies)
        return _trace(slopes, v)

    return ProbabilityFlow(velocity, traces, as_normalized(base), base_time, data_time, tolerance)


def flow_of_score(
    score: Score,
    base: NormalizedDensity | Distribution,
    levels: Sequence[float],
    *,
    derivative: Derivative = EXACT,
    tolerance: float = TOLERANCE,
) -> ProbabilityFlow:
    r"""Return the density of a score that is given the noise level, by its probability flow.

    It is the density of data with noise of the last level. The base is the density of data with
    noise of the first level, which is not learned: `fit_gaussian(x, noise=levels[0])` has the mean
    and covariance of the data; $N(0, σ_1² I)$ is enough if $σ_1$ is much larger than the data.
    The error of the base is not part of the error of `log_likelihood`: compare two first levels.

    Args:
        score: The score given the noise level, `(B, *E), (B,), *cond -> (B, *E)`.
        base: The density of the data with noise of the first level, with `log_prob` and `sample`.
        levels: Noise levels from the largest to the smallest that the score has learned. Only the
            first and the last are used.
        derivative: The engine; see `flow_of_velocity`.
        tolerance: Largest error of a step of the solver; see `flow_of_velocity`.

    Returns:
        The density, with the logarithm of the noise level as its time.

    Raises:
        ValueError: If the levels are not positive or do not decrease.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> noisy_normal = lambda x, sigma: -x / (1 + sigma.square())[:, None]
        >>> base = Independent(Normal(torch.zeros(2), 101**0.5), 1)
        >>> flow = flow_of_score(noisy_normal, base, (10.0, 0.01))
        >>> flow.log_prob(torch.zeros(1, 2))  # -log 2π
        tensor([-1.8380], dtype=torch.float64)
    """
    first, last = _ends(levels)
    score = checked_score(score)

    def velocity(x: Tensor, t: Tensor, *cond: Tensor) -> Tensor:
        sigma = t.exp()
        return -per_example(sigma.square(), x) * score(x, sigma, *cond)

    return flow_of_velocity(
        velocity, base,
        base_time=first, data_time=last, derivative=derivative, tolerance=tolerance,
    )  # fmt: skip


def flow_of_log_density(
    log_density: LogDensity,
    base: NormalizedDensity | Distribution,
    levels: Sequence[float],
    *,
    derivative: Derivative = EXACT,
    tolerance: float = TOLERANCE,
) -> ProbabilityFlow:
    r"""Return the density of a log-density that is given the noise level; see `flow_of_score`.

    The model may be unnormalized, with another constant at every level, since only its score
    $∇f(x, σ)$ and Laplacian are used. The Laplacian takes $d + 2$ coefficients of every tensor of
    the model, and a gradient through a gradient is not needed.

    Args:
        log_density: The log-density given the noise level, `(B, *E), (B,), *cond -> (B,)`.
        base: The density of the data with noise of the first level, with `log_prob` and `sample`.
        levels: Noise levels from the largest to the smallest that the model has learned.
        derivative: The engine; see `flow_of_velocity`.
        tolerance: Largest error of a step of the solver; see `flow_of_velocity`.

    Returns:
        The density, with the logarithm of the noise level as its time.

    Raises:
        ValueError: If the levels are not positive or do not decrease.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> energy = lambda x, sigma: -x.square().sum(1) / (2 * (1 + sigma.square()))
        >>> base = Independent(Normal(torch.zeros(2), 101**0.5), 1)
        >>> flow = flow_of_log_density(energy, base, (10.0, 0.01))
        >>> log_likelihood(flow, torch.zeros(1, 2)).log_prob  # -log 2π
        tensor([-1.8380], dtype=torch.float64)
    """
    first, last = _ends(levels)
    score = score_of(log_density)

    def velocity(x: Tensor, t: Tensor, *cond: Tensor) -> Tensor:
        return -per_example(t.exp().square(), x) * score(x, t.exp(), *cond)

    def traces(x: Tensor, v: Tensor | None, t: Tensor, *cond: Tensor) -> Tensor:
        sigma = t.exp()
        if v is None:
            trace = laplacian(log_density, x, sigma, *cond, derivative=derivative)[None]
        else:
            rows = (tile(row, len(v)) for row in (sigma, *cond))
            jet = derivative.jet(log_density, tile(x, len(v)), v.flatten(0, 1), 2, *rows)
            trace = _trace(jet[2], v)
        return -sigma.square() * trace

    return ProbabilityFlow(velocity, traces, as_normalized(base), first, last, tolerance)


@dataclass(frozen=True, eq=False)
class LogLikelihood:
    r"""Log-likelihoods with their errors, one per row, in nats.

    Attributes:
        log_prob: $\log p(x)$, shape `(B,)`, in float64.
        solver_error: Difference to the solution with ten times the tolerance, shape `(B,)`.
        divergence_error: Error of random directions, shape `(B,)`. Zero for the exact divergence.
    """

    log_prob: Tensor
    solver_error: Tensor
    divergence_error: Tensor

    @property
    def error(self) -> Tensor:
        """Both errors in quadrature. Twice the error covers the truth in 95 % of the rows."""
        return torch.hypot(self.solver_error, self.divergence_error)

    @property
    def nll(self) -> Measurement:
        """The mean negative log-likelihood, with the error of a mean and that of the solver.

        The error of random directions is part of the spread of the rows.
        """
        mean = mean_of(-self.log_prob, unit="nats", space="model")
        error = math.hypot(mean.error or 0.0, self.solver_error.mean().item())
        return Measurement(mean.value, error, mean.settings)


@torch.no_grad()
def log_likelihood(
    flow: ProbabilityFlow,
    x: Tensor,
    *cond: Tensor,
    directions: int | None = None,
    generator: Generator | None = None,
    chunk: int = 1000,
) -> LogLikelihood:
    r"""Return $\log p(x)$ of each row with its error.

    The equations are solved with the tolerance of the flow and once more with ten times as much.
    The difference is the stated error of the solver. It is about eight times the true error, which
    is nearly proportional to the tolerance. (The difference to twice the tolerance is about as
    large as the error, and covered it in as few as 47 % of the rows of mixtures.) Random
    directions are drawn once per row and kept along its path. Their spread is the error of the
    divergence.

    Reference:
        Grathwohl et al. (2019), https://arxiv.org/abs/1810.01367, for random directions.

    Args:
        flow: The density.
        x: The data, shape `(B, *E)`.
        cond: Further arguments of the velocity, one row per example.
        directions: Number of random directions per row for an unbiased estimate of the
            divergence, at least four. Default: the exact divergence.
        generator: Random number generator of the directions. Default: torch's global one.
        chunk: Number of rows that are solved together and take the same steps.

    Returns:
        The log-likelihoods. `bits_per_dim(result.nll, d)` converts their mean.

    Raises:
        SolverError: If the accuracy cannot be reached.
        ValueError: If there are fewer than four directions.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> normal = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
        >>> flow = flow_of_velocity(lambda x, t: x.sin(), normal)
        >>> result = log_likelihood(flow, torch.zeros(3, 2))
        >>> result.log_prob  # -log 2π - 2
        tensor([-3.8379, -3.8379, -3.8379], dtype=torch.float64)
        >>> bool((result.error < 1e-4).all())
        True
    """
    check_values(x)
    if directions is not None and directions < MIN_DIRECTIONS:
        raise ValueError(
            f"directions must be at least {MIN_DIRECTIONS}, because their spread is the error, "
            f"but is {directions}. Leave it out for the exact divergence"
        )
    smallest = ROUNDING * torch.finfo(x.dtype).eps
    coarse = replace(flow, tolerance=COARSER * max(flow.tolerance, smallest))
    results = []
    for part, *rows in zip(*(torch.split(a, chunk) for a in (x, *cond)), strict=True):
        v = (
            None
            if directions is None
            else draw_directions(DIRECTIONS, part, directions, generator)
        )
        fine, rough = (each._log_probs(part, v, rows) for each in (flow, coarse))
        results.append((fine.mean(0), (fine - rough).mean(0).abs(), _error(fine)))
    return LogLikelihood(*(torch.cat(parts) for parts in zip(*results, strict=True)))


def _error(values: Tensor) -> Tensor:
    """Return the error of the mean over directions, shape `(V, B) -> (B,)`."""
    n = len(values)
    if n == 1:  # the exact divergence
        return torch.zeros_like(values[0])
    return values.std(0) * math.sqrt((1 + SKEWNESS / (n - 3)) / n)


def _trace(curvatures: Tensor, v: Tensor) -> Tensor:
    """Return $d / C_v$ times $v^T A v$, whose mean is the trace, `(V · B,) -> (V, B)`."""
    x = v[0]
    return curvatures.view(len(v), -1) * (dimension(x) / DIRECTIONS.second_moment(x))


def _ends(levels: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms of the first and the last level."""
    require_levels(*levels)
    if len(levels) < 2 or levels[0] <= levels[-1]:
        raise ValueError(
            f"levels must decrease from the noise of the base to that of the data, but are "
            f"{list(levels[:3])}"
        )
    return math.log(levels[0]), math.log(levels[-1])
