"""Cost of the exact score-matching loss: its value, with a gradient, and as a training step."""

from collections.abc import Callable, Sequence
from functools import partial

from fdsm.derivatives import Taylor
from fdsm.evaluation import exact_sm_loss
from fdsm.objectives import SM

from .orders import PLAIN_VALUE, VALUE, value
from .peers.by_hand import plain
from .problems import Problem, mlp
from .records.record import Case
from .step import (
    ADAM,
    GRADIENT,
    GRAPH,
    LEARNING_RATE,
    PLAIN,
    adam_step,
    bound,
    gradient_step,
    graph_step,
    mean_of,
)
from .timing import Build, Group

OBJECTIVE = SM(Taylor())
PROBLEMS = tuple(
    Problem(f"MLP {d}-256x3, B128", partial(mlp, d, *[256] * 3), (128, d), repeats)
    for d, repeats in ((16, 30), (64, 12), (196, 6))
)
PLAIN_ADAM = Case(ADAM, "plain", "torch")
REFERENCES = {VALUE: PLAIN_VALUE, GRADIENT: PLAIN, ADAM: PLAIN_ADAM, GRAPH: PLAIN_ADAM}


def groups(
    peers: frozenset[str] = frozenset(), problems: Sequence[Problem] = PROBLEMS
) -> list[Group]:
    """Return the exact losses on each problem.

    Args:
        peers: Other packages to compare with.
        problems: Networks and batches.

    Returns:
        One group for each problem.
    """
    return [Group(problem.name, _cases(problem, peers), problem.repeats) for problem in problems]


def _cases(problem: Problem, peers: frozenset[str]) -> dict[Case, Build]:
    loss = bound(mean_of(OBJECTIVE))
    cases: dict[Case, Build] = {
        PLAIN_VALUE: partial(value, plain, problem),
        PLAIN: partial(gradient_step, bound(plain), problem),
        PLAIN_ADAM: partial(adam_step, bound(plain), problem),
        Case(VALUE, "exact_sm_loss"): partial(exact_value, problem),
        Case(GRADIENT, "SM(Taylor())"): partial(gradient_step, loss, problem),
        Case(ADAM, "SM(Taylor())"): partial(adam_step, loss, problem),
        Case(GRAPH, "SM(Taylor())"): partial(graph_step, OBJECTIVE, problem),
    }
    if "folx" in peers:
        from .peers import folx_losses, jax_steps

        cases |= {
            Case(VALUE, "SM", "folx jit"): partial(folx_losses.value, problem),
            Case(GRADIENT, "SM", "folx jit"): partial(
                jax_steps.gradient_step, folx_losses.SM, problem
            ),
            Case(GRAPH, "SM", "folx jit"): partial(
                jax_steps.adam_step, folx_losses.SM, problem, LEARNING_RATE
            ),
        }
    return cases


def exact_value(problem: Problem) -> Callable[[], object]:
    """Return a function that evaluates the exact loss."""
    model, x = problem.build()
    return partial(exact_sm_loss, model, x)
