"""One call protects an engine of a user; without checks there is nothing but the formula."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from fdsm import SSM, Autodiff, FiniteDifference, Sphere, Taylor, biharmonic, laplacian
from fdsm.derivatives import PrecisionWarning, checked
from fdsm.derivatives.checks.state import RECORDS, THREAD
from fdsm.objectives import NCE
from fdsm.serialize import from_json, to_json
from fdsm.typing import LogDensity, Score, is_exact, nests_gradients


@dataclass(frozen=True)
class OneSided:
    """Forward differences, protected by one call."""

    replay: bool = False

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        with checked(self, f, x, v, cond) as model:
            points: Iterable[Tensor] = [x + k * v for k in range(order + 1)]
            if self.replay:
                points = model.replayed(points)
            values = torch.stack([model(point, *cond) for point in points])
        return tuple(torch.diff(values, k, 0)[0] for k in range(order + 1))

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        with checked(self, f, x, v, cond, several=True) as model:
            here, *values = [model(p, *cond) for p in [x, *(x + v), *(x + 2 * v)]]
        ahead, further = torch.stack(values).chunk(2)
        return ahead - here, (further - 2 * ahead + here).sum(0)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        with checked(self, s, x, v, cond, score=True) as model:
            here, ahead = model(x, *cond), model(x + v, *cond)
        return here, ((ahead - here) * v).flatten(1).sum(1)


class Exact(Autodiff):
    """An exact engine of a user."""

    is_exact: ClassVar[bool] = True


def network(*hidden: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 16), *hidden, nn.Linear(16, 1), nn.Flatten(0))


def data(generator: Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(16, 3, generator=generator)
    return x, Sphere(1e-3).sample(x, generator)


def test_an_engine_of_a_user_differentiates(generator: Generator) -> None:
    f, (x, v) = network(nn.Tanh()), data(generator)
    for a, b in zip(OneSided().jet(f, x, v, 2), Taylor().jet(f, x, v, 2), strict=True):
        assert (a - b).norm() < 0.01 * b.norm()
    slopes, curvature = OneSided().sliced(f, x, v[None])
    assert all(map(torch.equal, (slopes[0], curvature), OneSided().jet(f, x, v, 2)[1:]))
    score = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    own, exact = (e.quadratic(score, x, v)[1] for e in (OneSided(), Autodiff()))
    assert (own - exact).norm() < 0.01 * exact.norm()
    loss = SSM(OneSided(), Sphere(1e-4))(f, x, generator=generator)
    assert loss.shape == (16,)


def with_own_generator() -> Callable[[Tensor], Tensor]:
    own = Generator().manual_seed(0)
    return lambda x: x.sum(1) + torch.randn(len(x), generator=own)


REFUSED = {
    "batch norm": (lambda: network(nn.BatchNorm1d(16)), RuntimeError, "statistics of the batch"),
    "rows": (lambda: lambda x: (x - x.mean(0)).sum(1), RuntimeError, "with the other rows"),
    "random numbers": (
        lambda: network(nn.Dropout(0.5)),
        RuntimeError,
        r"drew random numbers.*eval\(\)",
    ),
    "own generator": (with_own_generator, RuntimeError, "differ between calls"),
    "buffers": (
        lambda: nn.Sequential(spectral_norm(nn.Linear(3, 1)), nn.Flatten(0)),
        RuntimeError,
        r"changes its buffers.*eval\(\)",
    ),
    "sum": (lambda: lambda x: x.sum(), ValueError, "must return one row for each"),
    "half precision": (
        lambda: lambda x: x.sum(1).bfloat16(),
        TypeError,
        "values of the model are torch.bfloat16",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_engine_of_a_user_refuses_what_finite_differences_refuse(
    name: str, generator: Generator
) -> None:
    build, error, message = REFUSED[name]
    f, (x, v) = build(), data(generator)
    for _ in range(3):
        for call in (
            lambda: OneSided().jet(f, x, v, 2),
            lambda: OneSided().sliced(f, x, v[None]),
        ):
            with pytest.raises(error, match=message):
                call()
    if name == "random numbers":
        OneSided(replay=True).jet(f, x, v, 2)


@pytest.mark.parametrize(
    ("x", "v", "error"),
    [
        (torch.full((4, 3), torch.nan), torch.ones(4, 3), ValueError),
        (torch.ones(4, 3), torch.zeros(4, 3), ValueError),
        (torch.ones(4, 3), torch.ones(3), ValueError),
        (torch.ones(4, 3).half(), torch.ones(4, 3).half(), TypeError),
        (torch.ones(4, 3).long(), torch.ones(4, 3).long(), TypeError),
    ],
)
def test_an_engine_of_a_user_refuses_bad_arguments(
    x: Tensor, v: Tensor, error: type[Exception]
) -> None:
    for engine in (OneSided(), OneSided(replay=True)):
        with pytest.raises(error):
            engine.jet(lambda x: x.sum(1), x, v, 1)
        with pytest.raises(error):
            engine.quadratic(lambda x: x, x, v)


def test_an_engine_of_a_user_leaves_autocast(generator: Generator) -> None:
    f = network(nn.Tanh()).float()
    x, v = (t.float() for t in data(generator))
    outside = OneSided().jet(f, x, v, 2)
    with torch.autocast("cpu", torch.bfloat16):
        inside = OneSided().jet(f, x, v, 2)
        assert torch.is_autocast_enabled("cpu")
        with pytest.warns(PrecisionWarning, match=r"leave the `torch\.autocast` block"):
            inside[2].sum().backward()
    assert all(map(torch.equal, inside, outside))


def test_the_model_is_called_inside_a_block(generator: Generator) -> None:
    f, (x, v) = network(nn.Tanh()), data(generator)
    model = checked(OneSided(), f, x, v)
    with pytest.raises(RuntimeError, match=r"with checked\(\.\.\.\) as model"):
        model(x)
    assert torch.equal(checked(Exact(), f, x, v)(x), f(x)), "an exact engine needs none"


def test_engines_count_their_evaluations_in_one_record(generator: Generator) -> None:
    f, (x, v) = network(nn.Tanh()), data(generator)
    before = len(RECORDS)
    for engine in (FiniteDifference(), FiniteDifference(), Autodiff(), Taylor(), OneSided()):
        engine.jet(f, x, v, 2)
    assert len(RECORDS) == before + 1
    counts = {"FiniteDifference": 2, "Autodiff": 1, "Taylor": 1, "OneSided": 1}
    assert RECORDS.of(f).evaluations == counts


def test_what_differs_between_engines() -> None:
    engines = [FiniteDifference(), Autodiff(), Taylor(), OneSided(), Exact()]
    assert [is_exact(engine) for engine in engines] == [False, True, True, False, True]
    assert [nests_gradients(engine) for engine in engines] == [False, True, False, False, True]
    assert is_exact(Taylor(fallback=Autodiff()))
    assert not is_exact(Taylor(fallback=FiniteDifference()))


def test_operators_accept_the_engine_of_a_user(generator: Generator) -> None:
    x = torch.randn(4, 3, generator=generator)
    f = lambda x: x.pow(4).sum(1)
    torch.testing.assert_close(
        laplacian(f, x, derivative=OneSided(), step=1e-4),
        12 * x.square().sum(1),
        rtol=1e-2,
        atol=1e-2,
    )
    result = biharmonic(f, x, derivative=OneSided(), step=1e-2)
    torch.testing.assert_close(result, torch.full((4,), 72.0), rtol=1e-2, atol=0.1)


def test_an_engine_with_a_biharmonic_operator_is_used(generator: Generator) -> None:
    class Known(OneSided):
        def biharmonic(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> Tensor:
            return torch.full((len(x),), 7.0)

    x = torch.randn(4, 3, generator=generator)
    assert torch.equal(
        biharmonic(lambda x: x.sum(1), x, derivative=Known()), torch.full((4,), 7.0)
    )


def test_objectives_without_derivatives_take_any_engine_with_values(generator: Generator) -> None:
    class Valued(OneSided):
        def values(
            self, f: LogDensity, x: Tensor, v: Tensor, nodes: Sequence[int], *cond: Tensor
        ) -> Tensor:
            return FiniteDifference().values(f, x, v, nodes, *cond)

    f, (x, v) = network(nn.Tanh()), data(generator)
    own, usual = (NCE(e).at(f, x, v) for e in (Valued(), FiniteDifference()))  # type: ignore[arg-type]
    assert torch.equal(own, usual)
    with pytest.raises(ValueError, match="must be a FiniteDifference"):
        NCE(OneSided())  # type: ignore[arg-type]


class Counting(nn.Module):
    """A network that counts its calls and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.rows = network(nn.Tanh()), list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return self.net(x)


