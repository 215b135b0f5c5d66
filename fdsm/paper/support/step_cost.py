"""What a training step costs: times that can be compared, since they are taken in turn."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...data import Dataset, Source
from ...evaluation.timing import peak_saved_bytes, time_interleaved
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
    timed = {str(i): _Timed(run, _shared(run.recipe.data, loaded)) for i, run in enumerate(runs)}
    kept = {name: peak_saved_bytes(one.prepared().step) for name, one in timed.items()}
    validating = {name: one.validate for name, one in timed.items() if one.validates_often}
    device = torch.device(runs[0].device) if runs else torch.device("cpu")
    steps = time_interleaved(
        {name: one.step for name, one in timed.items()},
        rounds,
        device,
        warm_up=WARM_UP - 1,
        wall_clock=True,
        prepare=lambda name: timed[name].prepared(),
    )
    validations = time_interleaved(validating, rounds // 4 + 1, device, warm_up=1, wall_clock=True)
    return [
        StepCost(
            _median(steps[name]),
            _median(validations[name]) if name in validations else None,
            kept[name],
        )
        for name in timed
    ]


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
        self.validates_often = 0 < run.recipe.plan.validate_every <= OFTEN
        self.iteration, self.batch = 0, torch.empty(0)

    def prepared(self) -> "_Timed":
        """Make the next batch."""
        self.batch = self.batches(self.iteration, self.generator)
        self.iteration += 1
        return self

    def step(self) -> Mapping[str, Tensor]:
        """Take a step."""
        return self.take(self.batch, self.generator)

    def validate(self) -> dict[str, float]:
        """Validate."""
        again = self.run.generator("validate")
        return self.run.recipe.validate(self.model, self.data, again)


def _median(seconds: list[float]) -> float:
    """Return the median in milliseconds."""
    return 1000 * statistics.median(seconds)
