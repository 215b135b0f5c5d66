"""The finite-difference objectives equal the paper's equations, written out."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, SSMVR, MultiscaleDSM, NaiveFD, SlicedDSM
from fdsm.projections import Sphere

EPS, SIGMA = 0.1, 0.3
EXACT = {"rtol": 1e-12, "atol": 1e-12}
shapes = pytest.mark.parametrize("event", [(5,), (2, 3, 4)], ids=str)
engines = pytest.mark.parametrize(
    "engine", [FiniteDifference(), FiniteDifference(parallel=False), FiniteDifference(chunk=3)]
)
conditioned = pytest.mark.parametrize("conditioned", [False, True])


def dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([(p * q).sum() for p, q in zip(a, b, strict=True)])


def network(event: tuple[int, ...], outputs: int, conditioned: bool) -> Callable[..., Tensor]:
    d = int(torch.tensor(event).prod())
    net = nn.Sequential(
        nn.Linear(d + conditioned, 16), nn.Softplus(), nn.Linear(16, outputs * d or 1)
    )

    def model(x: Tensor, *cond: Tensor) -> Tensor:
        rows = torch.cat([x.flatten(1), *(c[:, None] for c in cond)], 1)
        return net(rows).view(x.shape) if outputs else net(rows).squeeze(1)

    return model


def draw(
    event: tuple[int, ...], conditioned: bool, generator: Generator
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    x = torch.randn(7, *event, generator=generator)
    v = Sphere(EPS).sample(x, generator)
    return x, v, (torch.randn(7, generator=generator),) if conditioned else ()


@engines
@shapes
@conditioned
def test_fd_ssm_is_equation_9(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = draw(event, conditioned, generator)
    log_p = network(event, 0, conditioned)
    plus, minus, centre = log_p(x + v, *cond), log_p(x - v, *cond), log_p(x, *cond)
    expected = (plus + minus - 2 * centre + (plus - minus) ** 2 / 8) / EPS**2
    actual = SSM(engine, Sphere(EPS)).at(log_p, x, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


@engines
@shapes
@conditioned
def test_fd_dsm_is_equation_10(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = draw(event, conditioned, generator)
    noise = SIGMA * torch.randn(x.shape, generator=generator)
    log_p = network(event, 0, conditioned)
    noisy = x + noise
    difference = log_p(noisy + v, *cond) - log_p(noisy - v, *cond)
    expected = (difference + 2 * dot(v, noisy - x) / SIGMA**2) ** 2 / (4 * EPS**2)
    actual = SlicedDSM(SIGMA, engine, Sphere(EPS)).at(log_p, x, noise, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


@engines
@shapes
@conditioned
def test_fd_ssmvr_is_the_equation_below_11(
    engine: FiniteDifference, event: tuple[int, ...], conditioned: bool, generator: Generator
) -> None:
    x, v, cond = draw(event, conditioned, generator)
    s = network(event, 1, conditioned)
    d = x[0].numel()
    plus, minus = s(x + v, *cond), s(x - v, *cond)
    norm = dot(plus + minus, plus + minus) / (8 * d)
    expected = norm + (dot(v, plus) - dot(v, minus)) / (2 * EPS**2)
    actual = SSMVR(engine, Sphere(EPS)).at(s, x, v, *cond)
    torch.testing.assert_close(actual, expected, **EXACT)


def test_naive_difference_is_appendix_b7(generator: Generator) -> None:
    x, v, _ = draw((5,), False, generator)
    log_p = network((5,), 0, False)
    delta = log_p(x + v) - log_p(x)
    expected = (delta**2 + 4 * delta) / (2 * EPS**2)
    torch.testing.assert_close(NaiveFD(projection=Sphere(EPS)).at(log_p, x, v), expected, **EXACT)


def test_antithetic_naive_difference_exceeds_fd_ssm_by_a_square(generator: Generator) -> None:
    x, v, _ = draw((5,), False, generator)
    log_p = network((5,), 0, False)
    naive = NaiveFD(projection=Sphere(EPS))
    excess = (log_p(x + v) + log_p(x - v) - 2 * log_p(x)) ** 2 / (8 * EPS**2)
    both = (naive.at(log_p, x, v) + naive.at(log_p, x, -v)) / 2
    fd_ssm = SSM(FiniteDifference(), Sphere(EPS)).at(log_p, x, v)
    torch.testing.assert_close(both - fd_ssm, excess, rtol=1e-9, atol=1e-12)


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
def test_rows_per_example_and_calls(several: int, generator: Generator) -> None:
    x = torch.randn(7, 5, generator=generator)
    rows, seen = [], []

    def counted(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
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
            f = counted(network((5,), outputs, False))
            for _ in range(3):  # the first and second evaluation of a model are inspected
                rows.clear()
                objective(f, x)
            seen += rows
    together = [7 * (1 + 2 * several), 7 * 2 * several, 7 * 2 * several]
    one_by_one = [7] * (1 + 2 * several) + [7 * several] * 2 + [7 * several] * 2
    assert seen == together + one_by_one
