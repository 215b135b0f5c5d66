"""The runs of a reproduction, in one folder."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from fdsm.samplers import Progress
from fdsm.serialize import differences, to_json

from .catalogue import recipe_of
from .lock import exclusive
from .runs import Run, RunError, SavedModel, evaluate, train
from .targets import Scale


@dataclass(frozen=True)
class RunStore:
    """A folder of runs, `ROOT/TARGET/ROW/SEED`. A run is trained when it is first needed.

    Attributes:
        root: The folder.
        scale: The scale of the recipes.
        device: Device of the training.
        console: Console for progress bars. `None` shows no progress.
        recipe_digests: The rows that were used, as `TARGET/ROW`, each with a digest of its
            settings.
    """

    root: Path
    scale: Scale = "cpu"
    device: str = "cpu"
    console: Console | None = None
    recipe_digests: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def folder(self, target: str, row: str, seed: int) -> Path:
        """Return the folder of a run, whether or not it exists."""
        return self.root / target / row / str(seed)

    def run(self, target: str, row: str, seed: int) -> Run:
        """Return an existing run, or a new one.

        Args:
            target: Name of the table, such as `"table2"`.
            row: Name of the row.
            seed: Random seed.

        Returns:
            The run, trained or not.

        Raises:
            RunError: If the existing run has other settings or another seed.
        """
        recipe, folder = recipe_of(target, row, self.scale), self.folder(target, row, seed)
        self.recipe_digests[f"{target}/{row}"] = self.digest(target, row)
        origin = {"target": target, "row": row, "scale": self.scale}
        if not (folder / "config.json").exists():
            return Run.create(folder, recipe, seed=seed, device=self.device, origin=origin)
        run = Run.open(folder, device=self.device)
        wanted = {"origin": origin, "seed": seed, "recipe": to_json(recipe)}
        changes = differences({name: run.config.get(name) for name in wanted}, wanted)
        if changes:
            raise RunError(f"{folder} was produced with different settings ({'; '.join(changes)})")
        return replace(run, recipe=recipe)  # with its provenance, which is not recorded

    def trained(self, target: str, row: str, seed: int) -> SavedModel:
        """Return the model of a run, training it first if necessary."""
        return train(self.run(target, row, seed), console=self.console)

    def evaluated(self, target: str, row: str, seed: int, progress: Progress) -> Run:
        """Return a run with a result, training and evaluating it first if necessary."""
        run = self.run(target, row, seed)
        if not (run.folder / "result.json").exists():
            data = run.recipe.data.load()
            saved = train(run, data, console=self.console)
            with exclusive(run.folder):
                evaluate(saved, data, progress, references=False)
        return run

    def digest(self, target: str, row: str) -> str:
        """Return a digest of the current settings of a row."""
        settings = to_json(recipe_of(target, row, self.scale))
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def changed_rows(self, digests: Mapping[str, str]) -> list[str]:
        """Return a message for each row whose settings have changed since it was used.

        Args:
            digests: Rows as `TARGET/ROW`, each with the digest of its settings at that time.

        Returns:
            The messages.
        """
        return [
            f"the settings of {name} have changed"
            for name, digest in digests.items()
            if self.digest(*name.split("/", 1)) != digest
        ]
