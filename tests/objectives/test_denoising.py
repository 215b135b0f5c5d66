"""Denoising score matching compared with the equations of the paper."""

import torch
from torch import Generator

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import MultiscaleDSM, SlicedDSM
from fdsm.projections import Sphere

from .equation_cases import EPS, EXACT, SIGMA, conditioned, dot, engines, network, sample, shapes


@engines
@shapes
@conditioned
def test_fd_dsm_is_equation_10(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = sample(event, conditioned, generator)
    noise = SIGMA * torch.randn(x.shape, generator=generator)
    log_p = network(event, 0, conditioned)
    noisy = x + noise
    difference = log_p(noisy + v, *cond) - log_p(noisy - v, *cond)
    expected = (difference + 2 * dot(v, noisy - x) / SIGMA**2) ** 2 / (4 * EPS**2)
    actual = SlicedDSM(SIGMA, engine, Sphere(EPS)).at(log_p, x, noise, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


def test_multiscale_fd_dsm_is_the_published_code(generator: Generator) -> None:
    """`((L+ - L-)/2 + v'n/σ0²)² / σ_i² · σ0⁴ d/ε²`, divided by `d`."""
    x = torch.randn(4, 5, generator=generator)
    log_p = network((5,), 0, False)
    objective = MultiscaleDSM(SlicedDSM(0.1, FiniteDifference(), Sphere(0.05)))
    actual = objective(log_p, x, generator=Generator().manual_seed(1))
    same = Generator().manual_seed(1)
    sigma = torch.linspace(0.05, 1.2, 4)
    noise = sigma[:, None] * torch.randn(4, 5, generator=same)
    v = Sphere(0.05).sample(x, same)
    slope = (log_p(x + noise + v) - log_p(x + noise - v)) / 2
    expected = (slope + dot(v, noise) / 0.1**2) ** 2 / sigma**2 * 1e-4 / 0.05**2
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
