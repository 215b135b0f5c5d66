"""Refused compilations change nothing, and updates that follow are those of eager torch."""

import pickle
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.objectives import DSM
from fdsm.training import CompileWarning
from fdsm.training.compiled.graph import StepGraph
from fdsm.training.compiled.trace import NotCompilable

from .cases import Pair, mlp, objective_of


class Stateful(nn.Module):
    """A density that changes itself at every call in one of several ways."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.net, self.kind, self.calls = mlp(), kind, 0
        self.history: list[float] = []
        self.own = Generator().manual_seed(3)
        self.numbers = np.random.default_rng(3)
        self.plain = torch.zeros(1)
        self.mean: Tensor = nn.Buffer(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)
        return getattr(self, self.kind)(x, y)  # type: ignore[no-any-return]

    def counted(self, x: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        return y * (1 + self.calls / 10)

    def listed(self, x: Tensor, y: Tensor) -> Tensor:
        self.history.append(1.0)
        return y * len(self.history)

    def data(self, x: Tensor, y: Tensor) -> Tensor:
        self.mean.data.add_(0.1)
        return y * self.mean

    def replaced(self, x: Tensor, y: Tensor) -> Tensor:
        self.mean = self.mean + 1e-6
        return y + self.mean * x.sum(1)

    def written(self, x: Tensor, y: Tensor) -> Tensor:
        self.plain.data.add_(0.1)
        return y + self.plain * x.sum(1)

    def clamped(self, x: Tensor, y: Tensor) -> Tensor:
        self.net[0].weight.data.clamp_(-0.2, 0.2)  # type: ignore[union-attr,operator]
        return y

    def normalized(self, x: Tensor, y: Tensor) -> Tensor:
        x.data.mul_(0.9)
        return y * x.square().sum(1)

    def python(self, x: Tensor, y: Tensor) -> Tensor:
        return y * random.random()

    def numpy(self, x: Tensor, y: Tensor) -> Tensor:
        return y * float(np.random.rand())

    def numpy_generator(self, x: Tensor, y: Tensor) -> Tensor:
        return y * self.numbers.random()

    def generator(self, x: Tensor, y: Tensor) -> Tensor:
        return y * torch.rand(1, generator=self.own)

    def in_place(self, x: Tensor, y: Tensor) -> Tensor:
        return y * torch.empty(1).normal_(generator=self.own)

    def dropout(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.dropout(y)

    def read(self, x: Tensor, y: Tensor) -> Tensor:
        self.calls = 0
        return y * x.tolist()[0][0]


REFUSED = {
    "counted": "`calls` of the model",
    "listed": r"`\d` of `history` of the model",
    "data": "`mean` of the model",
    "replaced": "`mean` of the model",
    "written": "`plain` of the model",
    "clamped": "`weight` of `net.0`",
    "normalized": "the batch",
    "python": "random state of Python or NumPy",
    "numpy": "random state of Python or NumPy",
    "generator": "random numbers are drawn inside the model",
    "in_place": "random numbers are drawn inside the model",
    "dropout": "random numbers are drawn inside the model",
    "read": "numbers are read from a tensor",
    "numpy_generator": "differs between two evaluations",
}


def loss_of(model: nn.Module) -> Callable[..., Tensor]:
    return lambda x, *_: model(x).square()


def everything(pair: Pair, x: Tensor) -> list[object]:
    """Return copies of all state that a compilation could change."""
    model, optimizer = pair.models[1], pair.compiled.optimizer
    assert isinstance(model, Stateful)
    states = list(optimizer.state.values())
    tensors = [*model.parameters(), *model.buffers(), model.plain, x]
    tensors += [t for state in states for t in state.values()]
    return [
        list(map(id, tensors)),
        [t.detach().clone() for t in tensors],
        [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        [len(optimizer.state), model.calls, list(model.history)],
        [g.get_state() for g in (*pair.generators, model.own)],
        torch.get_rng_state(),
        [hash(random.getstate()), hash(pickle.dumps(np.random.get_state()))],
    ]


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_compilation_leaves_everything_as_it_was(kind: str) -> None:
    pair, x = Pair(loss_of, Stateful(kind)), torch.randn(6, 3)
    super(type(pair.compiled), pair.compiled).__call__((x,), pair.generators[1], 0.0)
    before = everything(pair, x)
    with pytest.raises(NotCompilable, match=REFUSED[kind]):
        StepGraph(pair.compiled, (x,), pair.generators[1], 0.0)
    torch.testing.assert_close(everything(pair, x), before, rtol=0, atol=0)


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("kind", ["counted", "listed", "data", "replaced", "written", "clamped"])
def test_models_that_change_themselves_are_trained_as_in_eager_torch(kind: str) -> None:
    pair = Pair(loss_of, Stateful(kind))
    with pytest.warns(CompileWarning, match="the model changes its buffers or other state"):
        pair.require_equal(pair.train(8))
    eager, compiled = pair.models
    torch.testing.assert_close(compiled.mean, eager.mean)
    torch.testing.assert_close(compiled.plain, eager.plain)
    assert compiled.calls == eager.calls


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("kind", ["parameter", "module"])
def test_hooks_are_called(kind: str) -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp())
    for model in pair.models:
        if kind == "parameter":
            next(model.parameters()).register_hook(lambda g: 0.1 * g)
        else:
            model.register_forward_hook(lambda m, x, y: 2 * y)
    with pytest.warns(CompileWarning, match="has hooks, which a graph does not call"):
        pair.require_equal(pair.train(8))


@pytest.mark.usefixtures("_traced_only")
def test_gradients_of_the_batch_are_those_of_eager_torch() -> None:
    pair = Pair(loss_of, mlp())
    pair.train(3)
    x = [torch.ones(6, 3, requires_grad=True) for _ in range(2)]
    for update, generator, batch in zip(pair.updates, pair.generators, x, strict=True):
        update((batch,), generator, 0.0)
    assert x[0].grad is not None
    torch.testing.assert_close(x[1].grad, x[0].grad)


@pytest.mark.usefixtures("_traced_only")
def test_a_loss_that_writes_to_a_tensor_outside_is_refused() -> None:
    total = [torch.zeros(1), torch.zeros(1)]

    def loss(model: nn.Module) -> Callable[..., Tensor]:
        own = total[len(seen)]
        seen.append(model)

        def summed(x: Tensor, *_: object) -> Tensor:
            own.add_(1)
            return model(x).square()  # type: ignore[no-any-return]

        return summed

    seen: list[nn.Module] = []
    pair = Pair(loss, mlp())
    with pytest.warns(CompileWarning, match="`values` of `own`"):
        pair.require_equal(pair.train(5))
    assert total[1].item() == total[0].item() == 5
