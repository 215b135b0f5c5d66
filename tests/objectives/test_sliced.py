"""Sliced score matching compared with the equations of the paper, and its cost."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, SSMVR, SlicedDSM
from fdsm.projections import Sphere

from .equation_cases import EPS, EXACT, SIGMA, conditioned, dot, engines, network, sample, shapes


@engines
@shapes
@conditioned
def test_fd_ssm_is_equation_9(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = sample(event, conditioned, generator)
    log_p = network(event, 0, conditioned)
    plus, minus, center = log_p(x + v, *cond), log_p(x - v, *cond), log_p(x, *cond)
    expected = (plus + minus - 2 * center + (plus - minus) ** 2 / 8) / EPS**2
    actual = SSM(engine, Sphere(EPS)).at(log_p, x, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


@engines
@shapes
@conditioned
def test_fd_ssmvr_is_the_equation_below_11(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = sample(event, conditioned, generator)
    s = network(event, 1, conditioned)
    d = x[0].numel()
    plus, minus = s(x + v, *cond), s(x - v, *cond)
    norm = dot(plus + minus, plus + minus) / (8 * d)
    expected = norm + (dot(v, plus) - dot(v, minus)) / (2 * EPS**2)
    actual = SSMVR(engine, Sphere(EPS)).at(s, x, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("several", [2, 3])
def test_several_directions_are_averaged(several: int, generator: Generator) -> None:
    x = torch.randn(7, 5, generator=generator)
    v = torch.stack([Sphere(EPS).sample(x, generator) for _ in range(several)])
    noise = torch.randn(7, 5, generator=generator)
    level = torch.randn(7, generator=generator)
    log_p, s = network((5,), 0, True), network((5,), 1, True)
    ssm, ssmvr = (kind(FiniteDifference(), Sphere(EPS)) for kind in (SSM, SSMVR))
    dsm = SlicedDSM(SIGMA, FiniteDifference(), Sphere(EPS))
    for together, one in (
        (ssm.at(log_p, x, v, level), lambda u: ssm.at(log_p, x, u, level)),
        (ssmvr.at(s, x, v, level), lambda u: ssmvr.at(s, x, u, level)),
        (dsm.at(log_p, x, noise, v, level), lambda u: dsm.at(log_p, x, noise, u, level)),
    ):
        expected = torch.stack([one(u) for u in v]).mean(0)
        torch.testing.assert_close(together, expected, **EXACT)


@pytest.mark.parametrize("several", [1, 4])
def test_number_of_rows_and_calls_per_example(several: int, generator: Generator) -> None:
    x = torch.randn(7, 5, generator=generator)
    rows, seen = [], []

    def count_rows(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(x: Tensor, *cond: Tensor) -> Tensor:
            rows.append(len(x))
            return f(x, *cond)

        return call

    for parallel in (True, False):
        engine = FiniteDifference(parallel)
        for objective, outputs in (
            (SSM(engine, Sphere(EPS), several), 0),
            (SlicedDSM(SIGMA, engine, Sphere(EPS), several), 0),
            (SSMVR(engine, Sphere(EPS), several), 1),
        ):
            f = count_rows(network((5,), outputs, False))
            for _ in range(3):  # the first and second evaluation of a model are inspected
                rows.clear()
                objective(f, x)
            seen += rows
    together = [7 * (1 + 2 * several), 7 * 2 * several, 7 * 2 * several]
    one_by_one = [7] * (1 + 2 * several) + [7 * several] * 2 + [7 * several] * 2
    assert seen == together + one_by_one
