"""Invalid input is refused by every engine; distributions are accepted as log-densities."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import zuko
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from fdsm.derivatives import (
    Autodiff,
    FiniteDifference,
    Taylor,
    as_log_density,
    rounding_error,
    score_of,
    step_size,
)
from fdsm.derivatives.checks.state import Records
from fdsm.objectives import SM, SSM, GradientPenalty, SlicedDSM
from fdsm.typing import Derivative

ENGINES = [FiniteDifference(), FiniteDifference(parallel=False), Autodiff()]
engines = pytest.mark.parametrize("engine", ENGINES, ids=str)


def normal(x: Tensor) -> Tensor:
    return -x.square().sum(1) / 2


@engines
def test_column_of_densities(engine: Derivative) -> None:
    x, wrong = torch.ones(4, 3), lambda x: normal(x)[:, None]
    for objective in (SSM(engine), SM(engine), SlicedDSM(0.1, engine), GradientPenalty(engine)):
        with pytest.raises(
            ValueError, match=r"must return shape \(B,\) = .*but returned .*squeeze\(1\)"
        ):
            objective(wrong, x)


@pytest.mark.parametrize("engine", [*ENGINES, Taylor()], ids=str)
@pytest.mark.parametrize("wrong", [lambda x: normal(x).sum(), lambda x: normal(x)[:2]])
def test_functions_that_lose_rows(wrong: Callable[..., Tensor], engine: Derivative) -> None:
    x = torch.arange(12.0).view(4, 3)
    for call in (lambda: engine.jet(wrong, x, x, 2), lambda: engine.sliced(wrong, x, x[None])):
        with pytest.raises((ValueError, RuntimeError), match=r"one row for each|value of a row"):
            call()


@engines
def test_score_of_another_shape(engine: Derivative) -> None:
    with pytest.raises(
        ValueError, match=r"return the shape of its input.*but returned \(\d+, 2\)"
    ):
        engine.quadratic(lambda x: x[:, :2], torch.ones(4, 3), torch.ones(4, 3))


@engines
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 1), (2, 4, 3)])
def test_mismatched_direction(engine: Derivative, shape: tuple[int, ...]) -> None:
    x = torch.ones(4, 3)
    with pytest.raises(ValueError, match=r"directions .* must have shape \(4, 3\)"):
        engine.jet(normal, x, torch.ones(shape), 1)
    with pytest.raises(ValueError, match=r"directions .* must have shape \(4, 3\)"):
        engine.quadratic(lambda x: -x, x, torch.ones(shape))


@engines
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 1), (2, 2, 4, 3), (0, 4, 3)])
def test_mismatched_directions(engine: Derivative, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"directions .* must have shape \(V, 4, 3\)"):
        engine.sliced(normal, torch.ones(4, 3), torch.ones(shape))


@engines
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite(engine: Derivative, bad: float) -> None:
    x, v = torch.ones(4, 3), torch.ones(4, 3)
    x[2, 1] = bad
    with pytest.raises(ValueError, match=r"data are not finite in rows \[2\] of 4"):
        engine.jet(normal, x, v, 1)
    with pytest.raises(ValueError, match="directions are not finite"):
        engine.jet(normal, v, x, 1)


@engines
def test_unit_vectors_and_large_numbers_are_accepted(engine: Derivative) -> None:
    v = torch.eye(3).view(3, 1, 3).expand(3, 4, 3)
    _, curvature = engine.sliced(normal, torch.ones(4, 3), v)
    torch.testing.assert_close(curvature, torch.full((4,), -3.0))
    large = torch.full((4, 3), torch.finfo(torch.float64).max / 2)  # their sum is infinite
    _, slope = engine.jet(lambda x: (x * 0).sum(1), large, torch.ones(4, 3), 1)
    assert torch.equal(slope, torch.zeros(4))


@engines
def test_step_of_zero(engine: Derivative) -> None:
    v = torch.ones(4, 3)
    v[1] = 0
    for call in (
        lambda: engine.jet(normal, torch.ones(4, 3), v, 1),
        lambda: engine.sliced(normal, torch.ones(4, 3), v[None]),
        lambda: engine.quadratic(lambda x: -x, torch.ones(4, 3), v),
    ):
        with pytest.raises(ValueError, match="length zero"):
            call()


@engines
@pytest.mark.parametrize("order", [0, -1, 2.0, True])
def test_bad_order(engine: Derivative, order: int) -> None:
    x = torch.ones(4, 3)
    with pytest.raises(ValueError, match="order must be a positive integer"):
        engine.jet(normal, x, x, order)
    with pytest.raises(ValueError, match="order must be"):
        step_size(normal, x, x, order)


@engines
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_numbers_that_are_not_real(engine: Derivative, dtype: torch.dtype) -> None:
    x = torch.ones(4, 3).to(dtype)
    with pytest.raises(TypeError, match=r"floating-point data but got .*x\.float\(\)"):
        engine.jet(normal, x, x, 1)


@engines
def test_types_that_differ(engine: Derivative) -> None:
    with pytest.raises(TypeError, match=r"must be torch.float64 .* but are torch.float32"):
        engine.jet(normal, torch.ones(4, 3), torch.ones(4, 3).float(), 1)


@engines
@pytest.mark.parametrize("condition", [torch.ones(3), torch.tensor(1.0)])
def test_condition_without_a_row_per_example(engine: Derivative, condition: Tensor) -> None:
    with pytest.raises(ValueError, match="one row for each of the 4 examples"):
        engine.jet(lambda x, c: normal(x), torch.ones(4, 3), torch.ones(4, 3), 1, condition)


@engines
@pytest.mark.parametrize("condition", [2.0, None, [1, 2, 3, 4]])
def test_condition_that_is_no_tensor(engine: Derivative, condition: object) -> None:
    with pytest.raises(TypeError, match="conditions must be tensors"):
        engine.jet(lambda x, c: normal(x), torch.ones(4, 3), torch.ones(4, 3), 1, condition)


@pytest.mark.parametrize("chunk", [0, -3])
def test_bad_chunk(chunk: int) -> None:
    with pytest.raises(ValueError, match="chunk must be at least one"):
        FiniteDifference(chunk=chunk)


def test_bad_accuracy() -> None:
    with pytest.raises(ValueError, match="accuracy must be a positive even"):
        FiniteDifference(accuracy=3)


@engines
def test_events_of_no_dimension_and_empty_batches(engine: Derivative) -> None:
    t = torch.tensor([0.5, 2.0])
    slopes, curvature = engine.sliced(lambda t: t.square(), t, torch.ones(1, 2))
    torch.testing.assert_close(slopes, 2 * t[None])
    torch.testing.assert_close(curvature, torch.full((2,), 2.0))
    empty = torch.ones(0, 3)
    assert engine.jet(normal, empty, empty, 2)[2].shape == (0,)


@engines
def test_numpy_arrays_are_refused(engine: Derivative) -> None:
    x, array = torch.ones(4, 3), np.ones((4, 3))
    message = r"expected a torch.Tensor, got numpy.ndarray: use torch.from_numpy\(x\)"
    for call in (
        lambda: engine.jet(normal, array, x, 2),  # type: ignore[arg-type]
        lambda: engine.jet(normal, x, array, 2),  # type: ignore[arg-type]
        lambda: engine.sliced(normal, array, x[None]),  # type: ignore[arg-type]
        lambda: engine.quadratic(lambda x: -x, array, x),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(TypeError, match=r"got list: use torch.as_tensor\(x\)"):
        engine.jet(normal, [[1.0]], x, 2)  # type: ignore[arg-type]


def test_step_size_needs_values() -> None:
    x = torch.ones(4, 3, device="meta")
    with pytest.raises(ValueError, match="meta device, where tensors have a shape but no values"):
        step_size(normal, x, x, 2)
    with pytest.raises(ValueError, match="meta device"):
        rounding_error(normal, x, x)


def flow() -> zuko.lazy.LazyDistribution:
    torch.manual_seed(0)
    return zuko.flows.NICE(3, transforms=2, hidden_features=(8,), activation=torch.nn.SiLU)


COVARIANCE = torch.tensor([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]]).double()
DISTRIBUTIONS: dict[str, Callable[[], Distribution]] = {
    "multivariate normal": lambda: MultivariateNormal(torch.zeros(3), COVARIANCE),
    "independent": lambda: Independent(Normal(torch.zeros(3), torch.arange(1.0, 4.0)), 1),
    "mixture": lambda: MixtureSameFamily(
        Categorical(torch.tensor([0.3, 0.7])),
        Independent(Normal(torch.arange(6.0).view(2, 3), torch.ones(2, 3)), 1),
    ),
    "zuko flow": flow,
    "zuko distribution": lambda: flow()(),
}


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")  # zuko clips scales
@pytest.mark.parametrize("engine", [*ENGINES, Taylor()], ids=str)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_log_densities(engine: Derivative, name: str) -> None:
    density = DISTRIBUTIONS[name]()
    function = (density() if isinstance(density, zuko.lazy.LazyDistribution) else density).log_prob
    x, v = torch.randn(6, 3), 0.01 * torch.randn(2, 6, 3)
    for method, directions, *order in ((engine.jet, v[0], 2), (engine.sliced, v)):
        results = method(density, x, directions, *order)  # type: ignore[operator]
        for found, expected in zip(results, method(function, x, directions, *order), strict=True):  # type: ignore[operator]
            assert torch.equal(found, expected)
    torch.testing.assert_close(score_of(density)(x), score_of(function)(x))


def test_derivatives_of_a_multivariate_normal() -> None:
    density, precision = DISTRIBUTIONS["multivariate normal"](), torch.linalg.inv(COVARIANCE)
    x, v = torch.randn(5, 3), torch.randn(5, 3)
    value, slope, curvature = Taylor().jet(density, x, v, 2)
    log_z = (3 * math.log(2 * math.pi) + torch.logdet(COVARIANCE)) / 2
    torch.testing.assert_close(value, -(x @ precision * x).sum(1) / 2 - log_z)
    torch.testing.assert_close(slope, -(x @ precision * v).sum(1))
    torch.testing.assert_close(curvature, -(v @ precision * v).sum(1))


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_conditional_flows_take_their_context_as_a_condition() -> None:
    model = zuko.flows.NICE(3, 2, transforms=2, hidden_features=(8,), activation=torch.nn.SiLU)
    x, v, c = torch.randn(6, 3), torch.randn(6, 3), torch.randn(6, 2)
    by_row = [Taylor().jet(model(row), x[i : i + 1], v[i : i + 1], 2) for i, row in enumerate(c)]
    expected = [torch.cat(terms) for terms in zip(*by_row, strict=True)]
    for found, truth in zip(Taylor().jet(model, x, v, 2, c), expected, strict=True):
        torch.testing.assert_close(found, truth)


def test_evaluations_are_counted_per_distribution_and_per_flow() -> None:
    records = Records()
    densities = (DISTRIBUTIONS["mixture"](), flow())
    for density in densities:
        record = records.of(as_log_density(density))
        assert records.of(as_log_density(density)) is record
    assert len(records) == 2


def test_objects_with_log_prob_and_callables() -> None:
    class Density:
        def log_prob(self, x: Tensor) -> Tensor:
            return normal(x)

    x = torch.ones(2, 3)
    assert torch.equal(as_log_density(Density())(x), normal(x))
    assert as_log_density(normal) is normal
    module = torch.nn.Linear(3, 1)
    assert as_log_density(module) is module


def test_distributions_with_a_batch_shape_are_refused() -> None:
    message = r"batch shape \(3,\) and the event shape \(\): wrap it in Independent\(dist, 1\)"
    for call in (
        partial(Taylor().jet, Normal(torch.zeros(3), 1.0), torch.ones(2, 3), torch.ones(2, 3), 2),
        partial(score_of, Normal(torch.zeros(3), 1.0)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"Independent\(dist, 2\)"):
        as_log_density(Normal(torch.zeros(2, 3), 1.0))


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a log-density: a callable .* but got float"):
        as_log_density(3.0)  # type: ignore[arg-type]
