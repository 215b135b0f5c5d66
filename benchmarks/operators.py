"""Cost of differential operators, on the network of torch-jet's benchmark.

Reference:
    Dangel et al. (2025), Collapsing Taylor mode automatic differentiation,
    https://arxiv.org/abs/2505.13644.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from fdsm.operators import biharmonic, jvp, laplacian, partials

from .peers import nested_operators as nested
from .problems import LARGE_MLP, Problem, mlp
from .records.record import Case
from .step import bound, gradient_step
from .timing import Build, Group

WIDTHS = (768, 768, 512, 512)
DIRECTIONS = 16
"""Number of random directions of stochastic operators."""
NESTED = "vmap(jvp(grad))"
LAPLACIAN, STOCHASTIC, BIHARMONIC = "Laplacian", "stochastic Laplacian", "biharmonic"
WITH_GRADIENT = " and gradient"
JVP, KDV, NAVIER_STOKES = "jvp", "residual of Korteweg-de Vries", "residual of Navier-Stokes"
FORWARD, GRADIENTS = "torch.func.jvp", "nested autograd"
MODES = [name + end for name in (LAPLACIAN, STOCHASTIC, BIHARMONIC) for end in ("", WITH_GRADIENT)]
REFERENCES = {mode: Case(mode, NESTED, "torch") for mode in MODES} | {
    name + end: Case(name + end, method, "torch")
    for name, method in ((JVP, FORWARD), (KDV, GRADIENTS), (NAVIER_STOKES, GRADIENTS))
    for end in ("", WITH_GRADIENT)
}
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


def korteweg_de_vries(f: nn.Module, z: Tensor) -> Tensor:
    """Return the residual from one call of the network; see `nested_operators`."""
    u = partials(f, z, ["", "x", "t", "xxx"], names="xt")
    return (u["t"] + 6 * u[""] * u["x"] + u["xxx"]).squeeze(1)


def navier_stokes(f: nn.Module, z: Tensor) -> Tensor:
    """Return the residual from one call of the network; see `nested_operators`."""
    terms = partials(f, z, ["", "x", "y", "t", "xx", "yy"], names="xyt")
    value, x, y, t, xx, yy = (term.unbind(1) for term in terms.values())
    first, second = (x[0], y[0], x[1], y[1]), (xx[0], yy[0], xx[1], yy[1])
    return nested.navier_stokes_residual(value[:2], first, t[:2], (x[2], y[2]), second)


def solution(*widths: int) -> nn.Module:
    """Return a network for the solution of an equation, given the widths of all layers."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


JVP_OPERATORS: dict[tuple[str, str, str], Operator] = {
    (JVP, FORWARD, "torch"): nested.forward_slope,
    (JVP, "jvp", "fdsm"): lambda f, x: jvp(f, x, x.cos())[1],
}
FIELDS = (
    OperatorProblem(LARGE_MLP, JVP_OPERATORS),
    OperatorProblem(
        Problem("field 64-1024x4-64, B256", partial(solution, 64, *[1024] * 4, 64), (256, 64), 10),
        JVP_OPERATORS,
    ),
    OperatorProblem(
        Problem("solution 2-128x4-1, B2048", partial(solution, 2, *[128] * 4, 1), (2048, 2), 30),
        {
            (KDV, GRADIENTS, "torch"): nested.korteweg_de_vries,
            (KDV, "partials", "fdsm"): korteweg_de_vries,
        },
    ),
    OperatorProblem(
        Problem("solution 3-128x4-3, B2048", partial(solution, 3, *[128] * 4, 3), (2048, 3), 30),
        {
            (NAVIER_STOKES, GRADIENTS, "torch"): nested.navier_stokes,
            (NAVIER_STOKES, "partials", "fdsm"): navier_stokes,
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
            {**torch_cases(task), **_folx_cases(task, peers), **_jet_cases(task, peers)},
            task.problem.repeats,
        )
        for task in problems
    ]


def field_groups(peers: frozenset[str] = frozenset()) -> list[Group]:
    """Return the operators on functions with several outputs."""
    return groups(peers, FIELDS)


def torch_cases(task: OperatorProblem) -> dict[Case, Build]:
    """Return the operators in torch."""
    cases: dict[Case, Build] = {}
    for (name, method, by), operator in task.operators.items():
        cases[Case(name, method, by)] = partial(value, operator, task.problem)
        loss = bound(partial(_mean, operator))
        cases[Case(name + WITH_GRADIENT, method, by)] = partial(gradient_step, loss, task.problem)
    return cases


def _jet_cases(task: OperatorProblem, peers: frozenset[str]) -> dict[Case, Build]:
    if "jet" not in peers:
        return {}
    from .peers import jet_operators

    operators: dict[tuple[str, str, str], Operator] = {
        (name, "jet", "torch-jet"): operator
        for name, operator in jet_operators.OPERATORS.items()
        if (name, GRADIENTS, "torch") in task.operators
    }
    return torch_cases(replace(task, operators=operators))


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
    takes_gradients = operator in {nested.korteweg_de_vries, nested.navier_stokes}
    return (torch.enable_grad if takes_gradients else torch.no_grad)()(partial(operator, model, x))


def _mean(operator: Operator, model: nn.Module, x: Tensor) -> Tensor:
    return operator(model, x).mean()
