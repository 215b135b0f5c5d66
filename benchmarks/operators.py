"""Cost of differential operators, on the network of torch-jet's benchmark.

Reference:
    Dangel et al. (2025), Collapsing Taylor mode automatic differentiation,
    https://arxiv.org/abs/2505.13644.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fdsm.operators import biharmonic, laplacian

from .peers import nested_operators as nested
from .problems import Problem, mlp
from .records.record import Case
from .step import bound, gradient_step
from .timing import Build, Group

WIDTHS = (768, 768, 512, 512)
DIRECTIONS = 16
"""Number of random directions of stochastic operators."""
NESTED = "vmap(jvp(grad))"
LAPLACIAN, STOCHASTIC, BIHARMONIC = "Laplacian", "stochastic Laplacian", "biharmonic"
WITH_GRADIENT = " and gradient"
MODES = [name + end for name in (LAPLACIAN, STOCHASTIC, BIHARMONIC) for end in ("", WITH_GRADIENT)]
REFERENCES = {mode: Case(mode, NESTED, "torch") for mode in MODES}
Operator = Callable[[nn.Module, Tensor], Tensor]
"""`f, x -> (B,)`."""


@dataclass(frozen=True)
class OperatorProblem:
    """Operators on one network and batch.

    Attributes:
        problem: The network and the batch.
        operators: Implementations of operators, by operator, method and package.
    """

    problem: Problem
    operators: dict[tuple[str, str, str], Operator]


def tanh_problem(dimension: int, rows: int, repeats: int) -> Problem:
    """Return the network of torch-jet's benchmark."""
    model = partial(mlp, dimension, *WIDTHS, activation=nn.Tanh)
    return Problem(
        f"tanh MLP {dimension}-768-768-512-512, B{rows}", model, (rows, dimension), repeats
    )


def random_signs(x: Tensor) -> Tensor:
    """Return random directions, shape `(DIRECTIONS, B, D)`."""
    return torch.randn(DIRECTIONS, *x.shape, dtype=x.dtype).sign()


PROBLEMS = (
    OperatorProblem(
        tanh_problem(50, 32, 15),
        {
            (LAPLACIAN, NESTED, "torch"): nested.laplacian,
            (LAPLACIAN, "hessian", "torch"): nested.hessian_trace,
            (LAPLACIAN, "laplacian", "fdsm"): laplacian,
            (STOCHASTIC, NESTED, "torch"): lambda f, x: (
                nested.sum_of_curvatures(f, x, random_signs(x)) / DIRECTIONS
            ),
            (STOCHASTIC, "laplacian", "fdsm"): partial(laplacian, directions=DIRECTIONS),
        },
    ),
    OperatorProblem(
        tanh_problem(5, 256, 5),
        {
            (BIHARMONIC, NESTED, "torch"): nested.biharmonic,
            (BIHARMONIC, "biharmonic", "fdsm"): biharmonic,
        },
    ),
)


def groups(
    peers: frozenset[str] = frozenset(), problems: Sequence[OperatorProblem] = PROBLEMS
) -> list[Group]:
    """Return the operators to compare on each problem, with and without a gradient.

    Args:
        peers: Other packages to compare with.
        problems: Networks, batches and operators.

    Returns:
        One group for each problem.
    """
    return [
        Group(
            task.problem.name,
            {**torch_cases(task), **_folx_cases(task, peers)},
            task.problem.repeats,
        )
        for task in problems
    ]


def torch_cases(task: OperatorProblem) -> dict[Case, Build]:
    """Return the operators in torch."""
    cases: dict[Case, Build] = {}
    for (name, method, by), operator in task.operators.items():
        cases[Case(name, method, by)] = partial(value, operator, task.problem)
        loss = bound(partial(_mean, operator))
        cases[Case(name + WITH_GRADIENT, method, by)] = partial(gradient_step, loss, task.problem)
    return cases


def _folx_cases(task: OperatorProblem, peers: frozenset[str]) -> dict[Case, Build]:
    if "folx" not in peers:
        return {}
    from .peers import folx_operators

    cases: dict[Case, Build] = {}
    for name in {name for name, *_ in task.operators} & folx_operators.OPERATORS.keys():
        operator = folx_operators.OPERATORS[name]
        cases[Case(name, "forward Laplacian", "folx jit")] = partial(
            folx_operators.value, operator, task.problem
        )
        cases[Case(name + WITH_GRADIENT, "forward Laplacian", "folx jit")] = partial(
            folx_operators.gradient, operator, task.problem
        )
    return cases


def value(operator: Operator, problem: Problem) -> Callable[[], object]:
    """Return a function that computes an operator without a graph."""
    model, x = problem.build()
    return torch.no_grad()(partial(operator, model, x))


def _mean(operator: Operator, model: nn.Module, x: Tensor) -> Tensor:
    return operator(model, x).mean()
