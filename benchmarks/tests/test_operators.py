import pytest
import torch
from torch import nn

from benchmarks import operators
from benchmarks.operators import PROBLEMS, OperatorProblem
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


def test_every_operator_is_timed_with_and_without_a_gradient() -> None:
    for group in operators.groups(problems=SMALL):
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