BARE = {
    "parallel": (FiniteDifference(checks=False), [48]),
    "one by one": (FiniteDifference(parallel=False, checks=False), [16, 16, 16]),
    "chunks": (FiniteDifference(chunk=20, checks=False), [20, 20, 8]),
    "accuracy": (FiniteDifference(accuracy=4, checks=False), [80]),
}


@pytest.mark.parametrize("name", BARE)
def test_without_checks_the_first_call_evaluates_the_points_and_nothing_else(
    name: str, generator: Generator
) -> None:
    engine, rows = BARE[name]
    f, (x, v) = Counting(), data(generator)
    before = len(RECORDS)
    for _ in range(3):
        f.rows.clear()
        bare = engine.jet(f, x, v, 2)
        assert f.rows == rows
    assert len(RECORDS) == before
    with_checks = replace(engine, checks=True)
    assert all(map(torch.equal, bare, with_checks.jet(f, x, v, 2)))
    assert len(f.rows) > len(rows)
    assert all(map(torch.equal, *(e.sliced(f, x, v[None]) for e in (engine, with_checks))))
    score = nn.Linear(3, 3)
    for a, b in zip(
        engine.quadratic(score, x, v), with_checks.quadratic(score, x, v), strict=True
    ):
        assert torch.equal(a, b)
    assert torch.equal(engine.values(f, x, v, [0, 1]), with_checks.values(f, x, v, [0, 1]))


