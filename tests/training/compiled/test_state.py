"""State of the model or the optimizer that changes after the step was compiled."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fdsm.objectives import DSM
from fdsm.training import CompileWarning

from .cases import Pair, mlp, objective_of


class Adjustable(nn.Module):
    """A density with the kinds of state that users give their models."""

    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.net, self.drop = mlp(), nn.Dropout(0.5).eval()
        self.weight = nn.Parameter(torch.tensor(0.5))
        self.temperature, self.powers, self.weighted = 1.0, [1.0, 2.0], False
        self.mean, self.shift = torch.zeros(3), nn.Buffer(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(self.drop(x - self.mean - self.shift)) / self.temperature
        y = y - sum(p * x.square().sum(1) for p in self.powers) * self.scale / 10
        return self.weight * y if self.weighted else y


def cleared(_: Adjustable, optimizer: torch.optim.Optimizer) -> None:
    optimizer.state.clear()


def restarted(_: Adjustable, optimizer: torch.optim.Optimizer) -> None:
    for state in optimizer.state.values():
        state["step"] = torch.ones_like(state["step"])


def clamped(optimizer: torch.optim.Optimizer, *_: object) -> None:
    with torch.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.clamp_(-0.1, 0.1)


def scaled(p: Tensor) -> None:
    assert p.grad is not None
    p.grad.mul_(0.1)


def stepped(_: Adjustable, optimizer: torch.optim.Optimizer) -> None:
    """As gradient scalers and some packages do: replace the method of the object."""
    step = optimizer.step

    def halved() -> None:
        for p in optimizer.param_groups[0]["params"]:
            p.grad = None if p.grad is None else p.grad / 2
        step()

    optimizer.step = halved  # type: ignore[method-assign,assignment]


Change = Callable[[Adjustable, torch.optim.Optimizer], object]
CHANGES: dict[str, tuple[Change, str]] = {
    "number": (lambda m, _: setattr(m, "temperature", 3.0), "`temperature` of the model"),
    "number in a list": (lambda m, _: m.powers.append(1.5), "`2` of `powers` of the model"),
    "flag": (lambda m, _: setattr(m, "weighted", True), "`weighted` of the model"),
    "tensor": (lambda m, _: setattr(m, "mean", torch.ones(3)), "`mean` of the model"),
    "buffer": (lambda m, _: setattr(m, "shift", torch.ones(1)), "`shift` of the model"),
    "equal buffer, later written": (
        lambda m, _: (setattr(m, "shift", torch.zeros(1)), m.shift.add_(1.0)),
        "`shift` of the model",
    ),
    "mode": (lambda m, _: m.drop.train(), "`training` of `drop`"),
    "submodule": (lambda m, _: setattr(m, "drop", nn.Tanh()), "`drop` of the model"),
    "class": (lambda m, _: setattr(m.net[1], "forward", torch.relu), "`forward` of `net.1`"),
    "parameter hook": (
        lambda m, _: m.net[0].weight.register_hook(lambda g: 0.1 * g),
        "hook of the parameter `net.0.weight`",
    ),
    "hook after accumulation": (
        lambda m, _: m.net[0].bias.register_post_accumulate_grad_hook(scaled),
        "hook of the parameter `net.0.bias`",
    ),
    "module hook": (
        lambda m, _: m.net[1].register_forward_hook(lambda m, x, y: 2 * y),
        "hook of a module",
    ),
    "optimizer hook": (
        lambda _, o: o.register_step_post_hook(clamped),
        "hook of it",
    ),
    "step": (stepped, "`step` of the optimizer"),
    "setting": (
        lambda _, o: o.param_groups[0].update(betas=(0.5, 0.5)),
        "a setting of the optimizer",
    ),
    "cleared state": (cleared, "the state of the optimizer"),
    "restarted count": (restarted, "the state of the optimizer"),
    "frozen": (lambda m, _: m.net[2].requires_grad_(False), "`requires_grad`.*`net.2.weight`"),
    "group": (
        lambda _, o: o.add_param_group({"params": [nn.Parameter(torch.zeros(1))]}),
        "a group of the optimizer",
    ),
}


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", CHANGES)
def test_after_a_change_the_step_runs_eagerly_with_one_warning(name: str) -> None:
    change, words = CHANGES[name]
    pair = Pair(lambda m: objective_of(DSM(0.3), m), Adjustable(), clip=1.0)
    pair.train(4)
    assert pair.compiled.is_compiled
    for model, update in zip(pair.models, pair.updates, strict=True):
        change(model, update.optimizer)  # type: ignore[arg-type]
    torch.manual_seed(5)  # dropout draws from the generator of torch
    with pytest.warns(CompileWarning, match=f"{words}.* changed since the step") as caught:
        metrics = pair.train(4)
    assert len(caught) == 1
    if name != "mode":  # there the models share the generator of torch
        pair.require_equal(metrics)


@pytest.mark.usefixtures("_traced_only")
def test_the_graph_is_used_again_if_the_state_comes_back() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), Adjustable())
    pair.train(3)
    for model in pair.models:
        model.temperature = 3.0  # type: ignore[assignment]
    with pytest.warns(CompileWarning, match="`temperature` of the model has changed"):
        pair.train(2)
    before = pair.compiled._updates
    for model in pair.models:
        model.temperature = 1.0  # type: ignore[assignment]
    metrics = pair.train(3)
    assert pair.compiled._updates == before + 3
    pair.require_equal(metrics)


class Weighted:
    """An objective with a setting that can be changed."""

    def __init__(self) -> None:
        self.weight = 1.0

    def __call__(self, model: nn.Module, x: Tensor, *, generator: object = None) -> Tensor:
        y: Tensor = model(x)
        return self.weight * y.square()


@pytest.mark.usefixtures("_traced_only")
def test_settings_of_the_objective_are_compared() -> None:
    objective = Weighted()
    pair = Pair(lambda m: objective_of(objective, m), mlp())  # type: ignore[arg-type]
    pair.train(3)
    objective.weight = 2.0
    with pytest.warns(CompileWarning, match="`weight` of `objective` has changed"):
        pair.require_equal(pair.train(3))


@pytest.mark.usefixtures("_traced_only")
def test_the_limit_of_the_gradient_may_change() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp(), clip=5.0)
    pair.train(3)
    for update in pair.updates:
        update.clip = 0.01
    with pytest.warns(CompileWarning, match="limit of the gradient has changed"):
        pair.require_equal(pair.train(3))
