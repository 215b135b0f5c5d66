from functools import partial

import pytest
import torch
from torch import nn

from benchmarks import operators
from benchmarks.operators import FIELDS, PROBLEMS, OperatorProblem, solution
from benchmarks.problems import Problem, mlp
from benchmarks.timing import time_group

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
SMALL = [
    OperatorProblem(
        Problem(one.problem.name, lambda: mlp(3, 4, 4, activation=nn.Tanh), (5, 3), 2),
        one.operators,
    )
    for one in PROBLEMS
]
SMALL_FIELDS = [
    OperatorProblem(
        Problem(
            one.problem.name,
            partial(solution, one.problem.shape[1], 5, 5, outputs),
            (5, one.problem.shape[1]),
            2,
        ),
        one.operators,
    )
    for one, outputs in zip(FIELDS, (2, 2, 1, 3), strict=True)
]


def test_every_operator_is_timed_with_and_without_a_gradient() -> None:
    for group in operators.groups(problems=[*SMALL, *SMALL_FIELDS]):
        assert {cost.case for cost in time_group(group)} == set(group.cases)
        for case in group.cases:
            assert operators.REFERENCES[case.mode] in group.cases


@pytest.mark.parametrize("one", SMALL, ids=lambda one: one.problem.name)
def test_implementations_of_an_exact_operator_agree(one: OperatorProblem) -> None:
    model, x = one.problem.build()
    for name in (operators.LAPLACIAN, operators.BIHARMONIC):
        values = [f(model, x) for (of, *_), f in one.operators.items() if of == name]
        for value in values[1:]:
            torch.testing.assert_close(value, values[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("one", SMALL_FIELDS, ids=lambda one: one.problem.name)
def test_implementations_on_fields_agree(one: OperatorProblem) -> None:
    model, x = one.problem.build()
    model, x = model.double(), x.double()
    expected, found = (operator(model, x) for operator in one.operators.values())
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("one", SMALL_FIELDS[2:], ids=lambda one: one.problem.name)
def test_residuals_of_torch_jet_agree(one: OperatorProblem) -> None:
    jet_operators = pytest.importorskip("benchmarks.peers.jet_operators", exc_type=ImportError)
    (group,) = operators.groups(frozenset({"jet"}), [one])
    assert {case.by for case in group.cases} == {"fdsm", "torch", "torch-jet"}
    model, x = one.problem.build()
    model, x = model.double(), x.double()
    (name, *_), operator = next(iter(one.operators.items()))
    theirs = jet_operators.OPERATORS[name](model, x)
    torch.testing.assert_close(theirs, operator(model, x), rtol=1e-10, atol=1e-12)


def test_stochastic_operators_estimate_the_laplacian() -> None:
    """Along random signs the curvature of $-‖x‖²/2$ is minus the dimension, exactly."""
    x = torch.zeros(4, 3)
    for (name, *_), operator in PROBLEMS[0].operators.items():
        if name == operators.STOCHASTIC:
            values = operator(lambda x: -x.square().sum(1) / 2, x)
            torch.testing.assert_close(values, torch.full((4,), -3.0))


def test_the_sizes_are_those_of_the_published_benchmark() -> None:
    first, second = (one.problem for one in PROBLEMS)
    assert (first.shape, second.shape) == ((32, 50), (256, 5))
    widths = [layer.out_features for layer in first.model() if isinstance(layer, nn.Linear)]
    assert widths == [768, 768, 512, 512, 1]
