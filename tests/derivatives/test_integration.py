"""Finite differences go where a plain forward and backward go."""

import warnings
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM, SSMVR, SlicedDSM
from fdsm.projections import Sphere
from fdsm.typing import Objective

from ..parameters import at_night
from .processes import free_port, meet, part


def density() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


ENGINES = [FiniteDifference(), FiniteDifference(False, accuracy=4)]


@pytest.mark.parametrize("engine", at_night(ENGINES, but=ENGINES[:1]), ids=str)
@pytest.mark.parametrize("whole", at_night([True, False], but=[True]), ids=["loss", "model"])
def test_compiles_to_the_same_numbers(
    engine: FiniteDifference, whole: bool, generator: Generator
) -> None:
    model, (x, v) = density(), torch.randn(2, 6, 3, generator=generator)
    noise = 0.3 * torch.randn(6, 3, generator=generator)
    torch.compiler.reset()
    ssm, dsm = SSM(engine, Sphere(0.1)), SlicedDSM(0.3, engine, Sphere(0.1))

    def loss(f: nn.Module, x: Tensor) -> Tensor:
        return (ssm.at(f, x, v) + dsm.at(f, x, noise, v)).mean()

    expected = loss(model, x)
    if whole:
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        actual = compiled(model, x)
    else:
        actual = loss(torch.compile(model, backend="aot_eager"), x)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradients(actual, model), gradients(expected, model))


def test_trains_through_operations_without_a_double_backward(generator: Generator) -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(5, 3, 4, generator=generator)
    f = lambda x: attention(x, x, x)[0].square().sum((1, 2))
    loss = SSM(FiniteDifference(accuracy=4), Sphere(0.01))(f, x, generator=generator).mean()
    loss.backward()
    direction = {name: torch.randn_like(p) for name, p in attention.named_parameters()}
    predicted = sum((p.grad * direction[name]).sum() for name, p in attention.named_parameters())

    def shifted(t: float) -> float:
        weights = {n: p + t * direction[n] for n, p in attention.named_parameters()}
        g = lambda x: functional_call(attention, weights, (x, x, x))[0].square().sum((1, 2))
        fresh = Generator().manual_seed(0)
        torch.randn(5, 3, 4, generator=fresh)
        with torch.no_grad():
            return (
                SSM(FiniteDifference(accuracy=4), Sphere(0.01))(g, x, generator=fresh)
                .mean()
                .item()
            )

    assert (shifted(1e-4) - shifted(-1e-4)) / 2e-4 == pytest.approx(predicted.item(), rel=1e-4)


def work(rank: int, folder: str, port: int) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    meet(rank, port)
    torch.manual_seed(0)
    model = density()
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, v in batches():
        mine = slice(4 * rank, 4 * rank + 4)
        optimizer.zero_grad()
        SSM(FiniteDifference(), Sphere(0.1)).at(parallel, x[mine], v[mine]).mean().backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), f"{folder}/parallel.pt")
    part()


def batches() -> list[Tensor]:
    draw = Generator().manual_seed(1)
    return [
        torch.stack([x := torch.randn(8, 3, generator=draw), Sphere(0.1).sample(x, draw)])
        for _ in range(3)
    ]


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_data_parallel_training_is_training(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mp.spawn(work, (str(tmp_path), free_port()), nprocs=2)
    torch.manual_seed(0)
    model = density()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, v in batches():
        optimizer.zero_grad()
        SSM(FiniteDifference(), Sphere(0.1)).at(model, x, v).mean().backward()
        optimizer.step()
    found = torch.load(tmp_path / "parallel.pt", weights_only=True)
    torch.testing.assert_close(found, dict(model.state_dict()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "objective",
    [SSM(FiniteDifference()), SSMVR(FiniteDifference()), SlicedDSM(0.3, FiniteDifference())],
    ids=["fd-ssm", "fd-ssmvr", "fd-dsm"],
)
def test_parameters_may_be_passed_as_arguments(objective: Objective, generator: Generator) -> None:
    model = density() if not isinstance(objective, SSMVR) else nn.Linear(3, 3)
    weights = dict(model.named_parameters())
    x = torch.randn(6, 3, generator=generator)
    functional = lambda x: functional_call(model, weights, (x,))
    losses = [objective(f, x, generator=Generator().manual_seed(1)) for f in (model, functional)]
    assert torch.equal(*losses)
