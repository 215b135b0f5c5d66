"""Models whose every derivative and objective is known in closed form."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn


class Gaussian(nn.Module):
    r"""$\log p(x) = -a‖x‖²/2 - c$ with a learnable precision `a`, on data from $N(0, I)$.

    Everything below is a mean over such data, per dimension unless it says otherwise.
    """

    def __init__(self, precision: float) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(precision))

    def log_density(self, x: Tensor, *cond: Tensor) -> Tensor:
        return -self.a * x.flatten(1).square().sum(1) / 2

    def normalized(self, x: Tensor) -> Tensor:
        d = x[0].numel()
        return self.log_density(x) + d * (self.a / (2 * math.pi)).log() / 2

    def score(self, x: Tensor, *cond: Tensor) -> Tensor:
        return -self.a * x

    def noisy(self, x: Tensor, sigma: Tensor, *cond: Tensor) -> Tensor:
        """The log-density of noisy data if `a` is one, at all levels."""
        variance = 1 + sigma**2
        d = x[0].numel()
        return self.log_density(x) / variance - d * variance.log() / 2

    def noisy_score(self, x: Tensor, sigma: Tensor, *cond: Tensor) -> Tensor:
        return -self.a * x / (1 + sigma.view(-1, *[1] * (x.ndim - 1)) ** 2)

    def layers(self, x: Tensor) -> list[nn.Module]:
        """The same density as a network that works layer by layer."""
        return [nn.Flatten(), _HalfSquare(self.a)]


class _HalfSquare(nn.Module):
    elementwise = True

    def __init__(self, a: Tensor) -> None:
        super().__init__()
        self.a = a

    def forward(self, x: Tensor) -> Tensor:
        return -self.a * x.square() / 2


Expected = Callable[[Tensor, int], Tensor]
"""The mean of an objective as a function of the precision and the dimension."""


def sm(a: Tensor, d: int) -> Tensor:
    """$-a + a²/2$."""
    return -a + a**2 / 2


def dsm(sigma: float) -> Expected:
    """$E[(-a(x + n) + n/σ²)²] = a²(1 + σ²) - 2a + 1/σ²$."""
    return lambda a, d: a**2 * (1 + sigma**2) - 2 * a + 1 / sigma**2


def multiscale_dsm(sigma_0: float, levels: Tensor) -> Expected:
    """$E[σ_0⁴/σ² (-a(x + σz) + σz/σ_0²)²] = a²σ_0⁴/σ² + (1 - aσ_0²)²$, averaged over levels."""
    return lambda a, d: (a**2 * sigma_0**4 / levels**2 + (1 - a * sigma_0**2) ** 2).mean()


def annealed_sm(levels: Tensor) -> Expected:
    """$σ²(-a + a²(1 + σ²)/2)$, the blurred data having variance $1 + σ²$."""
    return lambda a, d: (levels**2 * (-a + a**2 * (1 + levels**2) / 2)).mean()


def annealed_dsm(levels: Tensor) -> Expected:
    """$E[(-aσ(x + σz) + z)²] = a²σ² + (1 - aσ²)²$, averaged over levels."""
    return lambda a, d: (a**2 * levels**2 + (1 - a * levels**2) ** 2).mean()


def flow_matching(times: Tensor) -> Expected:
    """$E[(-az - v)²] = a²((1 - t)² + t²) + 2a(2t - 1) + 2$, averaged over times."""
    return lambda a, d: (a**2 * ((1 - times) ** 2 + times**2) + 2 * a * (2 * times - 1) + 2).mean()


def mean_flow(times: Tensor, unequal: float) -> Expected:
    r"""$E[(-az - bv)²]$ with the constant $b = 1 + (t - r)a$, averaged over pairs of times.

    $∂_z u = -a$ and $∂_t u = 0$, so the target is $v - (t - r)(-av) = bv$.
    """
    t = torch.maximum(times, times[:, None])

    def expected(a: Tensor, d: int) -> Tensor:
        def mean(tau: Tensor | float) -> Tensor:
            b = 1 + tau * a.detach()
            return (a**2 * ((1 - t) ** 2 + t**2) + 2 * a * b * (2 * t - 1) + 2 * b**2).mean()

        return unequal * mean((times - times[:, None]).abs()) + (1 - unequal) * mean(0.0)

    return expected


def dual_dsm(levels: Tensor) -> Expected:
    r"""The mean for `Gaussian.noisy`, in terms of the share $ρ = σ²/(1 + σ²)$ of the noise.

    In $x$: $1 + ρ(a² - 2a)$. In the level the residual is $ρ(aq - d) - (r - d)$ where $q$ and $r$
    are $χ²_d$ with the covariance $2dρ$, so half its mean square per dimension is
    $1 + ρ²(a² - 2a) + dρ²(a - 1)²/2$.
    """
    share = levels**2 / (1 + levels**2)
    return lambda a, d: (
        2 + (share + share**2) * (a**2 - 2 * a) + d * share**2 * (a - 1) ** 2 / 2
    ).mean()


def fokker_planck(levels: Tensor) -> Expected:
    r"""The mean for `Gaussian.noisy`: the residual is $a(1 - a)ρq + dρ(a - 1)$, $q ∼ χ²_d$."""
    share = levels**2 / (1 + levels**2)
    return lambda a, d: ((share * (a - 1)) ** 2 * ((d + 2) * a**2 - 2 * d * a + d) / 2).mean()


def score_fokker_planck(levels: Tensor) -> Expected:
    r"""The mean for `Gaussian.noisy_score`: the residual is $2a(1 - a) σ²y/(1 + σ²)²$."""
    share = levels**2 / (1 + levels**2)
    return lambda a, d: (4 * a**2 * (1 - a) ** 2 * share**3).mean()


def naive(radius: float) -> Expected:
    """$R = -a + a²/2 (1 + ε²/4)$, since $Δ = -a(x·v + ε²/2)$."""
    return lambda a, d: -a + a**2 / 2 * (1 + radius**2 / 4)


def mpf(radius: float) -> Expected:
    """$4/ε² (e^{a²ε²/8 - aε²/4} - 1)$, since $Δ ∼ N(-aε²/2, a²ε²)$."""
    return lambda a, d: 4 / radius**2 * torch.expm1((a**2 / 8 - a / 4) * radius**2)


def nce(radius: float) -> Expected:
    """$4/ε² (E[ζ(Δ)] - log 2)$ with $Δ ∼ N(-aε²/2, a²ε²)$, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z, w = torch.tensor(nodes), torch.tensor(weights / weights.sum())

    def expected(a: Tensor, d: int) -> Tensor:
        delta = a * radius * z - a * radius**2 / 2
        return 4 / radius**2 * (w @ nn.functional.softplus(delta) - math.log(2))

    return expected


