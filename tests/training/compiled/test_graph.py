"""Traced and compiled updates compared with eager ones."""

import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SM, SSM, SSMVR, MultiscaleDSM, SlicedDSM, ViaScore
from fdsm.projections import Gaussian, Rademacher, Sphere
from fdsm.training import CompileWarning
from fdsm.typing import Objective

from .cases import Pair, mlp, objective_of

OBJECTIVES = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "FD-SSM, 2 directions": SSM(FiniteDifference(accuracy=4), Rademacher(0.1), 2),
    "Taylor-SSM": SSM(Taylor(), Gaussian()),
    "Taylor-SSM, 3 directions": SSM(Taylor(), Sphere(1.0), 3),
    "SSM": SSM(Autodiff(), Gaussian()),
    "SSMVR": ViaScore(SSMVR(Autodiff(), Gaussian())),
    "DSM": DSM(0.3),
    "FD-DSM": SlicedDSM(0.3, FiniteDifference(), Sphere(0.1)),
    "multi-scale DSM": MultiscaleDSM(),
    "SM": SM(Taylor()),
}


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_graph_of_each_objective_is_the_eager_update(name: str) -> None:
    pair = Pair(lambda m: objective_of(OBJECTIVES[name], m), mlp(), clip=0.5, decay=0.9)
    metrics = pair.train(6)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


@pytest.mark.parametrize(
    "objective",
    [
        DSM(0.3),
        pytest.param(SSM(FiniteDifference(), Sphere(0.1)), marks=pytest.mark.nightly),
        pytest.param(SSM(Taylor()), marks=pytest.mark.nightly),
    ],
    ids=["DSM", "FD-SSM", "Taylor-SSM"],
)
def test_the_compiled_update_is_the_eager_update(objective: Objective) -> None:
    pair = Pair(lambda m: objective_of(objective, m), mlp(), clip=0.5, decay=0.9)
    metrics = pair.train(5)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics, rtol=1e-7)


@pytest.mark.usefixtures("_traced_only")
def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    pair = Pair(lambda m: lambda x, generator, progress: m(x).square(), mlp(), decay=0.9)
    pair.train(3)
    before = [t.clone() for t in pair.models[1].state_dict().values()]
    count = [s["step"].item() for s in pair.compiled.optimizer.state.values()]
    assert pair.averages[1] is not None
    averaged = [t.clone() for t in pair.averages[1].model.state_dict().values()]
    bad = torch.full((6, 3), 1e200)  # finite data, infinite loss
    metrics = pair.compiled((bad,), pair.generators[1], 0.0)
    assert not metrics["loss"].isfinite()
    torch.testing.assert_close(list(pair.models[1].state_dict().values()), before, rtol=0, atol=0)
    assert [s["step"].item() for s in pair.compiled.optimizer.state.values()] == count
    assert pair.averages[1] is not None
    means = list(pair.averages[1].model.state_dict().values())
    torch.testing.assert_close(means, averaged, rtol=0, atol=0)


@pytest.mark.usefixtures("_traced_only")
def test_the_loss_may_depend_on_the_progress() -> None:
    def loss(model: nn.Module) -> object:
        return lambda x, generator, progress: (1 + progress) * model(x).square()

    pair = Pair(loss, mlp())  # type: ignore[arg-type]
    metrics = pair.train(5)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


@pytest.mark.usefixtures("_traced_only")
def test_tensors_outside_of_the_module_are_read_at_each_step() -> None:
    scale = torch.tensor(1.0)

    def loss(model: nn.Module) -> object:
        return lambda x, generator, progress: scale * model(x).square()

    pair = Pair(loss, mlp())  # type: ignore[arg-type]
    pair.train(3)
    scale.fill_(3.0)
    metrics = pair.train(3)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


class Centered(nn.Module):
    """A density with a buffer, a frozen parameter and a tied weight, as users write them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.tensor([0.5, 0.0, -0.5]))
        self.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(self.first((x - self.center) / self.scale).tanh())
        return -h.square().sum(1)


@pytest.mark.usefixtures("_traced_only")
def test_buffers_frozen_parameters_and_tied_weights() -> None:
    trained = lambda parameters: torch.optim.AdamW(p for p in parameters if p.requires_grad)
    pair = Pair(lambda m: objective_of(SSM(Taylor()), m), Centered(), trained, decay=0.9)
    pair.train(3)
    for model in pair.models:
        model.center.add_(1.0)  # type: ignore[operator]
    metrics = pair.train(3)
    assert pair.compiled.is_compiled
    pair.require_equal(metrics)


class NumberDependent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)
        return y if x.sum() > 0 else 2 * y


class Counting(nn.Module):
    """Its value depends on the number of calls, which is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.calls = mlp(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.net(x)
        return self.calls * y


REFUSED = {
    "numbers": (NumberDependent, r"numbers are read from a tensor, by bool\(\)"),
    "Python": (Counting, r"the model changes .* \(`calls` of the model\)"),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 1), nn.Flatten(0)),
        "random numbers are drawn inside the model",
    ),
    "buffers": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(3, 1)), nn.Flatten(0)
        ),
        "the model changes its buffers",
    ),
}


@pytest.mark.usefixtures("_traced_only")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compiled_runs_eagerly_with_a_sentence(name: str) -> None:
    build, reason = REFUSED[name]
    torch.manual_seed(0)
    model = build()
    pair = Pair(lambda m: lambda x, generator, progress: m(x).square(), model)
    with pytest.warns(CompileWarning, match=f"runs eagerly: .*{reason}"):
        pair.train(2)
    pair.train(2)  # warns once
    assert not pair.compiled.is_compiled
    assert pair.compiled.reason is not None


@pytest.mark.usefixtures("_traced_only")
def test_a_parameter_outside_of_the_module_is_noticed() -> None:
    scale = nn.Parameter(torch.tensor(2.0))
    pair = Pair(lambda m: lambda x, generator, progress: scale * m(x).square(), mlp())
    with pytest.warns(CompileWarning, match="a parameter that is not part of the module"):
        pair.train(2)


@pytest.mark.usefixtures("_traced_only")
def test_a_python_number_of_the_progress_is_noticed() -> None:
    pair = Pair(lambda m: lambda x, generator, progress: float(progress) * m(x).square(), mlp())
    with pytest.warns(CompileWarning, match="runs eagerly"):
        pair.train(2)
