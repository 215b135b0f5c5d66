"""Every value that a derivative is computed from belongs to one function of a single row."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor, score_of
from fdsm.objectives import DSM, SSM, SSMVR, ViaScore
from fdsm.projections import Sphere
from fdsm.typing import Objective

from ...parameters import at_night


def dropping() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(3, 64), nn.Softplus(), nn.Dropout(0.5), nn.Linear(64, 1), nn.Flatten(0)
    )


@pytest.mark.parametrize("chunk", [None, 7])
def test_random_numbers_are_replayed_one_by_one(chunk: int | None, generator: Generator) -> None:
    net, x = dropping(), torch.randn(16, 3, generator=generator)
    v = Sphere(1e-3).sample(x, generator)
    torch.manual_seed(3)
    _, slope, curvature = FiniteDifference(parallel=False, chunk=chunk).jet(net, x, v, 2)
    after = torch.rand(1)
    torch.manual_seed(3)
    exact = FiniteDifference(parallel=False, chunk=chunk)._call(net, x, ())
    assert torch.rand(1) == after, "the numbers of one evaluation are used up, not of three"
    if chunk is None:
        torch.manual_seed(3)
        value, s, c = Autodiff().jet(net, x, v, 2)
        torch.testing.assert_close(value, exact)
        torch.testing.assert_close(slope, s, rtol=1e-5, atol=1e-9)
        torch.testing.assert_close(curvature, c, rtol=1e-3, atol=1e-9)


def test_gradient_of_replayed_differences(generator: Generator) -> None:
    net, x = dropping(), torch.randn(16, 3, generator=generator)
    v = Sphere(1e-2).sample(x, generator)
    gradients = []
    for engine in (FiniteDifference(parallel=False), Autodiff()):
        torch.manual_seed(3)
        loss = SSM(engine, Sphere(1e-2)).at(net, x, v).mean()
        gradients.append(
            torch.cat([
                g.flatten()
                for g in torch.autograd.grad(
                    loss, list(net.parameters()), allow_unused=True, materialize_grads=True
                )
            ])
        )
    assert (gradients[0] - gradients[1]).norm() < 1e-3 * gradients[1].norm()


def noisy(x: Tensor) -> Tensor:
    return x.sum(1) + torch.rand(len(x))


@pytest.mark.parametrize("f", [dropping(), noisy, partial(noisy)], ids=["net", "def", "partial"])
def test_fresh_random_numbers_in_one_batch_are_refused(f: nn.Module) -> None:
    f = f.double() if isinstance(f, nn.Module) else f
    with pytest.raises(RuntimeError, match=r"drew random numbers.*parallel=False.*eval\(\)"):
        FiniteDifference().jet(f, torch.ones(4, 3), torch.ones(4, 3), 2)


def test_evaluation_mode_needs_no_replay(generator: Generator) -> None:
    net = dropping().eval()
    x, v = torch.randn(2, 4, 3, generator=generator)
    parallel, serial = (FiniteDifference(p).jet(net, x, v, 2) for p in (True, False))
    torch.testing.assert_close(parallel, serial)


class Energetic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))

    def log_density(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)


class Holder:
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, x: Tensor) -> Tensor:
        return self.model.log_density(x)

    def method(self, x: Tensor) -> Tensor:
        return self.model.log_density(x)


MODEL = Energetic().double()


def helper(x: Tensor) -> Tensor:
    return MODEL.log_density(x)


def functional_batch_norm(model: Energetic, x: Tensor) -> Tensor:
    first, norm, last = model.net
    h = functional.batch_norm(first(x), None, None, norm.weight, norm.bias, training=True)
    return last(h).squeeze(1)


def by_functional_call(model: Energetic) -> Callable[[Tensor], Tensor]:
    weights = dict(model.net.named_parameters())
    return lambda x: functional_call(model.net, weights, (x,)).squeeze(1)


def scripted(model: Energetic) -> Callable[[Tensor], Tensor]:
    net = torch.jit.script(model.net)
    return lambda x: net(x).squeeze(1)


def compiled(model: Energetic) -> Callable[[Tensor], Tensor]:
    net = torch.compile(model.net, backend="eager")
    return lambda x: net(x).squeeze(1)


def compiled_functional(model: Energetic) -> Callable[[Tensor], Tensor]:
    return torch.compile(partial(functional_batch_norm, model), backend="eager")


WRAPPED = {
    "module": lambda model: nn.Sequential(*model.net, nn.Flatten(0)),
    "method": lambda model: model.log_density,
    "lambda": lambda model: lambda x: model.net(x).squeeze(1),
    "partial": lambda model: partial(lambda m, x: m(x).squeeze(1), model.net),
    "keyword of a partial": lambda model: partial(lambda x, m: m(x).squeeze(1), m=model.net),
    "nested": lambda model: lambda x: (lambda y: model.log_density(y))(x),
    "global": lambda model: lambda x: MODEL.log_density(x),
    "global of a helper": lambda model: lambda x: helper(x) + 0,
    "object": Holder,
    "method of an object": lambda model: Holder(model).method,
    "default": lambda model: lambda x, models=(model,): models[0].log_density(x),
    "list": lambda model: (lambda models: lambda x: models[0].log_density(x))([model]),
    "functional_call": by_functional_call,
    "functional": lambda model: partial(functional_batch_norm, model),
    "scripted": scripted,
    "compiled": compiled,
    "compiled functional": compiled_functional,
}
ENGINES = [FiniteDifference(), FiniteDifference(parallel=False), Autodiff()]


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("name", WRAPPED)
def test_batch_norm_in_training_mode_is_refused(
    name: str, engine: FiniteDifference | Autodiff, generator: Generator
) -> None:
    MODEL.train()
    f = WRAPPED[name](MODEL)
    x, v = torch.randn(2, 16, 3, generator=generator)
    statistics = MODEL.net[1].running_mean.clone()
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"BatchNorm1d uses|with the other rows.*eval\(\)"):
            engine.jet(f, x, v, 1)
    assert torch.equal(MODEL.net[1].running_mean, statistics)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_batch_norm_is_refused_when_training_mode_comes_later(
    engine: FiniteDifference | Autodiff, generator: Generator
) -> None:
    model = Energetic().eval()
    x, v = torch.randn(2, 16, 3, generator=generator)
    for _ in range(5):
        engine.jet(model.log_density, x, v, 1)
    model.train()
    with pytest.raises(RuntimeError, match="BatchNorm1d uses the statistics of the batch"):
        engine.jet(model.log_density, x, v, 1)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(3).double(),
        nn.SyncBatchNorm(3).double(),
        nn.BatchNorm1d(3, track_running_stats=False).double().eval(),
    ],
)
def test_scores_and_their_objectives_refuse_batch_norm(
    norm: nn.Module, generator: Generator
) -> None:
    x = torch.randn(16, 3, generator=generator)
    density = lambda x: -norm(x).square().sum(1)
    for call in (
        lambda: score_of(density)(x),
        lambda: DSM(0.1)(density, x, generator=generator),
        lambda: SSMVR(Autodiff())(norm, x, generator=generator),
        lambda: ViaScore(SSMVR(FiniteDifference()))(density, x, generator=generator),
    ):
        with pytest.raises(RuntimeError, match="uses the statistics of the batch"):
            call()


def test_models_that_mix_rows_are_refused(generator: Generator) -> None:
    attention = nn.MultiheadAttention(4, 2)
    mixing = lambda x: attention(x, x, x)[0].sum(1)  # rows attend to each other
    x, v = torch.randn(2, 16, 4, generator=generator)
    for engine in ENGINES:
        for f in (mixing, lambda x: (x - x.mean(0)).square().sum(1)):
            with pytest.raises(RuntimeError, match="changes with the other rows of the batch"):
                engine.jet(f, x, v, 1)


def test_models_with_a_generator_of_their_own(generator: Generator) -> None:
    own = Generator().manual_seed(0)
    noisy = lambda x: x.square().sum(1) + torch.randn(len(x), generator=own)
    x, v = torch.randn(2, 16, 3, generator=generator)
    for engine in (FiniteDifference(), FiniteDifference(parallel=False)):
        with pytest.raises(RuntimeError, match="differ between calls"):
            engine.jet(noisy, x, v, 2)
    for engine in (Autodiff(), Taylor()):  # they evaluate the model once
        torch.testing.assert_close(engine.jet(noisy, x, v, 2)[1], 2 * (x * v).sum(1))


@pytest.mark.parametrize("engine", [*ENGINES, Taylor()], ids=str)
def test_shapes_on_the_meta_device(engine: FiniteDifference | Autodiff | Taylor) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)).to("meta")
    x, v = torch.ones(5, 3, device="meta"), torch.ones(2, 5, 3, device="meta")
    slopes, curvature = engine.sliced(net, x, v)
    assert (slopes.shape, curvature.shape, curvature.device.type) == ((2, 5), (5,), "meta")
    assert engine.quadratic(nn.Linear(3, 3, device="meta"), x, v[0])[1].shape == (5,)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the compiler, about parts it cannot trace
@pytest.mark.parametrize(
    "engine", at_night([FiniteDifference(), Autodiff()], but=[FiniteDifference()]), ids=str
)
def test_batch_norm_is_refused_in_a_compiled_loss(
    engine: FiniteDifference | Autodiff, generator: Generator
) -> None:
    torch.compiler.reset()
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1), nn.Flatten(0))
    x, v = torch.randn(2, 16, 3, generator=generator)
    loss = torch.compile(lambda x, v: engine.jet(net, x, v, 1)[1].sum(), backend="eager")
    with pytest.raises((RuntimeError, ValueError), match=r"statistics of the batch|other rows"):
        loss(x, v)


class Initialized(nn.Module):
    """A layer that standardizes its first batch, as ActNorm does."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("is_initialized", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_initialized:
            self.scale.data.copy_(1 / x.std(0))
            self.is_initialized.fill_(True)
        return (x * self.scale).square().sum(1)


