"""Records do not leak, threads do not disturb each other, ordinary models are not warned about."""

import copy
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor
from fdsm.derivatives.checks.observation import Observed
from fdsm.derivatives.checks.state import RECORDS
from fdsm.models import DKEF
from fdsm.projections import Sphere

ENGINES = {
    "finite differences": FiniteDifference(),
    "one by one": FiniteDifference(parallel=False),
    "chunks": FiniteDifference(chunk=5),
    "autodiff": Autodiff(),
    "taylor": Taylor(),
}
ACTIVATIONS = [nn.Tanh, nn.Softplus, nn.SiLU, nn.GELU, nn.Sigmoid, nn.Mish]


def network(
    width: int = 16, activation: Callable[[], nn.Module] = nn.Tanh, inputs: int = 3
) -> nn.Module:
    hidden = nn.Linear(inputs, width), activation(), nn.Linear(width, width), activation()
    return nn.Sequential(*hidden, nn.Linear(width, 1), nn.Flatten(0))


def size() -> int:
    gc.collect()
    return len(RECORDS)


@pytest.mark.parametrize("name", ENGINES)
def test_records_do_not_keep_models_alive(name: str, generator: Generator) -> None:
    engine = ENGINES[name]
    x, v = torch.randn(2, 6, 3, generator=generator)
    before = size()

    def use_once() -> weakref.ref[nn.Module]:
        net = network()
        engine.jet(net, x, v, 2)
        engine.jet(lambda x: net(2 * x), x, v, 2)
        assert size() == before + 1
        return weakref.ref(net)

    alive = use_once()
    assert size() == before
    assert alive() is None


@pytest.mark.parametrize("name", ENGINES)
def test_fresh_functions_do_not_add_records(name: str, generator: Generator) -> None:
    """Functions of one module share its record, those without a module that of their code."""
    engine = ENGINES[name]
    x, v = torch.randn(2, 6, 3, generator=generator)
    net, sizes = network(), []
    for _ in range(4):
        shift = torch.randn(3, generator=generator)
        parameter = torch.randn(3, generator=generator, requires_grad=True)
        engine.jet(lambda x, shift=shift: net(x + shift), x, v, 2)
        engine.jet(lambda x, shift=shift: (x - shift).pow(3).sum(1), x, v, 2)
        engine.jet(lambda x, p=parameter: (x - p).pow(3).sum(1), x, v, 2)
        sizes.append(size())
    assert sizes[1:] == sizes[:1] * 3


@pytest.mark.parametrize("name", ["finite differences", "autodiff"])
def test_a_density_that_is_built_anew_in_every_step_is_not_inspected_each_time(
    name: str, generator: Generator
) -> None:
    """The density with the coefficients of a batch is a new object, but the family is the same."""
    x, v = torch.randn(2, 8, 3, generator=generator).double()
    family = DKEF(x[:4])
    for _ in range(5):
        ENGINES[name].jet(family.solve(x, v), x, v, 2)
    assert RECORDS.of(family.solve(x, v)).evaluations[type(ENGINES[name]).__name__] == 5


@pytest.mark.parametrize("name", ENGINES)
def test_copies_have_records_of_their_own(name: str, generator: Generator) -> None:
    engine = ENGINES[name]
    x, v = torch.randn(2, 6, 3, generator=generator)
    net = network()
    for _ in range(3):
        engine.jet(net, x, v, 2)
    twin = copy.deepcopy(net)
    for a, b in zip(engine.jet(twin, x, v, 2), engine.jet(net, x, v, 2), strict=True):
        assert torch.equal(a, b)
    kind = type(engine).__name__
    assert RECORDS.of(twin).evaluations == {kind: 1}
    assert RECORDS.of(net).evaluations == {kind: 4}


class Counting(nn.Module):
    """A network that counts its calls in a buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = network(64)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run a function in several threads at once, and raise their first error."""
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def _frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_frequent_switches")
def test_an_inspection_sees_the_modules_of_its_own_thread(generator: Generator) -> None:
    x = torch.randn(8, 3, generator=generator)
    models = [Counting() for _ in range(3)]
    buffers = [model.calls for model in models]

    def work(k: int) -> None:
        for _ in range(30):
            observed = Observed(models[k], x.device)
            observed(x)
            assert set(observed.modules) == set(models[k].modules())

    in_threads(work, 3)
    assert [model.calls for model in models] == buffers
    assert all(model.calls == 0 for model in models)


