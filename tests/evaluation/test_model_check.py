"""`check` reports everything that engines refuse and warn of, and changes nothing."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.utils.parametrizations import spectral_norm

import fdsm
from fdsm import (
    DSM,
    MLE,
    SM,
    SSM,
    SSMVR,
    Annealed,
    Autodiff,
    FiniteDifference,
    SlicedDSM,
    Sphere,
    Taylor,
)
from fdsm.derivatives.checks.state import RECORDS
from fdsm.evaluation import ModelCheck, check, check_consistency
from fdsm.noise import Geometric
from fdsm.typing import Objective


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """Nothing is warned of: warnings are findings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="`torch.jit")
        yield


def network(*hidden: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 16), *hidden, nn.Linear(16, 1), nn.Flatten(0))


def severities(report: ModelCheck) -> dict[str, str]:
    return {finding.kind: finding.severity for finding in report.findings}


def problems(report: ModelCheck) -> dict[str, str]:
    return {finding.kind: finding.severity for finding in report.problems}


class Unrecorded(torch.autograd.Function):
    """A square whose backward pass is not recorded."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return 2 * x * gradient


class Square(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return -Unrecorded.apply(x * self.scale).sum(1)


class Own(nn.Module):
    """A model with a random generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.random = network(nn.Tanh()), Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + torch.randn(len(x), generator=self.random)


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network(nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).bfloat16()


def scripted() -> nn.Module:
    return torch.jit.script(network(nn.LayerNorm(16), nn.Tanh()))