@pytest.mark.parametrize("engine", [*ENGINES, Taylor()], ids=str)
def test_layers_that_initialize_themselves(
    engine: FiniteDifference | Autodiff | Taylor, generator: Generator
) -> None:
    x, v = torch.randn(2, 16, 3, generator=generator)
    if isinstance(engine, Taylor):
        model = Initialized()
        model(x)
    else:
        model = Initialized()
    _, slope = engine.jet(model, x, v, 1)
    torch.testing.assert_close(slope, 2 * (x * v / x.var(0)).sum(1))


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_independent_rows_are_accepted(rows: int, generator: Generator) -> None:
    """With dropout replayed, spectral norm in training mode, and a large offset in float32."""
    net = nn.Sequential(
        spectral_norm(nn.Linear(3, 8)), nn.Softplus(), nn.Dropout(0.5), nn.Linear(8, 1)
    ).float()
    f = lambda x: net(x).squeeze(1) + 1e4
    x, v = torch.randn(2, rows, 3, generator=generator).float()
    value, slope = Autodiff().jet(f, x, v, 1)
    assert value.shape == slope.shape == (rows,)


def test_batch_norm_in_evaluation_mode_is_a_function(generator: Generator) -> None:
    model = Energetic().eval()
    x, v = torch.randn(2, 4, 3, generator=generator)
    slopes = [e.jet(model.log_density, x, v, 1)[1] for e in (FiniteDifference(), Autodiff())]
    torch.testing.assert_close(*slopes)
    assert model.net[1].num_batches_tracked == 0


