"""Where the runs of a reproduction are."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from ..atomic_io import exclusive
from ..runs.evaluate import evaluate
from ..runs.reference import Reference, Scale
from ..runs.run import Run, RunError
from ..runs.saved_model import SavedModel, open_trained
from ..runs.train import train
from ..samplers import Progress
from ..serialize import differences, to_json


@dataclass(frozen=True)
class RunStore:
    """A folder of runs, `ROOT/TARGET/ROW/SEED`, that are made when they are first needed.

    Attributes:
        root: The folder.
        scale: Of which scale the recipes are.
        device: Where to train.
        console: Where to draw progress bars; nowhere if not given.
        used: The recipes of the runs that were asked for, each with a digest of its settings.
    """

    root: Path
    scale: Scale = "cpu"
    device: str = "cpu"
    console: Console | None = None
    used: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def folder(self, target: str, row: str, seed: int) -> Path:
        """Return where a run is, whether or not it is there yet."""
        return self.root / target / row / str(seed)

    def run(self, target: str, recipe: str, seed: int) -> Run:
        """Return a run as it is, or a new one.

        Args:
            target: What it is for, such as `"table2"`.
            recipe: `experiment/row`.
            seed: Its seed.

        Returns:
            The run, trained or not.

        Raises:
            RunError: If what is there is not of this recipe, as it is now, and this seed.
        """
        folder = self.folder(target, recipe.partition("/")[2], seed)
        reference = Reference(recipe, self.scale)
        self.used[recipe] = self.digest(recipe)
        if not (folder / "config.json").exists():
            return Run.create(folder, reference, seed, self.device)
        run = Run.open(folder, device=self.device)
        asked = {"recipe": recipe, "scale": self.scale, "seed": seed}
        asked["settings"] = to_json(reference.resolve())
        changes = differences({name: run.config.get(name) for name in asked}, asked)
        if changes:
            raise RunError(
                f"{folder} is not of the recipe {recipe} as it is now ({'; '.join(changes)}): "
                "move it away, or choose another folder with --out"
            )
        return run

    def trained(self, target: str, recipe: str, seed: int) -> SavedModel:
        """Return the model of a run, which is trained now if it has not been; as `run`."""
        run = self.run(target, recipe, seed)
        train(run, console=self.console)
        return open_trained(run)

    def evaluated(self, target: str, recipe: str, seed: int, progress: Progress) -> Run:
        """Return a run that has a result, which is made now if there is none; as `run`."""
        run = self.run(target, recipe, seed)
        if not (run.folder / "result.json").exists():
            trained = self.trained(target, recipe, seed)
            with exclusive(run.folder):
                evaluate(run, trained, progress)
        return run

    def digest(self, recipe: str) -> str:
        """Return what identifies the settings of a recipe, as they are now."""
        settings = to_json(Reference(recipe, self.scale).resolve())
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def outdated(self, used: Mapping[str, str]) -> list[str]:
        """Return the recipes that have changed since they were used.

        Args:
            used: Recipes with digests of their settings.

        Returns:
            A line for each.
        """
        known = used.items()
        return [f"{recipe} has changed" for recipe, was in known if self.digest(recipe) != was]
