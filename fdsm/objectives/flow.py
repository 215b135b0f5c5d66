r"""Flow matching: regression of velocity fields on straight paths from data to noise.

$$z_t = (1 - t) \, x + t \, e, \qquad \dot z_t = e - x, \qquad e \sim N(0, I)$$

The data are at $t = 0$ and the noise at $t = 1$, as in Geng et al. (2025). Lipman et al. (2023)
count time in the other direction. In `fdsm.evaluation.flow_of_velocity` this is `base_time=1.0,
data_time=0.0`.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..derivatives.checks.arguments import (
    check_data,
    check_noise,
    checked_score,
    require_engine,
    require_noise,
)
from ..derivatives.exact import EXACT
from ..operators import jvp
from ..operators.arguments import STEP
from ..tensors import dimension, dot, per_example, randn_like, require_floating
from ..typing import Derivative, NoiseLevels, Score


@dataclass(frozen=True)
class UniformTimes:
    """Times that are uniformly distributed between zero and one."""

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return a time for each row of `x`, shape `(B,)`."""
        require_floating(x)
        return torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)


@dataclass(frozen=True)
class LogitNormalTimes:
    r"""Times $1 / (1 + e^{-y})$ with $y \sim N(μ, s²)$, few of them near zero and one.

    Reference:
        Esser et al. (2024), https://arxiv.org/abs/2403.03206, Eq. 19.

    Attributes:
        mean: The mean $μ$. Negative values prefer times near the data.
        std: The standard deviation $s$.

    Example:
        >>> t = LogitNormalTimes(-0.4, 1.0).sample(torch.zeros(100_000, 2))
        >>> round(t.median().item(), 1)  # 1 / (1 + exp(0.4))
        0.4
    """

    mean: float = -0.4
    std: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0 < self.std < math.inf):
            raise ValueError(
                "mean must be finite and std a positive number, "
                f"but got mean={self.mean}, std={self.std}"
            )

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return a time for each row of `x`, shape `(B,)`."""
        require_floating(x)
        y = torch.randn(len(x), generator=generator, device=x.device, dtype=x.dtype)
        return (self.mean + self.std * y).sigmoid()


@dataclass(frozen=True)
class FlowMatching:
    r"""Flow matching of a velocity $v(z, t)$.

    $$J = \frac1d ‖v(z_t, t) - (e - x)‖²$$

    The minimum is the mean velocity of the paths through $z$, $E[e - x \,|\, z_t = z]$. Samples of
    noise that follow it from $t = 1$ to $0$ become samples of the data. It needs no derivative.

    Reference:
        Lipman et al. (2023), https://arxiv.org/abs/2210.02747, Eq. 23 with $σ_{min} = 0$ and time
        reversed.
        Geng et al. (2025), https://arxiv.org/abs/2505.13447, Sec. 3.

    Attributes:
        times: The distribution of $t$: `UniformTimes`, `LogitNormalTimes`, or any noise levels
            between zero and one.

    Example:
        >>> velocity = lambda z, t: z * ((2 * t - 1) / ((1 - t)**2 + t**2))[:, None]
        >>> x = torch.randn(100_000, 2, generator=torch.Generator().manual_seed(0))
        >>> loss = FlowMatching()(velocity, x, generator=torch.Generator().manual_seed(1)).mean()
        >>> round(loss.item(), 1)  # π/2, at the minimum for standard normal data
        1.6
    """

    times: NoiseLevels = UniformTimes()

    def __post_init__(self) -> None:
        require_noise(self.times, "times")

    def __call__(
        self, velocity: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, `(B,)`, of a velocity `(B, *E), (B,), *cond -> (B, *E)`."""
        t = self.times.sample(x, generator)
        return self.at(velocity, x, randn_like(x, generator), t, *cond)

    def at(self, velocity: Score, x: Tensor, noise: Tensor, t: Tensor, *cond: Tensor) -> Tensor:
        """Return the losses for given noise $e$, shape `(B, *E)`, and times, shape `(B,)`."""
        z, v = _point_and_velocity(x, noise, t)
        residual = checked_score(velocity)(z, t, *cond) - v
        return dot(residual, residual) / dimension(x)