def normalized() -> nn.Module:
    return nn.Sequential(
        spectral_norm(nn.Linear(3, 8)), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0)
    )


@pytest.mark.parametrize("engine", [FiniteDifference(parallel=False), FiniteDifference(chunk=3)])
def test_changing_buffers_are_refused_over_several_calls(engine: FiniteDifference) -> None:
    net, x = normalized(), torch.randn(4, 3)
    with pytest.raises(RuntimeError, match=r"changes its buffers.*parallel=True"):
        engine.jet(net, x, x, 2)
    engine.jet(net.eval(), x, x, 2)


def test_changing_buffers_are_no_harm_in_one_call() -> None:
    net, (x, v) = normalized(), torch.randn(2, 4, 3)
    curvature = FiniteDifference().jet(net, x, 1e-3 * v, 2)[2]
    torch.testing.assert_close(
        curvature, Autodiff().jet(net.eval(), x, 1e-3 * v, 2)[2], rtol=1e-3, atol=0
    )


def test_an_inspection_of_differences_draws_no_random_numbers(generator: Generator) -> None:
    """The first difference along `v` is inspected, and leaves the state of one evaluation."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Dropout(0.5))
    x, v = torch.randn(2, 6, 3, generator=generator)
    torch.manual_seed(3)
    net(x)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    FiniteDifference(parallel=False).jet(lambda x: net(x).sum(1), x, v, 2)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_inspection_of_differences_leaves_buffers_alone(generator: Generator) -> None:
    """Spectral norm updates its buffers at each call, and one batch is one call."""
    layer = spectral_norm(nn.Linear(3, 8))
    net = nn.Sequential(layer, nn.Softplus())
    x, v = torch.randn(2, 6, 3, generator=generator)
    once = copy.deepcopy(net)
    once(x)
    FiniteDifference().jet(lambda x: net(x).sum(1), x, v, 2)
    assert all(map(torch.equal, net.buffers(), once.buffers()))


@pytest.mark.parametrize(
    "objective", [SSM(FiniteDifference()), DSM(0.1), ViaScore(SSMVR(FiniteDifference()))]
)
def test_an_error_of_the_model_is_the_only_one(objective: Objective) -> None:
    """It is not one of several that were raised while others were handled."""
    layer = nn.Linear(7, 1)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        objective(lambda x: layer(x).squeeze(1), torch.randn(4, 3))
    assert caught.value.__context__ is None
