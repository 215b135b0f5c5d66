r"""Time and memory of a training step at the published sizes, as ratios.

The runs of the scale `cpu` have narrow networks and small images. The paper claims its savings
for the published ones. A few steps of those suffice to compare the methods. There is one study
for each table, so that an interrupted measurement keeps the tables that are finished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from fdsm.evaluation import Measurement, peak_saved_bytes, single_threaded, time_interleaved
from fdsm.samplers import Progress

from ...data import Source
from ...recipes import Recipe
from ...run_store import RunStore
from ...runs import Run, TimedRun
from ...study import StudyResult
from ..table1_times import ratio


@dataclass(frozen=True)
class Comparison:
    """Recipes whose steps are compared.

    Attributes:
        recipes: The recipes, with their published networks and data.
        pairs: Names of the recipes whose ratios are reported, each as numerator and denominator.
        batch: Number of rows in a batch. `None`: as published.
        data: Data with images of the same shape, if those of the recipes are not at hand.
    """

    recipes: tuple[Recipe, ...]
    pairs: tuple[tuple[str, str], ...]
    batch: int | None = None
    data: Source | None = None

    def sized(self) -> list[Recipe]:
        """Return the recipes with the batch and the data of the comparison."""
        return [
            replace(  # type: ignore[type-var]
                recipe if self.data is None else recipe.with_data(self.data),
                plan=replace(recipe.plan, batch=self.batch or recipe.plan.batch),
            )
            for recipe in self.recipes
        ]


@dataclass(frozen=True)
class PublishedSizes:
    """Ratios of time and memory of training steps at the published sizes.

    Attributes:
        comparisons: The recipes, one comparison for each data set.
        steps: Number of timed steps of each recipe.
    """

    comparisons: tuple[Comparison, ...]
    steps: int
    provenance: ClassVar[str] = (
        "Recipes of the scale `paper`. Ratios of time are those of the shortest steps, in CPU "
        "time of one thread, measured interleaved; the ratio of the medians is a setting. "
        "Memory is the peak of what autograd saves in a step, including weights. The published "
        "memory is the largest amount that a GPU had allocated."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the ratios of each comparison.

        Args:
            store: Its device is used.
            seed: Random seed of weights and batches.
            progress: Wraps the loop over comparisons to show its progress.
        """
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.comparisons))):
            comparison = self.comparisons[i]
            with single_threaded():
                costs = measure(comparison.sized(), self.steps, store.device, seed)
            numbers |= compare(costs, comparison.pairs)
        return StudyResult(numbers)


@dataclass(frozen=True)
class Cost:
    """Cost of the steps of a recipe.

    Attributes:
        seconds: Times of the steps.
        saved_bytes: Peak memory of the tensors that a step saves.
        batch: Number of rows in a batch.
    """

    seconds: Sequence[float]
    saved_bytes: int
    batch: int


def measure(recipes: Sequence[Recipe], steps: int, device: str, seed: int) -> dict[str, Cost]:
    """Measure the memory of one step of each recipe, then time steps of all, interleaved.

    Args:
        recipes: The recipes, all with the same data.
        steps: Number of timed steps of each recipe.
        device: The device.
        seed: Random seed of weights and batches.

    Returns:
        The costs by name of the recipe.
    """
    data = recipes[0].data.load()
    timed = {
        recipe.name: TimedRun(Run(Path(recipe.name), recipe, seed, device), data)
        for recipe in recipes
    }
    saved_bytes = {}
    for name, run in timed.items():
        run.load_batch()
        saved_bytes[name] = peak_saved_bytes(run.step)
    seconds = time_interleaved(
        {name: run.step for name, run in timed.items()},
        steps,
        torch.device(device),
        prepare=lambda name: timed[name].load_batch(),
    )
    return {
        recipe.name: Cost(seconds[recipe.name], saved_bytes[recipe.name], recipe.plan.batch)
        for recipe in recipes
    }


def compare(costs: Mapping[str, Cost], pairs: Sequence[tuple[str, str]]) -> dict[str, Measurement]:
    """Return the ratios of time and memory of pairs of recipes, and their seconds and bytes.

    Args:
        costs: The costs by recipe.
        pairs: Names of numerator and denominator.

    Returns:
        The numbers, with the number of steps and the batch as settings.
    """
    numbers: dict[str, Measurement] = {}
    for row, other in pairs:
        ours, base = costs[row], costs[other]
        settings = {"steps": len(ours.seconds), "batch": ours.batch}
        numbers[f"time, {row} over {other}"] = ratio([ours.seconds], [base.seconds]).with_settings(
            **settings
        )
        numbers[f"memory, {row} over {other}"] = Measurement(
            ours.saved_bytes / base.saved_bytes, settings=settings
        )
    for name, cost in costs.items():
        numbers[f"seconds, {name}"] = Measurement(min(cost.seconds))
        numbers[f"bytes, {name}"] = Measurement(cost.saved_bytes)
    return numbers
