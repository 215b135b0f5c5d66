r"""Cost of the derivatives $(v^T∇)^k f$, $k = 0, …, K$, for each order $K$."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fdsm.derivatives import FiniteDifference, Taylor
from fdsm.typing import Derivative

from .peers.by_hand import Loss, plain, sphere
from .problems import SMALL_MLP, SMALL_MLP_256, Problem
from .records.record import Case
from .step import GRADIENT, PLAIN, bound, gradient_step
from .timing import Build, Group

ORDERS = range(1, 9)
ENGINES: dict[str, Derivative] = {"FD": FiniteDifference(), "Taylor": Taylor()}
VALUE = "value"
PLAIN_VALUE = Case(VALUE, "plain", "torch")
REFERENCES = {VALUE: PLAIN_VALUE, GRADIENT: PLAIN}


def groups(
    peers: frozenset[str] = frozenset(),
    problems: Sequence[Problem] = (SMALL_MLP, SMALL_MLP_256),
    orders: Sequence[int] = ORDERS,
) -> list[Group]:
    """Return derivatives of each order.

    Args:
        peers: Other packages to compare with.
        problems: Networks and batches.
        orders: The orders.

    Returns:
        One group for each problem.
    """
    return [
        Group(problem.name, _cases(problem, orders, peers), max(2, problem.repeats // 3))
        for problem in problems
    ]


def _cases(problem: Problem, orders: Sequence[int], peers: frozenset[str]) -> dict[Case, Build]:
    cases: dict[Case, Build] = {
        PLAIN_VALUE: partial(value, plain, problem),
        PLAIN: partial(gradient_step, bound(plain), problem),
    }
    for order in orders:
        for name, engine in ENGINES.items():
            loss, method = partial(derivative_sum, engine, order), f"{name}, order {order}"
            cases[Case(VALUE, method)] = partial(value, loss, problem)
            cases[Case(GRADIENT, method)] = partial(gradient_step, bound(loss), problem)
        if "jax" in peers:
            from .peers.jax_jets import jet_gradient, jet_value

            method = f"jet, order {order}"
            cases[Case(VALUE, method, "JAX jit")] = partial(jet_value, order, problem)
            cases[Case(GRADIENT, method, "JAX jit")] = partial(jet_gradient, order, problem)
    return cases


def derivative_sum(engine: Derivative, order: int, model: nn.Module, x: Tensor) -> Tensor:
    """Return the mean over the batch of the sum of all derivatives along random directions."""
    return torch.stack(engine.jet(model, x, sphere(x), order)).sum(0).mean()


def value(loss: Loss, problem: Problem) -> Callable[[], object]:
    """Return a function that computes a loss without a graph."""
    model, x = problem.build()
    return torch.no_grad()(partial(loss, model, x))
