"""Times of steps that can be compared, since they are taken in turn."""

import statistics
import time
from collections.abc import Callable, Sequence

from ..training import Shuffled, derived_seed
from .run import Run

ROUNDS = 40
"""How many steps of each run are timed."""


def pace(runs: Sequence[Run], rounds: int = ROUNDS) -> list[float]:
    """Return the milliseconds of a training step of each run, measured in turn.

    On a machine with other work to do, times measured one after the other say more about that
    work than about the steps. Every round takes one step of each run, from untrained weights.

    Args:
        runs: What to compare.
        rounds: How many steps of each are taken after two to warm up.

    Returns:
        The median for each run.
    """
    steps = [_ready(run) for run in runs]
    times: list[list[float]] = [[] for _ in runs]
    for iteration in range(rounds + 2):
        for step, taken in zip(steps, times, strict=True):
            taken.append(step(iteration))
    return [1000 * statistics.median(taken[2:]) for taken in times]


def _ready(run: Run) -> Callable[[int], float]:
    """Return a function that takes a step of a run and returns its seconds."""
    data, generator = run.recipe.data.load(), run.generator("pace")
    model = run.build(data.shape)
    run.recipe.start(model, data, generator)
    step = run.recipe.step(model, data)
    size, order = run.recipe.plan.batch, derived_seed(run.seed, "order")
    batches = Shuffled(data.train, data.transform, size, order, run.device)

    def timed(iteration: int) -> float:
        batch = batches(iteration, generator)
        began = time.perf_counter()
        step(batch, generator)
        return time.perf_counter() - began

    return timed
