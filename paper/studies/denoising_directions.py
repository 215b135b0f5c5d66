"""Directions and iterations that FD-DSM needs to reach the loss of DSM (Table 2).

A step of FD-DSM is cheaper than one of DSM, but it compares one number per example instead of one
per pixel. FD-DSM is trained with more directions, and for more iterations, than in Table 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, cast

from fdsm.evaluation import Measurement
from fdsm.objectives import SlicedDSM
from fdsm.samplers import Progress

from ..recipes import EBM, seeded
from ..report import mean_of_numbers
from ..run_store import RunStore
from ..runs import Run, measure_step_costs, train
from ..study import StudyResult
from ..tables import table2

DSM = "DSM"
Variant = tuple[int, int]
"""Number of directions, and factor of the number of iterations."""


@dataclass(frozen=True)
class DenoisingDirections:
    """Losses and times of FD-DSM with more directions or iterations, relative to DSM.

    Attributes:
        variants: Directions and factors of the number of iterations.
        seeds: Number of seeds.
        iterations: Iterations of DSM. Default: those of the table.
    """

    variants: tuple[Variant, ...] = ((1, 1), (4, 1), (16, 1), (1, 4), (1, 16))
    seeds: int = 2
    iterations: int | None = None
    provenance: ClassVar[str] = (
        "Not in the paper. All other settings are those of Table 2. The cosine of the learning "
        "rate ends with the last iteration. The loss is the exact multi-scale DSM loss of "
        "validation images. Times are those of steps, measured interleaved."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the loss of each variant, and its training time relative to DSM.

        Args:
            store: Gives the device. The models are not kept.
            seed: The first seed.
            progress: Wraps the loop over variants to show its progress.
        """
        recipes, losses = self.recipes(), dict[str, list[float]]()
        names = list(recipes)
        seeds = range(seed, seed + self.seeds)
        with TemporaryDirectory() as folder:
            for i in progress(range(len(names))):
                runs = [new_run(folder, recipes[names[i]], s, store.device) for s in seeds]
                losses[names[i]] = [final_loss(run) for run in runs]
            fresh = [
                new_run(f"{folder}/times", recipe, seed, store.device)
                for recipe in recipes.values()
            ]
            costs = measure_step_costs(fresh)
        seconds = {
            name: recipe.plan.iterations * cost.milliseconds / 1000
            for (name, recipe), cost in zip(recipes.items(), costs, strict=True)
        }
        return StudyResult(
            {f"loss, {name}": mean_of_numbers(values) for name, values in losses.items()}
            | relative_times(seconds)
        )

    def recipes(self) -> dict[str, EBM]:
        """Return DSM and the variants of FD-DSM by name."""
        rows = {row.name: row for row in table2.CPU}
        plan = replace(rows[DSM].plan, num_samples=0)
        if self.iterations is not None:
            plan = replace(plan, iterations=self.iterations)
        dsm = replace(rows[DSM], plan=plan)
        recipes = {DSM: dsm}
        for directions, factor in self.variants:
            fd_dsm = table2.MULTISCALE_FD_DSM
            sliced = replace(cast(SlicedDSM, fd_dsm.objective), directions=directions)
            name = f"FD-DSM, {directions} directions, {factor} times the iterations"
            recipes[name] = replace(
                rows["FD-DSM"],
                name=name,
                objective=replace(fd_dsm, objective=sliced),
                plan=replace(plan, iterations=factor * plan.iterations),
            )
        return recipes


def new_run(folder: str, recipe: EBM, seed: int, device: str) -> Run:
    """Return a run of a variant in a folder of its own."""
    return Run.create(Path(folder) / recipe.name / str(seed), recipe, seed=seed, device=device)


def final_loss(run: Run) -> float:
    """Return the validation loss of a run after training."""
    data = run.recipe.data.load()
    model = train(run, data).model
    losses = run.recipe.validate(model, data, seeded(run.device, run.seed))
    return losses[table2.DSM_VALIDATION.name]


def relative_times(seconds: Mapping[str, float]) -> dict[str, Measurement]:
    """Return training times relative to that of DSM.

    Args:
        seconds: The times by name.
    """
    return {
        f"training time / {DSM}, {name}": Measurement(value / seconds[DSM])
        for name, value in seconds.items()
        if name != DSM
    }


CPU = DenoisingDirections()
"""About twenty minutes on one core."""

PAPER = CPU
"""The same."""
