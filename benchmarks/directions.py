"""Cost of a gradient step with several directions per example."""

from collections.abc import Sequence
from functools import partial

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative

from .peers.by_hand import EPS, plain
from .problems import LARGE_MLP, RESNET, SMALL_MLP, Problem
from .records.record import Case
from .step import GRADIENT, PLAIN, bound, gradient_step, mean_of
from .timing import Build, Group

COUNTS = (1, 2, 4, 8, 16)
ENGINES: dict[str, Derivative] = {
    "FD-SSM": FiniteDifference(),
    "Taylor-SSM": Taylor(),
    "SSM": Autodiff(),
}
REFERENCES = {GRADIENT: PLAIN}


def groups(
    peers: frozenset[str] = frozenset(),
    problems: Sequence[Problem] = (SMALL_MLP, LARGE_MLP, RESNET),
    counts: Sequence[int] = COUNTS,
) -> list[Group]:
    """Return steps of SSM with each engine and number of directions.

    Args:
        peers: Not used.
        problems: Networks and batches.
        counts: Numbers of directions.

    Returns:
        One group for each problem.
    """
    return [
        Group(problem.name, _cases(problem, counts), -(-problem.repeats // 3))
        for problem in problems
    ]


def _cases(problem: Problem, counts: Sequence[int]) -> dict[Case, Build]:
    cases: dict[Case, Build] = {PLAIN: partial(gradient_step, bound(plain), problem)}
    for count in counts:
        for name, engine in ENGINES.items():
            loss = bound(mean_of(SSM(engine, Sphere(EPS), count)))
            cases[Case(GRADIENT, f"{name}, V = {count}")] = partial(gradient_step, loss, problem)
    return cases
