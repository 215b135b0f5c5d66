"""Requirements of every model: shape, independent examples, gradients and state."""

from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.typing import Derivative

from .contract_cases import BATCH, CASES, Case, itself

case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
smooth = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.smooth], ids=[n for n, c in CASES.items() if c.smooth]
)


@case
def test_output_has_the_right_shape_and_is_deterministic(case: Case, generator: Generator) -> None:
    f, inputs = case.function(case.make()), case.inputs(generator)
    value = f(*inputs)
    assert value.shape == (inputs[0].shape if case.is_score else (BATCH,))
    assert torch.equal(value, f(*inputs))
    assert value.std() > 0


@case
def test_examples_are_independent(case: Case, generator: Generator) -> None:
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
def test_every_parameter_has_a_gradient(case: Case, generator: Generator) -> None:
    model, inputs = case.make(), case.inputs(generator)
    gradients = parameter_gradients(case, model, FiniteDifference(), 0.1, inputs)
    largest = max(g.abs().max().item() for g in gradients.values())
    idle = [name for name, g in gradients.items() if g.abs().max() < 1e-9 * largest]
    assert not idle


@smooth
def test_finite_differences_have_the_gradients_of_exact_derivatives(
    case: Case, generator: Generator
) -> None:
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
def test_state_dict_restores_the_model(case: Case, generator: Generator) -> None:
    first, second, inputs = case.make(), case.make(), case.inputs(generator)
    for parameter in first.parameters():
        nn.init.normal_(parameter, std=0.1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(case.function(first)(*inputs), case.function(second)(*inputs))


MODULES = {name: case for name, case in CASES.items() if case.function is itself}


@pytest.mark.parametrize("case", MODULES.values(), ids=MODULES)
def test_float32_models_return_float32(case: Case, generator: Generator) -> None:
    model, inputs = case.make().float(), [t.float() for t in case.inputs(generator)]
    assert model(*inputs).dtype == torch.float32