@dataclass(frozen=True)
class MeanFlow:
    r"""Flow matching of an average velocity $u(z, r, t)$, for samples from one evaluation.

    $$u(z_t, r, t) = \frac{1}{t - r} \int_r^t v(z_τ, τ) \, dτ, \qquad
      z_r = z_t - (t - r) \, u(z_t, r, t)$$

    Differentiating $(t - r) u$ in $t$ along a path gives an identity without the integral, which
    is the target of a regression. Its derivative is held constant, and the velocity $v$ replaced
    by that of the example:

    $$J = \frac{w}{d} ‖Δ‖², \qquad
      Δ = u(z_t, r, t) - \Bigl( v - (t - r) \bigl( (v^T ∇_z) u + ∂_t u \bigr) \Bigr), \qquad
      v = e - x, \qquad w = (‖Δ‖² + c)^{-p}$$

    A sample is `e - u(e, r, t)` with $r = 0$, $t = 1$ and standard normal `e`; several shorter
    steps have a smaller error. At $r = t$ the objective is `FlowMatching` of $v(z, t) = u(z, t,
    t)$. The derivative is a forward pass without a graph, so that attention kernels and sharded
    modules work, and the memory is that of `FlowMatching`.

    Reference:
        Geng et al. (2025), Mean flows for one-step generative modeling,
        https://arxiv.org/abs/2505.13447, Algorithm 1 and 2: the average velocity in Eq. 3, the
        identity in Eq. 6, its derivative in Eq. 8, the loss and the target in Eq. 9 to 11, the
        weight in Eq. 22.

    Attributes:
        derivative: The engine of the derivative. Default: Taylor mode, or autodiff for models with
            a function that Taylor mode has no rule for.
        times: The distribution of the two times of an example. The later one is $t$.
        unequal: Share of the examples with $r < t$. The others have $r = t$.
        p: The exponent of the weight $w$. The paper uses 1. With zero, the default, the minimum
            is the average velocity. Other exponents give less weight to examples far from it. In
            few dimensions this moves the minimum.
        c: The constant of the weight, which keeps it finite.
        step: The step of finite differences along $(v, 1)$ in $z$ and $t$, which leaves the
            interval of times by at most this step. Other engines do not depend on it.

    Example:
        >>> std = lambda t: ((1 - t)**2 + t**2).sqrt()  # of z, for standard normal data
        >>> u = lambda z, r, t: z * ((1 - std(r) / std(t)) / (t - r))[:, None]
        >>> z, r, t = torch.ones(1, 2), torch.tensor([0.2]), torch.tensor([0.7])
        >>> v = z * ((2 * t - 1) / std(t)**2)[:, None]
        >>> u(z, r, t), MeanFlow().target(u, z, v, r, t)
        (tensor([[-0.1656, -0.1656]]), tensor([[-0.1656, -0.1656]]))
    """

    derivative: Derivative = EXACT
    times: NoiseLevels = LogitNormalTimes()
    unequal: float = 0.25
    p: float = 0.0
    c: float = 1e-3
    step: float = STEP

    def __post_init__(self) -> None:
        require_engine(self.derivative)
        require_noise(self.times, "times")
        if not 0 <= self.unequal <= 1:
            raise ValueError(f"unequal must be a share from 0 to 1, but got {self.unequal}")
        if not (0 <= self.p < math.inf and 0 < self.c < math.inf):
            raise ValueError(
                f"p must not be negative and c positive, but got p={self.p}, c={self.c}"
            )

    def __call__(
        self, velocity: Score, x: Tensor, /, *cond: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, `(B,)`, of `u`: `(B, *E), (B,), (B,), *cond -> (B, *E)`."""
        first, second = self.times.sample(x, generator), self.times.sample(x, generator)
        t = torch.maximum(first, second)
        is_unequal = torch.rand(len(x), generator=generator, device=x.device) < self.unequal
        r = torch.where(is_unequal, torch.minimum(first, second), t)
        return self.at(velocity, x, randn_like(x, generator), r, t, *cond)

    def at(
        self, velocity: Score, x: Tensor, noise: Tensor, r: Tensor, t: Tensor, *cond: Tensor
    ) -> Tensor:
        """Return the losses for given noise $e$, shape `(B, *E)`, and times, shape `(B,)`."""
        z, v = _point_and_velocity(x, noise, t)
        target = self.target(velocity, z, v, r, t, *cond)
        residual = checked_score(velocity)(z, r, t, *cond) - target
        square = dot(residual, residual)
        return square / (square.detach() + self.c) ** self.p / dimension(x)

    @torch.no_grad()
    def target(
        self, velocity: Score, z: Tensor, v: Tensor, r: Tensor, t: Tensor, *cond: Tensor
    ) -> Tensor:
        r"""Return $v - (t - r) \, ((v^T ∇_z) u + ∂_t u)$ at $z$, $(B, *E)$, without a graph."""
        _, slope = jvp(
            checked_score(velocity), z, v, r, t, *cond,
            cond_directions=(None, 1.0, *[None] * len(cond)),
            derivative=self.derivative,
            step=self.step,
        )  # fmt: skip
        return v - per_example(t - r, z) * slope


def _point_and_velocity(x: Tensor, noise: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Return the point of the path from data to noise at the time `t`, and its velocity."""
    check_data(x)
    check_noise(x, noise)
    share = per_example(t, x)
    return (1 - share) * x + share * noise, noise - x