@pytest.mark.usefixtures("_frequent_switches")
@pytest.mark.parametrize("name", ENGINES)
def test_threads_compute_what_one_thread_does(name: str, generator: Generator) -> None:
    engine = ENGINES[name]
    x, v = torch.randn(2, 8, 3, generator=generator)
    models = [network(32, activation) for activation in ACTIVATIONS[:3]]
    expected = [Autodiff().jet(copy.deepcopy(model), x, v, 1)[0] for model in models]

    def work(k: int) -> None:
        for _ in range(20):
            torch.testing.assert_close(engine.jet(models[k], x, v, 2)[0], expected[k])

    in_threads(work, 3)


def second_difference(f: nn.Module, x: Tensor, v: Tensor) -> tuple[float, list[str]]:
    """Return the relative error of a second difference in float32, and the warnings about it."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = FiniteDifference().jet(f, x, v, 2)[2]
    exact = Taylor().jet(copy.deepcopy(f).double(), x.double(), v.double(), 2)[2]
    error = float(((result - exact).norm() / exact.norm()).detach())
    return error, [str(w.message) for w in given if issubclass(w.category, PrecisionWarning)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("inputs", [2, 16])
@pytest.mark.parametrize("width", [16, 128, 512])
def test_ordinary_networks_are_not_warned_about(
    width: int, inputs: int, activation: Callable[[], nn.Module], generator: Generator
) -> None:
    """At initialization in float32, where the error is below three per cent."""
    f = network(width, activation, inputs).float()
    x = torch.randn(64, inputs, generator=generator).float()
    error, messages = second_difference(f, x, Sphere(0.3).sample(x, generator))
    assert error < 0.03
    assert messages == []


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("step", "cause"), [(0.0005, "rounding"), (8.0, "step is too large")])
def test_large_errors_of_ordinary_networks_are_warned_about(
    step: float, cause: str, activation: Callable[[], nn.Module], generator: Generator
) -> None:
    f = network(64, activation).float()
    for parameter in f[0].parameters():
        parameter.data *= 6
    x = torch.randn(64, 3, generator=generator).float()
    error, messages = second_difference(f, x, Sphere(step).sample(x, generator))
    assert error > 0.3
    assert len(messages) == 1
    assert cause in messages[0]


class Conditional(nn.Module):
    """A density given a class."""

    def __init__(self) -> None:
        super().__init__()
        self.classes, self.net = nn.Embedding(5, 3), network(inputs=6)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        return self.net(torch.cat([x, self.classes(label)], 1))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_integer_conditions_follow_their_rows(name: str, rows: int, generator: Generator) -> None:
    """Each row gives what it gives alone, with the class written out as its embedding."""
    engine = ENGINES[name]
    f = Conditional()
    x, v = torch.randn(2, rows, 3, generator=generator)
    labels = torch.randint(5, (rows,), generator=generator)
    slope = engine.jet(f, x, 0.01 * v, 2, labels)[1] / 0.01
    for k in range(rows):
        alone = lambda z, k=k: f.net(torch.cat([z, f.classes.weight[labels[k]][None]], 1))
        row = x[k : k + 1].requires_grad_()
        (gradient,) = torch.autograd.grad(alone(row).sum(), row)
        torch.testing.assert_close(slope[k], gradient[0] @ v[k], rtol=1e-3, atol=1e-5)


def test_data_stay_as_they_are_when_a_model_writes_into_its_input(generator: Generator) -> None:
    def f(x: Tensor) -> Tensor:
        return x.mul_(3).square().sum(1)

    x, v = torch.randn(2, 6, 3, generator=generator)
    given = x.clone()
    value, slope, curvature = FiniteDifference().jet(f, x, v, 2)
    assert torch.equal(x, given)
    torch.testing.assert_close(value, 9 * x.square().sum(1))
    torch.testing.assert_close(slope, 18 * (x * v).sum(1))
    torch.testing.assert_close(curvature, 18 * v.square().sum(1))


def test_scores_may_differentiate_with_respect_to_their_input(generator: Generator) -> None:
    net = network()

    def score(x: Tensor) -> Tensor:
        return torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]

    x, v = torch.randn(2, 6, 3, generator=generator)
    _, slope, curvature = Taylor().jet(net, x, v, 2)
    value, quadratic = Autodiff().quadratic(score, x, v)
    torch.testing.assert_close((value * v).sum(1), slope)
    torch.testing.assert_close(quadratic, curvature)


@pytest.mark.parametrize("name", ENGINES)
def test_shapes_on_the_meta_device(name: str) -> None:
    engine = ENGINES[name]
    x = torch.empty(6, 3, device="meta")
    terms = engine.jet(network().to("meta"), x, x, 2)
    assert [(term.device.type, tuple(term.shape)) for term in terms] == [("meta", (6,))] * 3
