"""Adam and other optimizers in a graph, compared with those of torch."""

import pytest
import torch

from fdsm.objectives import DSM
from fdsm.training import CompileWarning

from .cases import Pair, mlp, objective_of


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.9), weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3, weight_decay=0.5),
        lambda p: torch.optim.AdamW(p, amsgrad=True),
        lambda p: torch.optim.RMSprop(p, momentum=0.5),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.SGD(p, lr=0.1),
    ],
    ids=["Adam with L2", "AdamW", "AMSGrad", "RMSprop", "SGD with momentum", "SGD"],
)
def test_optimizers(optimizer: object) -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp(), optimizer, decay=0.9)  # type: ignore[arg-type]
    metrics = pair.train(6)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


@pytest.mark.usefixtures("_traced_only")
def test_groups_have_their_own_learning_rates_which_may_change() -> None:
    def optimizer(parameters: object) -> torch.optim.Optimizer:
        first, *others = parameters  # type: ignore[misc]
        groups = [{"params": [first], "lr": 0.1, "betas": (0.5, 0.6)}, {"params": others}]
        return torch.optim.AdamW(groups, lr=0.01)

    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp(), optimizer)
    pair.train(3)
    for update in pair.updates:
        update.optimizer.param_groups[0]["lr"] = 0.03
    pair.require_equal(pair.train(3))


@pytest.mark.usefixtures("_traced_only")
def test_an_optimizer_that_is_restored_is_found_again() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp())
    pair.train(4)
    for update in pair.updates:
        update.optimizer.load_state_dict(update.optimizer.state_dict())
    pair.require_equal(pair.train(3))


@pytest.mark.usefixtures("_traced_only")
def test_a_new_group_of_parameters_is_not_ignored() -> None:
    model = mlp()
    model[2].requires_grad_(False)
    trained = lambda parameters: torch.optim.Adam(p for p in parameters if p.requires_grad)
    pair = Pair(lambda m: objective_of(DSM(0.3), m), model, trained)
    pair.train(3)
    assert pair.compiled.is_compiled
    assert all(p.grad is None for p in pair.compiled.parameters)
    for model, update in zip(pair.models, pair.updates, strict=True):
        new = list(model.parameters())[2:]
        update.optimizer.add_param_group({"params": [p.requires_grad_() for p in new]})
    before = pair.models[1].state_dict()["2.weight"].clone()
    with pytest.warns(CompileWarning, match="has changed since the step was compiled"):
        metrics = pair.train(3)
    assert not torch.equal(pair.models[1].state_dict()["2.weight"], before)
    pair.require_equal(metrics)


def halved(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Halve the weights before a step."""
    with torch.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.mul_(0.5)


def with_hook(parameters: object) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(parameters)  # type: ignore[arg-type]
    optimizer.register_step_pre_hook(halved)
    return optimizer


class Restrained(torch.optim.AdamW):
    """An optimizer of a package: Adam with a step of its own."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step(closure)
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.clamp_(-0.2, 0.2)


def with_own_step(parameters: object) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(parameters)  # type: ignore[arg-type]
    step = optimizer.step

    def twice() -> None:
        step()
        step()

    optimizer.step = twice  # type: ignore[method-assign,assignment]
    return optimizer


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("optimizer", [with_hook, Restrained, with_own_step])
def test_hooks_and_own_steps_of_an_optimizer_run_after_the_graph(optimizer: object) -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp(), optimizer, decay=0.9)  # type: ignore[arg-type]
    metrics = pair.train(8)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize("frozen", [0, 2])
def test_a_frozen_parameter_of_the_optimizer_stays_as_it_is(
    frozen: int, optimizer: type[torch.optim.Optimizer]
) -> None:
    model = mlp()
    model[frozen].requires_grad_(False)
    before = model[frozen].weight.clone()
    pair = Pair(lambda m: objective_of(DSM(0.3), m), model, optimizer, decay=0.9)
    metrics = pair.train(5)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)
    assert torch.equal(pair.models[1].state_dict()[f"{frozen}.weight"], before)
    for model in pair.models:
        model.requires_grad_()
    with pytest.warns(CompileWarning, match="`requires_grad`.* has changed since the step"):
        metrics = pair.train(3)
    pair.require_equal(metrics)
    assert not torch.equal(pair.models[1].state_dict()[f"{frozen}.weight"], before)


@pytest.mark.usefixtures("_traced_only")
def test_parameters_with_a_gradient_and_no_optimizer_are_refused() -> None:
    """Eager torch adds up their gradients, for a second optimizer."""
    pair = Pair(
        lambda m: objective_of(DSM(0.3), m), mlp(), lambda p: torch.optim.Adam(list(p)[:2])
    )
    with pytest.warns(CompileWarning, match="that the optimizer does not have: call"):
        pair.require_equal(pair.train(3))


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_gradients_of_other_losses_are_discarded(optimizer: type[torch.optim.Optimizer]) -> None:
    """As in an eager update, which begins with `zero_grad`."""
    pair = Pair(lambda m: lambda x, *_: m[0](x).square().sum(1), mlp(), optimizer)
    for _ in range(3):
        metrics = pair.train(2)
        for model in pair.models:
            model(torch.ones(2, 3)).sum().backward()
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)
