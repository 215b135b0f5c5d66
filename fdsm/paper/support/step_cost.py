"""What a training step costs: times that can be compared, since they are taken in turn."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...data import Dataset, Source
from ...runs.run import Run
from ...training import ShuffledBatches, derived_seed

ROUNDS = 40
"""How many steps of each run are timed."""
WARM_UP = 2
"""How many steps of each come before."""
OFTEN = 10
"""Runs that validate at least every so many iterations have that timed, too."""


@dataclass(frozen=True)
class StepCost:
    """What a step of a run costs.

    Attributes:
        milliseconds: The time of a step, without that of making its batch, or of the part of it
            that published times are of.
        validation: The milliseconds of a validation, for runs that do so often.
        kept: The most bytes that a step keeps for backward passes at any moment, the weights
            among them.
    """

    milliseconds: float
    validation: float | None
    kept: int

    def record(self) -> dict[str, float]:
        """Return what goes into a `result.json`."""
        found = {"milliseconds_per_iteration": self.milliseconds, "bytes": self.kept}
        validation = self.validation
        return found if validation is None else found | {"milliseconds_of_validation": validation}


def pace(runs: Sequence[Run], rounds: int = ROUNDS) -> list[StepCost]:
    """Return what a training step of each run costs, measured in turn.

    On a machine with other work to do, times measured one after the other say more about that
    work than about the steps. Every round takes one step of each run, from untrained weights.

    Args:
        runs: What to compare.
        rounds: How many steps of each are taken after two to warm up.

    Returns:
        The medians for each run.
    """
    loaded: list[tuple[Source, Dataset]] = []
    timed = [_Timed(run, _shared(run.recipe.data, loaded)) for run in runs]
    for iteration in range(rounds + WARM_UP):
        for one in timed[:: 1 - 2 * (iteration % 2)]:  # there and back, so none is always next
            one.step(iteration)
    for _ in range(rounds // 4 + WARM_UP):
        for one in timed:
            one.validate()
    return [one.pace() for one in timed]


def _shared(source: Source, loaded: list[tuple[Source, Dataset]]) -> Dataset:
    """Return the data of a source, loaded once."""
    for known, data in loaded:
        if known == source:
            return data
    loaded.append((source, source.load()))
    return loaded[-1][1]


class _Timed:
    """A run whose steps are timed."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self.run, self.data, self.generator = run, data, run.generator("pace")
        self.model = run.build(self.data.shape)
        run.recipe.before_training(self.model, self.data, self.generator)
        self.take = run.recipe.timed_part(run.recipe.step(self.model, self.data))
        size, order = run.recipe.plan.batch, derived_seed(run.seed, "order")
        self.batches = ShuffledBatches(
            self.data.train, self.data.transform, size, order, run.device
        )
        self.often = 0 < run.recipe.plan.validate_every <= OFTEN
        self.kept = 0
        self.steps: list[float] = []
        self.validations: list[float] = []

    def step(self, iteration: int) -> None:
        """Take a step."""
        batch = self.batches(iteration, self.generator)
        take = lambda: self.take(batch, self.generator)
        if iteration == 0:  # to warm up, so that what counting costs is not timed
            self.kept = _kept(take)
        else:
            self.steps.append(_seconds(take, self.run.device))

    def validate(self) -> None:
        """Validate, if that is part of the training."""
        if self.often:
            again = self.run.generator("validate")
            validate = lambda: self.run.recipe.validate(self.model, self.data, again)
            self.validations.append(_seconds(validate, self.run.device))

    def pace(self) -> StepCost:
        """Return the medians."""
        validation = _median(self.validations) if self.often else None
        return StepCost(_median(self.steps), validation, self.kept)


def _median(seconds: list[float]) -> float:
    """Return the median in milliseconds, without the first, which warms up."""
    return 1000 * statistics.median(seconds[1:])


def _seconds(work: Callable[[], object], device: str) -> float:
    """Return how long some work takes, all that it asked of a device included."""
    began = time.perf_counter()
    work()
    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - began


def _kept(step: Callable[[], object]) -> int:
    """Return the most bytes that are kept for backward passes at any moment of a step."""
    kept = _Kept()
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: _Saved(saved, kept), _Saved.get):
        step()
    return kept.most


class _Kept:
    """How many bytes are kept, tensors that share memory counted once."""

    def __init__(self) -> None:
        self.uses: Counter[int] = Counter()
        self.now = self.most = 0

    def count(self, tensor: Tensor, more: int) -> None:
        storage = tensor.untyped_storage()
        before = self.uses[storage.data_ptr()] > 0
        self.uses[storage.data_ptr()] += more
        after = self.uses[storage.data_ptr()] > 0
        self.now += (after - before) * storage.nbytes()
        self.most = max(self.most, self.now)


class _Saved:
    """A tensor that is counted for as long as autograd holds on to it."""

    def __init__(self, tensor: Tensor, kept: _Kept) -> None:
        self.tensor, self.kept = tensor, kept
        kept.count(tensor, 1)

    def get(self) -> Tensor:
        return self.tensor

    def __del__(self) -> None:
        self.kept.count(self.tensor, -1)