def test_gradients_without_checks_are_those_with_checks(generator: Generator) -> None:
    f, (x, v) = network(nn.Tanh()), data(generator)
    gradients = [
        torch.autograd.grad(SSM(e).at(f, x, v).mean(), list(f.parameters())[:-1])
        for e in (FiniteDifference(), FiniteDifference(checks=False))
    ]
    assert all(map(torch.equal, *gradients))


def test_without_checks_nothing_is_refused_or_warned_of(generator: Generator) -> None:
    engine, (x, v) = FiniteDifference(checks=False), data(generator)
    bad = [build() for name, (build, _, _) in REFUSED.items() if name != "sum"]
    for f in bad:
        engine.jet(f, x, v, 2)
    engine.jet(lambda x: 1e4 - x.square().sum(1), x.float(), v.float(), 2)
    assert engine.jet(bad[0], x * torch.nan, v, 1)[1].isnan().all()


def test_without_checks_differences_can_be_mapped(generator: Generator) -> None:
    """The checks read numbers, which `torch.func.vmap` does not allow."""
    (x, v), f = data(generator), lambda x: x.pow(3).sum(1)
    engine = FiniteDifference(checks=False)
    mapped = torch.func.vmap(lambda x, v: engine.jet(f, x[None], v[None], 2)[2][0])(x, v)
    torch.testing.assert_close(mapped, engine.jet(f, x, v, 2)[2])


def test_checks_are_not_among_the_settings_of_a_run() -> None:
    engine = FiniteDifference(checks=False)
    assert to_json(engine) == to_json(FiniteDifference())
    assert from_json(to_json(engine)) == FiniteDifference() != engine


def test_nothing_is_left_of_an_evaluation_in_the_thread(generator: Generator) -> None:
    f, (x, v) = network(nn.BatchNorm1d(16)), data(generator)
    with pytest.raises(RuntimeError):
        FiniteDifference().jet(f, x, v, 2)
    assert (THREAD.trace, THREAD.always_due, THREAD.findings) == (None, False, None)
    assert THREAD.records is RECORDS
