"""Errors of finite differences are measured, and reported once per model."""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from fdsm.derivatives import FiniteDifference, PrecisionWarning
from fdsm.derivatives.checks.difference_error import difference_error
from fdsm.objectives import SSM, SlicedDSM
from fdsm.projections import Sphere

LogDensity = Callable[[Tensor], Tensor]


class Quadratic(nn.Module):
    """The log-density `offset + curvature ‖x‖² / 2`."""

    def __init__(self, offset: float, curvature: float) -> None:
        super().__init__()
        self.offset, self.curvature = offset, curvature

    def forward(self, x: Tensor) -> Tensor:
        return self.offset + self.curvature * x.square().sum(1) / 2


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    layers = nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    return nn.Sequential(*layers, nn.Flatten(0)).to(dtype)


def data(generator: Generator, step: float = 0.1) -> tuple[Tensor, Tensor]:
    x = torch.randn(64, 3, generator=generator).float()
    return x, Sphere(step).sample(x, generator)


def differences_warn(f: LogDensity, x: Tensor, v: Tensor, order: int = 2) -> list[str]:
    """Return the precision warnings of one difference."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        FiniteDifference().jet(f, x, v, order)
    return [str(w.message) for w in given if issubclass(w.category, PrecisionWarning)]


def in_bfloat16(net: nn.Module, x: Tensor) -> Tensor:
    return net(x.bfloat16()).float()


def with_autocast_inside(net: nn.Module, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return net(x).float()


def with_offset_inside(net: nn.Module, x: Tensor) -> Tensor:
    return (50 * net(x) + 1e6) - 1e6


HIDDEN = {
    "bfloat16 weights": lambda: partial(in_bfloat16, network(torch.bfloat16)),
    "bfloat16 weights, scaled": lambda: partial(
        lambda net, x: 4000 * in_bfloat16(net, x), network(torch.bfloat16)
    ),
    "autocast inside": lambda: partial(with_autocast_inside, network()),
    "offset inside": lambda: partial(with_offset_inside, network()),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_low_precision_inside_a_model_is_noticed(name: str, generator: Generator) -> None:
    x, v = data(generator)
    f = HIDDEN[name]()
    (message,) = differences_warn(f, x, v)
    assert re.search(r"second difference along v.* is dominated by rounding.*Taylor\(\)", message)


def test_float32_norm_inside_a_float64_network_is_noticed(generator: Generator) -> None:
    first, norm, last = nn.Linear(3, 64), nn.LayerNorm(64).float(), nn.Linear(64, 1)
    f = lambda x: last(100 * norm(first(x).float()).double()).squeeze(1)
    x = torch.randn(64, 3, generator=generator)
    v = Sphere(1e-3).sample(x, generator)
    (message,) = differences_warn(f, x, v)
    assert "dominated by rounding" in message


def test_data_far_from_zero_are_noticed(generator: Generator) -> None:
    x, v = data(generator)
    far = lambda x: -32 * (x - 1e6).square().sum(1)
    assert "dominated by rounding" in differences_warn(far, x + 1e6, v)[0]
    assert (
        differences_warn(lambda x: -32 * (x - 1e6).square().sum(1), x.double() + 1e6, v.double())
        == []
    )


def test_first_differences_are_checked(generator: Generator) -> None:
    x, _ = data(generator)
    f = Quadratic(1e8, -1.0)
    with pytest.warns(PrecisionWarning, match="first difference along v is dominated by rounding"):
        SlicedDSM(0.1, FiniteDifference(), Sphere(0.1))(f, x, generator=generator)


def test_a_single_bad_row_is_noticed(generator: Generator) -> None:
    x, v = data(generator)
    x[7] = 5.0
    f = lambda x: -0.05 * x.square().sum(1) + 1e5 * (x[:, 0] > 4)
    (message,) = differences_warn(f, x, v)
    assert "dominated by rounding" in message


@pytest.mark.parametrize(
    "f",
    [
        lambda x: -functional.softplus(1e3 * x).sum(1),
        lambda x: torch.stack([-5e5 * (x - m).square().sum(1) for m in (-1e-3, 1e-3)]).logsumexp(
            0
        ),
    ],
    ids=["softplus", "mixture"],
)
def test_a_step_too_large_for_the_data_is_noticed(f: LogDensity, generator: Generator) -> None:
    x, v = data(generator)
    (message,) = differences_warn(f, 1e-3 * x, v)
    assert re.search(r"step is too large.*truncation error of \d+%.*smaller step", message)
    assert differences_warn(lambda x: f(x), 1e-3 * x.double(), 1e-4 * v.double()) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dimension", [3, 64])
@pytest.mark.parametrize("step", [0.02, 0.1])
def test_linear_densities_are_not_reported(
    step: float, dimension: int, dtype: torch.dtype, generator: Generator
) -> None:
    """Their curvature is zero, and so is that of an exact derivative."""
    x = torch.randn(64, dimension, generator=generator).to(dtype)
    layer = nn.Linear(dimension, 1, dtype=dtype)
    nn.init.normal_(layer.weight)
    f = lambda x: layer(x).squeeze(1)
    assert differences_warn(f, x, Sphere(step).sample(x, generator)) == []


def test_small_errors_are_not_reported(generator: Generator) -> None:
    x, v = data(generator)
    linear = lambda x: 2 * x.sum(1) + 1
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        rows, steps = x.to(dtype), v.to(dtype)
        for f in (Quadratic(1.0, -1.0), network(dtype), lambda x: linear(x), nn.LogSoftmax(1)):
            f = (
                f
                if not isinstance(f, nn.LogSoftmax)
                else (lambda x: -functional.log_softmax(x, 1).sum(1))
            )
            assert differences_warn(f, rows, steps) == []


def test_warns_once_per_model_with_the_error_made(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator).float()
    objective, f = SSM(FiniteDifference(), Sphere(1e-3)), Quadratic(1.0, -1.0)
    with pytest.warns(
        PrecisionWarning, match=r"relative error (\d+)%.*float64.*once per"
    ) as given:
        objective(f, x, generator=generator)
    assert given[0].filename == __file__, "the warning names the line of the user"
    stated = float(re.search(r"(\d+)%", str(given[0].message))[1]) / 100
    v = Sphere(1e-3).sample(x, generator)
    curvature = FiniteDifference().jet(f, x, v, 2)[2]
    actual = (curvature / 1e-6 + 1).square().mean().sqrt().item()
    assert actual / 3 < stated < 6 * actual
    for _ in range(8):
        objective(f, x, generator=generator)
        FiniteDifference().jet(f, x, 1e-4 * x, 3)


def test_closures_of_one_function_have_their_own_state(generator: Generator) -> None:
    x, v = data(generator, 1e-2)

    def shifted(offset: float) -> LogDensity:
        return lambda x: offset - 10 * x.square().sum(1)

    for _ in range(5):
        assert differences_warn(shifted(0.0), x, v) == []
    assert len(differences_warn(shifted(1e5), x, v)) == 1
    assert all(differences_warn(shifted(1e5), x, v) == [] for _ in range(4))


def test_every_model_has_its_own_state(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator).float()
    objective, good, bad = (
        SSM(FiniteDifference(), Sphere(1e-2)),
        Quadratic(1.0, -10.0),
        Quadratic(1e4, -1.0),
    )
    for _ in range(1025):
        objective(good, x, generator=generator)
    with pytest.warns(PrecisionWarning, match="dominated by rounding"):
        objective(bad, x, generator=generator)
    with pytest.warns(PrecisionWarning, match="dominated by rounding"):
        objective(Quadratic(1e4, -1.0), x, generator=generator)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: lambda x: net(x),
        lambda net: partial(lambda model, x: model(x), net),
        lambda net: partial(lambda x, model: model(x), model=net),
        lambda net: net.forward,
    ],
    ids=["lambda", "partial", "keyword", "method"],
)
def test_a_wrapped_model_has_the_state_of_the_model(
    wrap: Callable[[nn.Module], LogDensity], generator: Generator
) -> None:
    x, v = data(generator, 1e-3)
    for _ in range(2):
        bad = Quadratic(1e4, -1.0)
        assert len(differences_warn(wrap(bad), x, v)) == 1
        assert all(differences_warn(wrap(bad), x, v) == [] for _ in range(8))


def test_a_model_that_goes_wrong_later_is_noticed(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator).float()
    objective, f = SSM(FiniteDifference(), Sphere(1e-2)), Quadratic(1.0, -10.0)
    for _ in range(20):
        objective(f, x, generator=generator)
    f.offset, f.curvature = 1e4, -1.0
    with pytest.warns(PrecisionWarning, match="dominated by rounding"):
        _ = [objective(f, x, generator=generator) for _ in range(20)]


Values = Callable[[Sequence[Fraction]], Tensor]


def along(curve: Callable[[float], Tensor]) -> Values:
    """Return the values of a curve at nodes, as `difference_error` asks for them."""
    return lambda nodes: torch.stack([curve(float(node)) for node in nodes])


def points(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return data of spread one and directions of length 1/2; both are exact in float32."""
    x = torch.ones(rows, 1, dtype=dtype)
    x[::2] = -1
    return x, torch.full_like(x, 0.5)


