"""Cost of a training step: loss and gradient, with Adam, and as one compiled graph."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere
from fdsm.typing import Objective

from .peers.by_hand import EPS, LOSSES, SIGMA, Loss, plain
from .problems import PROBLEMS, Problem
from .records.record import Case
from .timing import Build, Group, Unsupported

GRADIENT = "loss and gradient"
ADAM = "with Adam"
GRAPH = "with Adam, one graph"
LEARNING_RATE = 1e-4
FIRST_STEPS = 2
"""Steps after which a step is compiled: the first one runs eagerly."""
Bind = Callable[[nn.Module, Tensor], Callable[[], Tensor]]
"""Returns the mean loss of a model on a batch, as a function of nothing."""
PLAIN = Case(GRADIENT, "plain", "torch")
REFERENCES = {
    GRADIENT: PLAIN,
    ADAM: Case(ADAM, "plain", "torch"),
    GRAPH: Case(ADAM, "plain", "torch"),
}
OBJECTIVES: dict[str, Objective] = {
    "FD-SSM": SSM(FiniteDifference(), Sphere(EPS)),
    "Taylor-SSM, 1 direction": SSM(Taylor(), Sphere(EPS)),
    "Taylor-SSM, 4 directions": SSM(Taylor(), Sphere(EPS), 4),
    "Taylor-SSM, 8 directions": SSM(Taylor(), Sphere(EPS), 8),
    "SSM": SSM(Autodiff(), Sphere(EPS)),
    "DSM": DSM(SIGMA),
}


def groups(
    peers: frozenset[str] = frozenset(), problems: Sequence[Problem] = PROBLEMS
) -> list[Group]:
    """Return the steps to compare on each problem.

    Args:
        peers: Other packages to compare with.
        problems: Networks and batches.

    Returns:
        One group for each problem.
    """
    return [
        Group(
            problem.name, {**torch_cases(problem), **peer_cases(problem, peers)}, problem.repeats
        )
        for problem in problems
    ]


def torch_cases(problem: Problem) -> dict[Case, Build]:
    """Return the steps of this package and those written by hand."""
    losses: dict[tuple[str, str], Loss] = {("plain", "torch"): plain}
    losses |= {(name, "fdsm"): mean_of(objective) for name, objective in OBJECTIVES.items()}
    losses |= {(name, "by hand"): loss for name, loss in LOSSES.items()}
    cases: dict[Case, Build] = {}
    for (name, by), loss in losses.items():
        cases |= eager_cases(name, by, bound(loss), problem)
    if len(problem.shape) == 2:  # graphs of convolutional networks take minutes to compile
        cases[Case(GRAPH, "plain", "torch")] = partial(graph_step, log_densities, problem)
        for name, objective in OBJECTIVES.items():
            cases[Case(GRAPH, name)] = partial(graph_step, objective, problem)
    return cases


def peer_cases(problem: Problem, peers: frozenset[str]) -> dict[Case, Build]:
    """Return the steps of other packages. Those in JAX are for perceptrons."""
    cases: dict[Case, Build] = {}
    if "torchebm" in peers:
        from .peers import torchebm_losses

        for name, make in torchebm_losses.LOSSES.items():
            cases |= eager_cases(name, "torchebm", make, problem)
    if "jax" in peers and len(problem.shape) == 2:
        from .peers import jax_losses, jax_steps

        for name, loss in jax_losses.LOSSES.items():
            gradient, adam = Case(GRADIENT, name, "JAX jit"), Case(GRAPH, name, "JAX jit")
            cases[gradient] = partial(jax_steps.gradient_step, loss, problem)
            cases[adam] = partial(jax_steps.adam_step, loss, problem, LEARNING_RATE)
    return cases


def eager_cases(name: str, by: str, bind: Bind, problem: Problem) -> dict[Case, Build]:
    """Return the eager steps of a loss, without and with Adam."""
    return {
        Case(GRADIENT, name, by): partial(gradient_step, bind, problem),
        Case(ADAM, name, by): partial(adam_step, bind, problem),
    }


def mean_of(objective: Objective) -> Loss:
    """Return the mean of an objective."""
    return lambda model, x: objective(model, x).mean()


def log_densities(
    model: Callable[..., Tensor], x: Tensor, /, *cond: Tensor, generator: Generator | None = None
) -> Tensor:
    """Return the log-densities, as an objective."""
    return model(x, *cond)


def gradient_step(bind: Bind, problem: Problem) -> Callable[[], object]:
    """Return a function that computes the parameter gradient of a loss."""
    model, x = problem.build()
    loss = bind(model, x)

    def step() -> None:
        loss().backward()
        model.zero_grad(set_to_none=True)

    return step


def adam_step(bind: Bind, problem: Problem) -> Callable[[], object]:
    """Return a function that takes a step of Adam."""
    model, x = problem.build()
    loss = bind(model, x)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def graph_step(objective: Objective, problem: Problem) -> Callable[[], object]:
    """Return a function that takes a step of Adam as one compiled graph.

    Args:
        objective: The objective.
        problem: The network and the batch.

    Returns:
        The function.

    Raises:
        Unsupported: If the step cannot be compiled and would run eagerly.
    """
    from fdsm.training import CompileWarning, compiled_step

    model, x = problem.build()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    step = partial(compiled_step(objective, model, optimizer), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        try:
            for _ in range(FIRST_STEPS):
                step()
        except CompileWarning as warning:
            raise Unsupported(str(warning)) from warning
    return step


def bound(loss: Loss) -> Bind:
    """Return a loss that is bound to its model and batch before it is timed."""
    return lambda model, x: partial(loss, model, x)
