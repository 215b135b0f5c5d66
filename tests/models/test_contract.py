"""What every model owes its user. A new model adds one row to `CASES`."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.models import (
    DKEF,
    NICE,
    ConfinedMLP,
    JointCNN,
    JointMLP,
    QuadraticMLP,
    QuadraticResNet,
    RefineNet,
    ShiftedSoftplus,
)
from fdsm.noise import Geometric
from fdsm.objectives import SSM, SSMVR
from fdsm.projections import Sphere
from fdsm.typing import Derivative

BATCH = 4
LEVELS = Geometric(1.0, 0.1, BATCH).levels


def itself(model: nn.Module) -> Callable[..., Tensor]:
    return model


def solved(model: nn.Module) -> Callable[..., Tensor]:
    """A DKEF is a density once its coefficients are solved for."""
    assert isinstance(model, DKEF)
    draw = Generator().manual_seed(1)
    x = torch.randn(20, 5, generator=draw)
    return model.solve(x, torch.randn(20, 5, generator=draw))


@dataclass(frozen=True)
class Case:
    """A model, what it is a function of, and how to get the function from the model."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    is_score: bool = False
    conditions: tuple[tuple[int, ...], ...] = ()
    levels: bool = False
    smooth: bool = True
    step: float = 0.04  # small against the length scale, large against rounding
    function: Callable[[nn.Module], Callable[..., Tensor]] = itself

    def inputs(self, generator: Generator) -> tuple[Tensor, ...]:
        shapes = (self.shape, *self.conditions)
        drawn = [torch.randn(BATCH, *shape, generator=generator) for shape in shapes]
        return (*drawn, torch.tensor(LEVELS)) if self.levels else tuple(drawn)

    def loss(self, derivative: Derivative, radius: float) -> SSM | SSMVR:
        return (SSMVR if self.is_score else SSM)(derivative, Sphere(radius))


def refinenet(activation: Callable[[], nn.Module] = nn.SiLU) -> nn.Module:
    return RefineNet(2, width=4, levels=LEVELS, activation=activation)


CASES = {
    "mlp": Case(lambda: QuadraticMLP(5, (8, 6)), (5,)),
    "mlp of images": Case(lambda: QuadraticMLP((2, 3, 3), (8, 6), ShiftedSoftplus), (2, 3, 3)),
    "confined mlp": Case(lambda: ConfinedMLP(5, (8, 6)), (5,)),
    "resnet": Case(lambda: QuadraticResNet((2, 8, 8), width=3), (2, 8, 8), step=1.0),
    "resnet, oblong": Case(lambda: QuadraticResNet((1, 8, 16), width=2), (1, 8, 16), step=1.0),
    "resnet, elu": Case(
        lambda: QuadraticResNet((1, 8, 8), width=3, activation=nn.ELU), (1, 8, 8), smooth=False
    ),
    "dkef": Case(
        lambda: DKEF(torch.randn(6, 5, generator=Generator().manual_seed(0)), features=7),
        (5,),
        function=solved,
    ),
    "nice": Case(lambda: NICE(5, hidden=6, depth=2), (5,)),
    "nice of images": Case(lambda: NICE((1, 3, 4), hidden=6, depth=2), (1, 3, 4)),
    "score of z given x, mlp": Case(lambda: JointMLP([5, (1, 4, 4)], 5, (8, 6)), (5,), True,
                                    conditions=((1, 4, 4),)),
    "score of z, mlp": Case(lambda: JointMLP([5], 5, (8, 6)), (5,), True),
    "score of z given x, cnn": Case(lambda: JointCNN([5, (2, 16, 16)], 5, side=16, width=2), (5,),
                                    True, conditions=((2, 16, 16),)),
    "score of z, cnn": Case(lambda: JointCNN([5], 5, side=16, width=2), (5,), True),
    "refinenet": Case(refinenet, (2, 8, 8), True, levels=True),
    "refinenet, elu": Case(
        lambda: refinenet(nn.ELU), (2, 7, 10), True, levels=True, smooth=False
    ),
    "refinenet, in place": Case(
        lambda: refinenet(lambda: nn.SiLU(inplace=True)), (2, 8, 8), True, levels=True
    ),
}  # fmt: skip

case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
smooth = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.smooth], ids=[n for n, c in CASES.items() if c.smooth]
)


@case
def test_value_has_the_right_shape_and_is_the_same_every_time(
    case: Case, generator: Generator
) -> None:
    f, inputs = case.function(case.make()), case.inputs(generator)
    value = f(*inputs)
    assert value.shape == (inputs[0].shape if case.is_score else (BATCH,))
    assert torch.equal(value, f(*inputs))
    assert value.std() > 0


@case
def test_examples_do_not_see_each_other(case: Case, generator: Generator) -> None:
    f, inputs = case.function(case.make()), case.inputs(generator)
    alone = torch.cat([f(*(t[i : i + 1] for t in inputs)) for i in range(BATCH)])
    torch.testing.assert_close(alone, f(*inputs))


def parameter_gradients(
    case: Case, model: nn.Module, derivative: Derivative, radius: float, inputs: tuple[Tensor, ...]
) -> dict[str, Tensor]:
    objective = case.loss(derivative, radius)
    draw = Generator().manual_seed(2)
    loss = objective(case.function(model), *inputs, generator=draw).mean()
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(names, gradients, strict=True))


@case
def test_gradient_of_training_reaches_every_parameter(case: Case, generator: Generator) -> None:
    model, inputs = case.make(), case.inputs(generator)
    gradients = parameter_gradients(case, model, FiniteDifference(), 0.1, inputs)
    largest = max(g.abs().max().item() for g in gradients.values())
    idle = [name for name, g in gradients.items() if g.abs().max() < 1e-9 * largest]
    assert not idle


@smooth
def test_differences_train_as_exact_derivatives_do(case: Case, generator: Generator) -> None:
    """The error of the parameter gradient is of second order in the step."""
    model, inputs = case.make(), case.inputs(generator)
    names = list(dict(model.named_parameters()))

    def gradient(derivative: Derivative, radius: float) -> Tensor:
        gradients = parameter_gradients(case, model, derivative, radius, inputs)
        return torch.cat([gradients[name].flatten() for name in names])

    steps = (case.step, case.step / 2, case.step / 4)
    errors = []
    for h in steps:
        exact = gradient(Autodiff(), h)
        errors.append((gradient(FiniteDifference(), h) - exact).norm() / exact.norm())
    assert errors[-1] < 1e-3
    for before, after in pairwise(errors):
        assert 1.9 < (before / after).log2() < 2.1


@case
def test_state_makes_the_same_model_again(case: Case, generator: Generator) -> None:
    first, second, inputs = case.make(), case.make(), case.inputs(generator)
    for parameter in first.parameters():
        nn.init.normal_(parameter, std=0.1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(case.function(first)(*inputs), case.function(second)(*inputs))


MODULES = {name: case for name, case in CASES.items() if case.function is itself}


@pytest.mark.parametrize("case", MODULES.values(), ids=MODULES)
def test_float32_is_kept(case: Case, generator: Generator) -> None:
    model, inputs = case.make().float(), [t.float() for t in case.inputs(generator)]
    assert model(*inputs).dtype == torch.float32