@pytest.mark.parametrize(("length", "fraction"), [(0.5, 1 / 4), (3.0, 1 / 16), (6.0, 1 / 32)])
@pytest.mark.parametrize(
    ("order", "curve", "difference"),
    [
        (1, math.sin, lambda h: math.sin(h) / h),
        (2, math.cos, lambda h: -((2 * math.sin(h / 2) / h) ** 2)),
    ],
    ids=["first", "second"],
)
def test_truncation_error_of_a_sine_is_the_closed_form(
    order: int,
    curve: Callable[[float], float],
    difference: Callable[[float], float],
    length: float,
    fraction: float,
) -> None:
    """The difference with nodes ±1 is compared with one that has a fraction of the step.

    It is a quarter of the step; or, if the step is longer than the spread of the data, which is
    1 here, a quarter of the largest power of two times the step that is not.
    """
    x, v = points(8)
    values = along(lambda t: torch.full((8,), curve(t)))
    error = difference_error(values, x, 2 * length * v, order, 2)
    expected = abs(difference(1.0) / difference(fraction) - 1)
    assert error.truncation == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("order", "accuracy", "weights"),
    [
        (1, 2, (-1 / 2, 1 / 2)),
        (2, 2, (1, -2, 1)),
        (2, 4, (-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12)),
    ],
)
@pytest.mark.parametrize("deviation", [1e-5, 0.2])
def test_rounding_error_of_values_with_known_noise(
    order: int, accuracy: int, weights: tuple[float, ...], deviation: float, generator: Generator
) -> None:
    """Independent noise of deviation σ is an error of σ times the norm of the weights.

    It is relative to the derivative, which is 1. Neither must the sixth difference contain a
    polynomial of degree 4, nor the truncation error the noise. The sampling error of both
    variances is 1 %.
    """
    rows = 20_000
    x, v = points(rows)
    quartic = float(accuracy == 4)  # adds nothing to a difference of this accuracy

    def curve(t: float) -> Tensor:
        noise = deviation * torch.randn(rows, generator=generator)
        return t**order / order + quartic * t**4 + noise

    error = difference_error(along(curve), x, v, order, accuracy)
    expected = deviation * math.hypot(*weights)
    assert error.rounding == pytest.approx(expected, rel=0.05)
    at_a_quarter = 4**order * expected
    assert error.truncation < 0.4 * at_a_quarter / math.hypot(1, at_a_quarter)


