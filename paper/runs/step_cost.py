"""Time and memory of training steps, measured so that rows can be compared."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fdsm.evaluation import peak_saved_bytes, time_interleaved
from fdsm.training import ShuffledBatches, derived_seed

from ..data import Dataset, Source
from .run import Run

ROUNDS = 40
"""Number of timed steps of each run."""
MAX_VALIDATION_INTERVAL = 10
"""Validation is timed in runs that validate at least this often, in iterations."""


@dataclass(frozen=True)
class StepCost:
    """Time and memory of a training step.

    Attributes:
        milliseconds: Time of a step, or of the part of it that published times refer to. Loading
            the batch is not included.
        validation: Time of a validation in milliseconds. `None` for runs that validate rarely.
        saved_bytes: Peak memory of tensors saved for backward passes, including weights.
    """

    milliseconds: float
    validation: float | None
    saved_bytes: int

    def record(self) -> dict[str, float]:
        """Return the entries of `result.json`."""
        record = {"milliseconds_per_iteration": self.milliseconds, "bytes": self.saved_bytes}
        if self.validation is not None:
            record["milliseconds_of_validation"] = self.validation
        return record


def measure_step_costs(runs: Sequence[Run], rounds: int = ROUNDS) -> list[StepCost]:
    """Measure training steps of several runs, starting from untrained weights.

    Each round takes one step of each run, so that slow phases of a shared machine affect all of
    them.

    Args:
        runs: The runs to compare.
        rounds: Number of timed steps of each run.

    Returns:
        Median times and peak memory of each run.
    """
    loaded: list[tuple[Source, Dataset]] = []
    timed = {str(i): TimedRun(run, _load(run.recipe.data, loaded)) for i, run in enumerate(runs)}
    device = torch.device(runs[0].device if runs else "cpu")
    saved_bytes = {}
    for name, timed_run in timed.items():
        timed_run.load_batch()
        saved_bytes[name] = peak_saved_bytes(timed_run.step)
    steps = time_interleaved(
        {name: timed_run.step for name, timed_run in timed.items()},
        rounds,
        device,
        warm_up=1,
        wall_clock=True,
        prepare=lambda name: timed[name].load_batch(),
    )
    validations = time_interleaved(
        {
            name: timed_run.validate
            for name, timed_run in timed.items()
            if timed_run.validates_often
        },
        rounds // 4 + 1,
        device,
        warm_up=1,
        wall_clock=True,
    )
    return [
        StepCost(
            1000 * statistics.median(steps[name]),
            1000 * statistics.median(validations[name]) if name in validations else None,
            saved_bytes[name],
        )
        for name in timed
    ]


def _load(source: Source, loaded: list[tuple[Source, Dataset]]) -> Dataset:
    """Return the data of a source, loading them only once."""
    for other, data in loaded:
        if other == source:
            return data
    loaded.append((source, source.load()))
    return loaded[-1][1]


class TimedRun:
    """The untrained model, the step and the batches of a run."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self.run, self.data, self.generator = run, data, run.generator("step_cost")
        self.model = run.build(data.shape)
        run.recipe.before_training(self.model, data, self.generator)
        self.timed_part = run.recipe.timed_part(run.recipe.step(self.model, data))
        size, order = run.recipe.plan.batch, derived_seed(run.seed, "order")
        self.batches = ShuffledBatches(data.train, data.transform, size, order, run.device)
        self.validates_often = 0 < run.recipe.plan.validate_every <= MAX_VALIDATION_INTERVAL
        self.iteration, self.batch = 0, torch.empty(0)

    def load_batch(self) -> None:
        """Load the batch of the next step."""
        self.batch = self.batches(self.iteration, self.generator)
        self.iteration += 1

    def step(self) -> Mapping[str, Tensor]:
        """Take the timed part of a step."""
        return self.timed_part(self.batch, self.generator)

    def validate(self) -> dict[str, float]:
        """Compute the validation metrics."""
        generator = self.run.generator("validate")
        return self.run.recipe.validate(self.model, self.data, generator)