def mle(a: Tensor, d: int) -> Tensor:
    """$d/2 (a - log(a/2π))$, per example."""
    return d * (a - (a / (2 * math.pi)).log()) / 2


def squared_score(a: Tensor, d: int) -> Tensor:
    """$E[(ax)²] = a²$."""
    return a**2


@dataclass(frozen=True)
class Wiggle:
    r"""A function with derivatives of all orders along any direction, in closed form.

    $f(x) = \sin(w·x) + e^{u·x}$, so $(v·∇)^k f = (w·v)^k \sin^{(k)}(w·x) + (u·v)^k e^{u·x}$.
    """

    w: Tensor
    u: Tensor
    offset: float = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return (x @ self.w).sin() + (x @ self.u).exp() + self.offset

    def derivative(self, x: Tensor, v: Tensor, order: int) -> Tensor:
        x, v = x.flatten(1), v.flatten(1)
        wave = (v @ self.w) ** order * (x @ self.w + order * math.pi / 2).sin()
        rise = (v @ self.u) ** order * (x @ self.u).exp()
        return wave + rise


def wiggle(d: int = 3, offset: float = 0.0) -> Wiggle:
    draw = torch.Generator().manual_seed(5)
    w, u = torch.randn(2, d, generator=draw, dtype=torch.float64)
    return Wiggle(w.to(torch.get_default_dtype()), 0.3 * u.to(torch.get_default_dtype()), offset)
