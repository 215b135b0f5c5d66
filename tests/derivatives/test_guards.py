"""Every node of a difference sees the same function."""

from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.objectives import SSM
from fdsm.projections import Sphere


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


MODEL = Energetic()


def helper(x: Tensor) -> Tensor:
    return MODEL.log_density(x)


def closed_over(model: Energetic) -> list[object]:
    return [
        model.net,
        model.log_density,
        lambda x: model.net(x).squeeze(1),
        partial(lambda m, x: m(x).squeeze(1), model.net),
        lambda x: (lambda y: model.log_density(y))(x),
        lambda x: MODEL.log_density(x),
        Holder(model),
        Holder(model).method,
        lambda x, models=(model,): models[0].log_density(x),
        (lambda models: lambda x: models[0].log_density(x))([model]),
        lambda x: helper(x) + 0,
    ]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("index", range(11))
def test_batch_norm_in_training_mode_is_refused_wherever_it_hides(
    index: int, parallel: bool
) -> None:
    MODEL.double().train()
    f = closed_over(MODEL)[index]
    with pytest.raises(RuntimeError, match=r"BatchNorm1d normalises by .*batch.*eval\(\)"):
        FiniteDifference(parallel).jet(f, torch.ones(4, 3), torch.ones(4, 3), 1)


def test_batch_norm_in_evaluation_mode_is_a_function(generator: Generator) -> None:
    model = Energetic().eval()
    x, v = torch.randn(2, 4, 3, generator=generator)
    slopes = [e.jet(model.log_density, x, v, 1)[1] for e in (FiniteDifference(), Autodiff())]
    torch.testing.assert_close(*slopes)
    assert model.net[1].num_batches_tracked == 0


def normalised() -> nn.Module:
    return nn.Sequential(
        spectral_norm(nn.Linear(3, 8)), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0)
    )


@pytest.mark.parametrize("engine", [FiniteDifference(parallel=False), FiniteDifference(chunk=3)])
def test_changing_buffers_are_refused_over_several_calls(engine: FiniteDifference) -> None:
    net, x = normalised(), torch.randn(4, 3)
    with pytest.raises(RuntimeError, match=r"changes its buffers.*parallel=True"):
        engine.jet(net, x, x, 2)
    engine.jet(net.eval(), x, x, 2)


def test_changing_buffers_are_no_harm_in_one_call() -> None:
    net, (x, v) = normalised(), torch.randn(2, 4, 3)
    curvature = FiniteDifference().jet(net, x, 1e-3 * v, 2)[2]
    torch.testing.assert_close(
        curvature, Autodiff().jet(net.eval(), x, 1e-3 * v, 2)[2], rtol=1e-3, atol=0
    )


def test_modules_are_found_once_each() -> None:
    net = dropping()
    found = list(modules_of(lambda x: net(x) + net[0](x).sum(1)))
    assert len(found) == 6
    assert set(found) == set(net.modules())
