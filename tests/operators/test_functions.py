"""Outputs of any shape, conditions of any kind, and what is refused, for every operator."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fdsm import operators
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.operators import (
    biharmonic,
    directional_derivative,
    divergence,
    hessian_diagonal,
    hvp,
    jet,
    jvp,
    laplacian,
    partials,
)
from fdsm.projections import Sphere
from fdsm.typing import Derivative
from tests.operators.operator_cases import events, field, mixed

ENGINES = [Taylor(), Autodiff(), FiniteDifference(accuracy=6)]
engines = pytest.mark.parametrize("engine", ENGINES, ids=["taylor", "autodiff", "fd"])
V = torch.linspace(-1, 1, 3, dtype=torch.float64)

along = lambda x: V.to(x).expand(x.shape)
OPERATORS: dict[str, Callable[..., Tensor]] = {
    "laplacian": laplacian,
    "weighted laplacian": partial(laplacian, weights=V.square() - 0.3),
    "hessian_diagonal": hessian_diagonal,
    "biharmonic": biharmonic,
    "directional_derivative": lambda f, x, *c, **k: directional_derivative(
        f, x, along(x), 3, *c, **k
    ),
    "jet": lambda f, x, *c, **k: jet(f, x, along(x), 2, *c, **k)[2],
    "jvp": lambda f, x, *c, **k: jvp(f, x, along(x), *c, **k)[1],
    "hvp": lambda f, x, *c, **k: hvp(f, x, along(x), *c, **k),
    "partials": lambda f, x, *c, **k: partials(f, x, [(0, 1)], *c, **k)[0, 1],
}
WITH_EVENT = {"hessian_diagonal", "hvp"}
"""Operators whose results have the shape of the event, too."""
operator = pytest.mark.parametrize("name", OPERATORS)


def outputs(x: Tensor) -> Tensor:
    """Return six different functions in an array."""
    y = mixed(x)
    return torch.stack([y, y.sin(), y * x[:, 0], x[:, 1].exp(), -y, 2 * y], 1).view(-1, 2, 3)


def tolerance(engine: Derivative, name: str) -> dict[str, float]:
    exact = not isinstance(engine, FiniteDifference)
    return {"rtol": 1e-10, "atol": 1e-10} if exact else {"rtol": 1e-3, "atol": 0.05}


@engines
@operator
def test_all_outputs_at_once(name: str, engine: Derivative, generator: Generator) -> None:
    """An array of outputs gives the results of its elements, each computed by itself."""
    x = 0.3 * events((3,), generator)
    apply = partial(OPERATORS[name], derivative=engine, step=0.03)
    together = apply(outputs, x)
    event = (3,) if name in WITH_EVENT else ()
    assert together.shape == (4, 2, 3, *event)
    for i, j in [(0, 0), (0, 1), (1, 2)]:
        single = OPERATORS[name](lambda x, i=i, j=j: outputs(x)[:, i, j], x)
        torch.testing.assert_close(together[:, i, j], single, **tolerance(engine, name))
    column = apply(lambda x: mixed(x)[:, None], x)
    assert column.shape == (4, 1, *event)
    exact = OPERATORS[name](mixed, x)
    torch.testing.assert_close(column[:, 0], exact, **tolerance(engine, name))


@engines
@pytest.mark.parametrize("name", [*OPERATORS, "divergence"])
def test_numbers_as_conditions(name: str, engine: Derivative, generator: Generator) -> None:
    """A number, and a tensor with one, are given to `f` as they are."""
    x, rows = 0.3 * events((3,), generator), torch.rand(4, generator=generator)
    apply = (OPERATORS | {"divergence": divergence})[name]
    base = field if name == "divergence" else outputs
    apply = partial(apply, derivative=engine)
    expected = apply(
        lambda x, c: 3.0 * base(x * 0.5) * c.view(-1, *[1] * (base(x).ndim - 1)), x, rows
    )

    def f(x: Tensor, a: float, c: Tensor, b: Tensor) -> Tensor:
        assert isinstance(a, float)
        assert b.ndim == 0
        return a * base(x * b) * c.view(-1, *[1] * (base(x).ndim - 1))

    found = apply(f, x, 3.0, rows, torch.tensor(0.5))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("directions", [1, 3])
def test_random_directions_of_all_outputs(directions: int, generator: Generator) -> None:
    """The same directions for all outputs give the estimates of the single outputs."""
    x = 0.3 * events((3,), generator)
    for estimate in (
        partial(laplacian, projection=Sphere()),
        partial(hessian_diagonal, projection=Sphere()),
        biharmonic,
    ):
        seeded = lambda f, estimate=estimate: estimate(
            f, x, directions=directions, generator=Generator().manual_seed(1)
        )
        together = seeded(outputs)
        torch.testing.assert_close(together[:, 1, 0], seeded(lambda x: outputs(x)[:, 1, 0]))
        torch.testing.assert_close(together[:, 0, 2], seeded(lambda x: outputs(x)[:, 0, 2]))


@operator
def test_one_point_is_explained(name: str) -> None:
    point = torch.tensor([0.1, 0.2, 0.3])
    for f in (lambda x: x.square().sum(1), lambda x: x.square().sum(-1), nn.Linear(3, 1)):
        with pytest.raises(
            (ValueError, RuntimeError), match=r"use `x\[None\]`, of shape \(1, 3\)"
        ):
            OPERATORS[name](f, point)
    with pytest.raises(ValueError, match=r"x\[None, None\]"):
        laplacian(torch.sin, torch.tensor(0.1))


def test_one_point_of_a_vector_field_is_not_a_batch_of_numbers() -> None:
    model = nn.Linear(3, 3, dtype=torch.float64)
    weighted = lambda x, t, a: a * t * model(x)
    for f, cond in ((model, ()), (weighted, (V, 0.5))):
        with pytest.raises(ValueError, match=r"for one point with 3 coordinates use `x\[None\]`"):
            divergence(f, V, *cond)
    assert divergence(lambda x, t: t * x.sin(), V, V).allclose(V * V.cos())


@operator
def test_wrong_arguments_are_named(name: str, generator: Generator) -> None:
    x, apply = events((3,), generator), OPERATORS[name]
    with pytest.raises(TypeError, match="derivative must be an engine such as Taylor"):
        apply(mixed, x, derivative=Taylor)
    with pytest.raises(TypeError, match="f must be a function"):
        apply(3, x)
    with pytest.raises(TypeError, match="a condition must be a tensor or a number, but got 'x'"):
        apply(lambda x, c: mixed(x), x, "x")
    with pytest.raises(
        ValueError, match=r"one row for each of the 4 rows of x, but has shape \(2,"
    ):
        apply(lambda x, c: mixed(x), x, torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"f must return one row for each of the \d+ rows"):
        apply(lambda x: mixed(x).sum(), x)


def test_fields_of_another_shape_have_no_divergence(generator: Generator) -> None:
    with pytest.raises(ValueError, match=r"vector field must return the shape of its input"):
        divergence(lambda x: x[:, :2], events((3,), generator))


class Attention(nn.Module):
    """A field with fused attention, which depends on a time."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.first(x[..., None]) * t[:, None, None]
        mixed: Tensor = self.last(self.mix(h, h, h, need_weights=False)[0]).squeeze(2)
        return mixed


