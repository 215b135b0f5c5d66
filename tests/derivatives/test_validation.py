"""Bad input is refused by every engine, in words."""

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Autodiff, FiniteDifference, directional_derivative, step_size
from fdsm.typing import Derivative

ENGINES = [FiniteDifference(), FiniteDifference(parallel=False), Autodiff()]
engines = pytest.mark.parametrize("engine", ENGINES, ids=str)


def normal(x: Tensor) -> Tensor:
    return -x.square().sum(1) / 2


@engines
def test_column_of_densities(engine: Derivative) -> None:
    x, v = torch.ones(4, 3), torch.ones(4, 3)
    wrong = lambda x: normal(x)[:, None]
    for call in (lambda: engine.jet(wrong, x, v, 2), lambda: engine.sliced(wrong, x, v[None])):
        with pytest.raises(
            ValueError, match=r"must return shape \(B,\) = .*but returned .*squeeze\(1\)"
        ):
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
    with pytest.raises(ValueError, match="order must be a whole number from 1 on"):
        engine.jet(normal, x, x, order)
    with pytest.raises(ValueError, match="order must be"):
        directional_derivative(normal, x, x, order)
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
    with pytest.raises(ValueError, match="a row for each of the 4 examples"):
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
    with pytest.raises(ValueError, match="accuracy must be an even"):
        FiniteDifference(accuracy=3)


@engines
def test_events_of_no_dimension_and_empty_batches(engine: Derivative) -> None:
    t = torch.tensor([0.5, 2.0])
    slopes, curvature = engine.sliced(lambda t: t.square(), t, torch.ones(1, 2))
    torch.testing.assert_close(slopes, 2 * t[None])
    torch.testing.assert_close(curvature, torch.full((2,), 2.0))
    empty = torch.ones(0, 3)
    assert engine.jet(normal, empty, empty, 2)[2].shape == (0,)