@pytest.mark.parametrize(("order", "norm"), [(1, math.sqrt(1 / 2)), (2, math.sqrt(6))])
def test_rounding_error_of_large_values_is_the_closed_form(order: int, norm: float) -> None:
    r"""Rounding a value $y$ to float32 has the deviation $2^{-24} |y| / \sqrt3$.

    The derivative is 1, in every row.
    """
    x, v = points(4, torch.float32)
    offset = torch.tensor([1e2, -1e3, 1e4, 2e4])
    error = difference_error(along(lambda t: offset + t**order / order), x, v, order, 2)
    deviation = 2**-24 * offset / math.sqrt(3)
    expected = norm * deviation.square().mean().sqrt().item()
    assert error.rounding == pytest.approx(expected, rel=1e-4)
    assert error.worst_row == pytest.approx(norm * deviation.max().item(), rel=1e-4)


@pytest.mark.parametrize(("order", "error_made"), [(1, 0.25), (2, 0.5625)])
def test_rounding_error_of_a_rounded_step_is_the_error_made(order: int, error_made: float) -> None:
    """Above 2²⁰ float32 has a spacing of 1/8: a step of 0.1 becomes 1.25 times as long.

    The slope is then 1.25 times too large, the curvature 1.25² times. The estimate is of first
    order, hence the tolerance.
    """
    x = torch.full((4, 1), 2.0**20 + 1, dtype=torch.float32)
    v = torch.full_like(x, 0.1)
    moved = lambda t: (x + t * v).double()[:, 0] - x.double()[:, 0]
    error = difference_error(along(lambda t: moved(t) ** order / order), x, v, order, 2)
    assert error.rounding == pytest.approx(error_made, rel=0.05)


@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_errors_below_a_fraction_of_the_half_squared_slope_are_negligible(slope: float) -> None:
    r"""The rounding error $\sqrt2 · 2^{-24} |y|$ is compared with 1 % of the half square."""
    x, v = points(4, torch.float32)
    limit = 0.01 * slope**2 / 2 / (math.sqrt(2) * 2**-24)
    for offset, is_reported in ((0.99 * limit, False), (1.01 * limit, True)):
        curve = lambda t, y=offset: torch.full((4,), y + slope * t + t**2 / 2)
        error = difference_error(along(curve), x, v, 2, 2)
        assert (error.rounding > 0) == is_reported