def test_fused_attention(generator: Generator) -> None:
    """Where autograd has no double backward, differences agree; Autodiff says what to do."""
    model, x, t = Attention(), events((3,), generator), torch.rand(4, generator=generator)
    v = torch.randn(4, 3, generator=generator)
    found = jvp(model, x, v, t, cond_directions=(1.0,))
    h = 1e-5
    difference = (model(x + h * v, t + h) - model(x - h * v, t - h)) / (2 * h)
    torch.testing.assert_close(found, (model(x, t), difference), rtol=1e-7, atol=1e-9)
    for call in (
        lambda: jvp(model, x, v, t, derivative=Autodiff()),
        lambda: hvp(model, x, v, t, derivative=Autodiff()),
        lambda: partials(model, x, [(0, 0)], t, derivative=Autodiff()),
    ):
        with pytest.raises(RuntimeError, match=r"use Taylor\(\)"):
            call()


def test_autocast(generator: Generator) -> None:
    """The results have the precision of the data where the model uses half precision."""
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)).float()
    x = events((3,), generator).float()
    for name, apply in (OPERATORS | {"divergence": divergence}).items():
        expected = apply(model, x)
        with torch.autocast("cpu", torch.bfloat16):
            found = apply(model, x)
        assert found.dtype == torch.float32, name
        error = (found - expected).norm() / expected.norm()
        assert 0 < error < 0.05, name


def test_data_parallel_modules_are_refused_where_gradients_are_taken(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, v = events((3,), generator), torch.ones(4, 3)
    monkeypatch.setattr(DistributedDataParallel, "__init__", nn.Module.__init__)
    model = DistributedDataParallel()  # type: ignore[call-arg]
    model.forward = mixed  # type: ignore[method-assign]
    for call in (
        lambda: hvp(model, x, v),
        lambda: hessian_diagonal(lambda x: model(x), x, directions=1),
        lambda: laplacian(nn.Sequential(model), x, derivative=Autodiff()),
    ):
        with pytest.raises(TypeError, match="cannot differentiate a module of DDP"):
            call()
    torch.testing.assert_close(laplacian(model, x), laplacian(mixed, x))


def test_every_operator_is_tested_here() -> None:
    tested = {name.removeprefix("weighted ") for name in OPERATORS} | {"divergence"}
    assert tested == set(operators.__all__)