BATCH_NORM = lambda: network(nn.BatchNorm1d(16))
DROPOUT = lambda: network(nn.Tanh(), nn.Dropout(0.5))
SPECTRAL = lambda: nn.Sequential(spectral_norm(nn.Linear(3, 16)), *network(nn.Tanh())[1:])
FD, SERIAL = FiniteDifference(), FiniteDifference(parallel=False)
CASES: dict[str, tuple[Objective, Callable[[], Callable[..., Tensor]], dict[str, str]]] = {
    "finite differences": (SSM(FD), lambda: network(nn.Tanh()), {}),
    "taylor": (SSM(Taylor()), lambda: network(nn.Tanh()), {}),
    "autodiff": (SSM(Autodiff()), lambda: network(nn.Tanh()), {}),
    "batch norm": (SSM(FD), BATCH_NORM, {"rows": "error"}),
    "batch norm, taylor": (
        SSM(Taylor()),
        BATCH_NORM,
        {"rows": "error", "evaluation": "error"},
    ),
    "batch norm, autodiff": (
        SSM(Autodiff()),
        BATCH_NORM,
        {"rows": "error", "gradients": "warning"},
    ),
    "mixed rows, taylor": (
        SSM(Taylor()),
        lambda: lambda x: -(x - x.mean(0)).square().sum(1),
        {"rows": "error"},
    ),
    "batch norm, likelihood": (MLE(), BATCH_NORM, {"rows": "error"}),
    "dropout": (SSM(FD), DROPOUT, {"random numbers": "error", "consistency": "warning"}),
    "dropout, one by one": (SSM(SERIAL, Sphere(0.01)), DROPOUT, {}),
    "dropout, taylor": (SSM(Taylor()), DROPOUT, {}),
    "own generator": (SSM(FD), Own, {"random numbers": "error", "consistency": "warning"}),
    "spectral norm": (SSM(FD, Sphere(0.01)), SPECTRAL, {}),
    "spectral norm, one by one": (SSM(SERIAL), SPECTRAL, {"buffers": "error"}),
    "half precision": (SSM(FD), Half, {"precision": "error"}),
    "kinks": (SSM(Taylor()), lambda: network(nn.ReLU()), {"kinks": "warning"}),
    "unrecorded backward": (SSM(Autodiff()), Square, {"gradients": "error"}),
    "unrecorded backward, differences": (SSM(FD), Square, {}),
    "scripted norm": (SSM(Autodiff()), scripted, {"gradients": "warning"}),
    "no rule": (SSM(Taylor()), scripted, {"evaluation": "error"}),
    "column": (SSM(FD), lambda: nn.Linear(3, 1), {"evaluation": "error"}),
    "denoising": (DSM(0.3), lambda: network(nn.Tanh()), {}),
    "all coordinates": (SM(FD), lambda: network(nn.Tanh()), {}),
    "score": (SSMVR(FD), lambda: nn.Linear(3, 3), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_problems_are_findings_and_nothing_changes(name: str, generator: Generator) -> None:
    objective, build, expected = CASES[name]
    model, x = build(), torch.randn(64, 3, generator=generator)
    is_module = isinstance(model, nn.Module)
    state, own = torch.get_rng_state(), generator.get_state()
    before = copy.deepcopy(model.state_dict()) if is_module else {}
    versions = [p._version for p in model.parameters()] if is_module else []
    records = len(RECORDS)
    report = check(objective, model, x, generator=generator)
    found = problems(report)
    assert found.items() >= expected.items()
    # torch 2.15 has no third derivatives of batch norm, which is refused for its rows anyway.
    others = {"consistency", "rounding", "truncation", "buffers"}
    others |= {"evaluation"} if "rows" in expected else set()
    assert found.keys() - expected.keys() <= others
    if not expected:
        assert found == {}
    assert severities(report).keys() >= {"rows", "random numbers", "buffers"}
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(generator.get_state(), own)
    assert len(RECORDS) == records
    if is_module:
        after = model.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in before.items())
        assert [p._version for p in model.parameters()] == versions
        assert all(p.grad is None for p in model.parameters())


def test_facts_that_do_no_harm_are_notes(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator)
    assert severities(check(SSM(Taylor()), DROPOUT(), x))["random numbers"] == "note"
    assert severities(check(SSM(Taylor()), SPECTRAL(), x))["buffers"] == "note"
    relu = check(SSM(FiniteDifference()), network(nn.ReLU()), x)
    assert severities(relu)["kinks"] == severities(relu)["consistency"] == "note"
    assert severities(check(SSM(Taylor()), network(nn.Tanh()), x[:1]))["rows"] == "note"


def test_a_later_loss_is_inspected_as_if_nothing_had_happened(generator: Generator) -> None:
    model, x = BATCH_NORM(), torch.randn(64, 3, generator=generator)
    check(SSM(FiniteDifference()), model, x)
    with pytest.raises(RuntimeError, match="statistics of the batch"):
        SSM(FiniteDifference())(model, x, generator=generator)


@pytest.mark.parametrize(
    "objective",
    [SSM(FiniteDifference(), Sphere(0.2)), SlicedDSM(0.3, FiniteDifference(accuracy=4))],
    ids=["ssm", "dsm"],
)
def test_the_comparison_is_that_of_check_consistency(
    objective: Objective, generator: Generator
) -> None:
    model, x = network(nn.Tanh()), torch.randn(64, 3, generator=generator)
    report = check(objective, model, x)
    assert report.consistency == check_consistency(objective, model, x)
    assert report.consistency is not None
    assert report.step == report.consistency.step
    assert report.recommended_step == report.consistency.recommended_step
    values = {finding.kind: finding.value for finding in report.findings}
    assert values["consistency"] == report.consistency.angle
    assert values["step"] == report.recommended_step


@pytest.mark.parametrize(
    ("step", "kind"), [(0.0005, "rounding"), (8.0, "truncation")], ids=["small", "large"]
)
def test_a_bad_step_is_found_with_a_better_one(
    step: float, kind: str, generator: Generator
) -> None:
    model, x = network(nn.Tanh()).float(), torch.randn(64, 3, generator=generator).float()
    for parameter in model[0].parameters():
        parameter.data *= 6
    bad = check(SSM(FiniteDifference(), Sphere(step)), model, x)
    assert problems(bad)[kind] == "warning"
    assert bad.recommended_step is not None
    better = check(SSM(FiniteDifference(), Sphere(bad.recommended_step)), model, x)
    assert better.problems == ()


def test_models_with_further_arguments(generator: Generator) -> None:
    class Conditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 3)

        def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
            return self.net(torch.cat([x, sigma.view(-1, 1)], 1))

    x = torch.randn(64, 3, generator=generator)
    objective = Annealed(SSMVR(FiniteDifference()), Geometric(1.0, 0.1, 5))
    report = check(objective, Conditional(), x)
    assert report.problems == ()
    assert report.consistency is not None


def test_losses_that_are_not_finite(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator)
    report = check(MLE(), lambda x: x[:, 0].log(), x)
    (finding,) = [f for f in report.findings if f.kind == "evaluation"]
    assert finding.severity == "error"
    assert f"{int((x[:, 0] < 0).sum())} of 64 rows is not finite" in finding.message


def test_a_model_without_parameters_has_no_angle(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator)
    report = check(SSM(FiniteDifference()), lambda x: -x.square().sum(1), x)
    assert report.problems == ()
    assert report.consistency is not None
    assert math.isnan(report.consistency.angle)
    assert "angle" not in str(report)


def test_findings_are_shown_as_a_table(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator)
    report = fdsm.check(SSM(FiniteDifference()), BATCH_NORM(), x)
    first = str(report).splitlines()[0]
    assert first.startswith("error    rows            BatchNorm1d uses the statistics")
    assert fdsm.check is check


def test_an_engine_without_checks_is_checked(generator: Generator) -> None:
    x = torch.randn(64, 3, generator=generator)
    report = check(SSM(FiniteDifference(checks=False)), DROPOUT(), x)
    assert problems(report)["random numbers"] == "error"


def test_the_engine_of_a_user_is_checked_too(generator: Generator) -> None:
    class Renamed(FiniteDifference):
        pass

    x = torch.randn(64, 3, generator=generator)
    assert problems(check(SSM(Renamed()), DROPOUT(), x))["random numbers"] == "error"
