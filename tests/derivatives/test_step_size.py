"""The recommended step is nearly the best there is."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from fdsm.derivatives import FiniteDifference, PrecisionWarning, rounding_error, step_size
from fdsm.derivatives.step_size import difference
from fdsm.projections import Sphere
from tests.oracles import Wiggle, wiggle


def error(f: Wiggle, x: Tensor, unit: Tensor, order: int, step: float) -> float:
    exact = Wiggle(f.w.double(), f.u.double()).derivative(x.double(), unit.double(), order)
    quotient = difference(f, x, step * unit, order, ()) / step**order
    return (quotient - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 0.01, 100.0])
def test_within_a_factor_two_of_the_best_error(
    order: int, dtype: torch.dtype, offset: float, scale: float, generator: Generator
) -> None:
    torch.set_default_dtype(dtype)
    base = wiggle()
    f = Wiggle(base.w / scale, base.u / scale, offset)
    x = scale * torch.randn(128, 3, generator=generator)
    unit = torch.randn(128, 3, generator=generator)
    unit = unit / unit.norm(dim=1, keepdim=True)
    best = min(error(f, x, unit, order, scale * h) for h in np.logspace(-7, 0.3, 60))
    chosen = step_size(f, x, 7 * unit, order)
    assert error(f, x, unit, order, chosen) < 2 * best


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize(("offset", "scale"), [(1e2, 1.0), (1e6, 1.0), (0.0, 1e-2), (0.0, 1e-4)])
def test_scale_is_that_of_the_function_not_of_the_data(
    order: int, offset: float, scale: float, generator: Generator
) -> None:
    """A feature far from zero that `f` does not use, or a function much narrower than the data."""
    f = Wiggle(torch.tensor([0.0, 1 / scale]), torch.zeros(2))
    x = torch.randn(128, 2, generator=generator) + torch.tensor([offset, 0.0])
    unit = torch.tensor([[0.0, 1.0]]).expand(128, 2)
    best = min(error(f, x, unit, order, scale * h) for h in np.logspace(-7, 0, 60))
    assert error(f, x, unit, order, step_size(f, x, unit, order)) < 2 * best


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_one_example_is_enough(order: int, dtype: torch.dtype, generator: Generator) -> None:
    torch.set_default_dtype(dtype)
    unit = torch.ones(1, 1)
    f = Wiggle(torch.ones(1), torch.zeros(1), 1.0)
    many = torch.linspace(0, 6, 30)[:, None]
    typical = step_size(f, many, torch.ones_like(many), order)
    single = [step_size(f, row[None], unit, order) for row in many]
    assert typical / 30 < min(single)
    assert max(single) < 30 * typical
    assert typical / 2 < np.median(single) < 2 * typical


@pytest.mark.parametrize(
    ("accuracy", "weights", "constant"),
    [
        (2, (1, -2, 1), 1 / 12),
        (4, (-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12), 1 / 90),
    ],
)
def test_step_of_a_sine_is_the_closed_form(
    accuracy: int, weights: tuple[float, ...], constant: float
) -> None:
    r"""Both errors of a second difference of $\sin x + 5$, rounded to float32, are known.

    Rounding a value $y$ gives an error uniform within $±u|y|$, $u = 2^{-24}$, so that of the
    difference has the standard deviation $R = ‖w‖ u \sqrt{E y²} / \sqrt3$. The truncation error is
    $A h^p$ with $A = C / \sqrt2$, a root mean square over one period. The sum $A h^p + R / h^2$
    is least at $h = (2 R / (p A))^{1/(2+p)}$.

    The tolerance is 1 %. `A` is measured at a step where truncation is at least 8 times the noise:
    rounding adds at most 1/128 to it, and the next order of truncation, $0.15 h²$ for `p = 2` and
    $0.34 h²$ for `p = 4`, less than 2 % at that step. `h` changes by a fourth or a sixth of this.
    With $r^p + 1$ for $r^p - 1$ in the estimate of `A`, where $r = 1.9$ is the ratio of two steps,
    the result is 15 % too long for `p = 2` and 2.6 % for `p = 4`.
    """
    torch.set_default_dtype(torch.float32)
    phase = torch.arange(1000) * (2 * math.pi / 1000)
    x = torch.stack([phase, torch.zeros(1000)], 1)
    unit = torch.tensor([[0.0, 1.0]]).expand_as(x)  # nodes at h e₂ are exact in float32
    f = lambda x: (x.double().sum(1).sin() + 5).float()
    rounding = math.hypot(*weights) * 2**-24 * math.sqrt(5**2 + 1 / 2) / math.sqrt(3)
    truncation = constant / math.sqrt(2)
    best = (2 * rounding / (accuracy * truncation)) ** (1 / (2 + accuracy))
    assert step_size(f, x, unit, 2, accuracy=accuracy) == pytest.approx(best, rel=0.01)


def test_higher_accuracy_takes_longer_steps(generator: Generator) -> None:
    x, v = torch.randn(2, 64, 3, generator=generator)
    steps = [step_size(wiggle(), x, v, 2, accuracy=accuracy) for accuracy in (2, 4, 6)]
    assert steps[0] < steps[1] / 3 < steps[2] / 9


def test_conditions_are_used(generator: Generator) -> None:
    x, v = torch.randn(2, 64, 3, generator=generator)
    width = torch.full((64,), 100.0)
    f = lambda x, width: wiggle()(x / width[:, None])
    wide, narrow = step_size(f, x, v, 2, width), step_size(f, x, v, 2, width / 100)
    assert wide == pytest.approx(100 * narrow, rel=0.5)


def test_no_longer_than_the_data_without_truncation(generator: Generator) -> None:
    x, v = torch.randn(2, 64, 3, generator=generator)
    h = step_size(lambda x: x.square().sum(1), x, v, 2)
    spread = (x - x.mean(0)).square().sum(1).mean().sqrt().item()
    assert h == pytest.approx(spread)


def test_stays_where_the_function_is_defined() -> None:
    x = torch.ones(64, 1)
    f = lambda x: torch.where((x - 1).abs() < 0.01, x.square(), torch.nan).sum(1)
    assert 1e-4 < step_size(f, x, torch.ones_like(x), 2) < 0.01
    with pytest.raises(ValueError, match="not finite at the data"):
        step_size(lambda x: x.sum(1) * torch.nan, x, x, 2)
    with pytest.raises(ValueError, match="batch is empty"):
        step_size(f, x[:0], x[:0], 2)


def bowl(offset: float) -> Callable[[Tensor], Tensor]:
    return lambda x: offset - x.square().sum(1) / 2


@pytest.mark.parametrize(("offset", "step"), [(1.0, 1e-2), (1.0, 1e-3), (1e3, 0.1), (1e3, 1e-2)])
def test_rounding_error_is_the_error_made(
    offset: float, step: float, generator: Generator
) -> None:
    x = torch.randn(4000, 3, generator=generator).float()
    v = Sphere(step).sample(x, generator)
    f = bowl(offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        curvature = FiniteDifference().jet(f, x, v, 2)[2]
    true = -v.double().square().sum(1)
    actual = ((curvature - true).norm() / true.norm()).item()
    assert actual / 2 < rounding_error(f, x, v) < 2 * actual


def test_rounding_error_of_a_step_that_is_lost() -> None:
    x = torch.full((8, 3), 1000.0).float()
    assert rounding_error(bowl(0.0), x, torch.full_like(x, 1e-5)) > 1
    assert rounding_error(lambda x: 2 * x.sum(1) + 1, x, x) > 1


def test_rounding_error_of_a_first_difference(generator: Generator) -> None:
    x = torch.randn(4000, 3, generator=generator).float()
    v = Sphere(1e-3).sample(x, generator)
    f = bowl(100.0)
    slope = FiniteDifference().jet(f, x, v, 1)[1]
    true = -(x.double() * v.double()).sum(1)
    actual = ((slope - true).norm() / true.norm()).item()
    assert actual / 2 < rounding_error(f, x, v, order=1) < 2 * actual
