"""Adam and other optimizers in a graph, compared with those of torch."""

import pytest
import torch

from fdsm.objectives import DSM

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
def test_changed_options_of_the_optimizer_are_not_ignored() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp())
    pair.train(3)
    for update in pair.updates:
        update.optimizer.param_groups[0]["weight_decay"] = 0.5
    pair.require_equal(pair.train(2))


@pytest.mark.usefixtures("_traced_only")
def test_an_optimizer_that_is_restored_is_found_again() -> None:
    pair = Pair(lambda m: objective_of(DSM(0.3), m), mlp())
    pair.train(4)
    for update in pair.updates:
        update.optimizer.load_state_dict(update.optimizer.state_dict())
    pair.require_equal(pair.train(3))


@pytest.mark.usefixtures("_traced_only")
def test_a_new_group_of_parameters_is_not_ignored() -> None:
    pair = Pair(
        lambda m: objective_of(DSM(0.3), m), mlp(), lambda p: torch.optim.Adam(list(p)[:2])
    )
    pair.train(3)
    assert all(p.grad is None for p in pair.compiled.parameters)
    for model, update in zip(pair.models, pair.updates, strict=True):
        update.optimizer.add_param_group({"params": list(model.parameters())[2:]})
    before = pair.models[1].state_dict()["2.weight"].clone()
    metrics = pair.train(3)
    assert not torch.equal(pair.models[1].state_dict()["2.weight"], before)
    pair.require_equal(metrics)
