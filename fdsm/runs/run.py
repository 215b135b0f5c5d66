"""Runs: a recipe and a seed, in a folder with everything that came of them.

```
config.json      what was run: recipe, settings, data, seed, versions
metrics.jsonl    a line per logged iteration
checkpoints/     weights, optimizer, random numbers, position; the last few and the best
model.safetensors   the trained model and the fitted transform
result.json      what it is judged by
samples.png, samples.npy
```
"""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from ..atomic_io import replace_file
from ..data import Dataset
from ..recipes.recipe import Recipe, seeded
from ..serialize import Json, differences, to_json
from ..training import Checkpoints, derived_seed
from .reference import Reference, UntrustedRecipeError

MODEL = "model.safetensors"


class RunError(ValueError):
    """A folder that is not a run, or one that is in the way."""


@dataclass(frozen=True)
class Run:
    """A recipe, a seed and a folder.

    Attributes:
        folder: Where everything is.
        reference: Where the recipe is.
        recipe: The recipe itself.
        seed: Decides the weights, the order of the data and all noise.
        device: Where it is trained.
    """

    folder: Path
    reference: Reference
    recipe: Recipe
    seed: int
    device: str

    @classmethod
    def create(
        cls, folder: Path, reference: Reference, seed: int = 0, device: str = "cpu"
    ) -> Self:
        """Begin a run in a folder that holds none, or one that never got to a checkpoint.

        Args:
            folder: Where to; made if it is not there.
            reference: Where the recipe is.
            seed: Decides everything random.
            device: Where to train.

        Returns:
            The run, of which nothing has been written yet.

        Raises:
            RunError: If there is a run in the folder.
        """
        run = cls(folder, reference, reference.resolve(), seed, device)
        if run.checkpoints.numbered() or (folder / MODEL).exists():
            raise RunError(
                f"{folder} holds a run already: continue it with `{run.resume}`, "
                "or choose another folder with --out"
            )
        return run

    @classmethod
    def open(cls, folder: Path, *, trust: bool = False, device: str | None = None) -> Self:
        """Open a run that was begun before.

        Args:
            folder: Where it is.
            trust: Whether to execute the user's file that its recipe is in.
            device: Where to go on, if not where it began.

        Returns:
            The run.

        Raises:
            RunError: If there is none.
            UntrustedRecipeError: If its recipe is in a file, and that is not trusted.
        """
        path = folder / "config.json"
        if not path.is_file():
            raise RunError(f"{folder} is not the folder of a run: it has no config.json")
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            reference = Reference.from_record(config)
            seed, before = int(config["seed"]), str(config["device"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is damaged: {error!r}") from error
        if reference.file and not trust:
            raise UntrustedRecipeError(
                f"the recipe of {folder} is code in {reference.file}: add --trust to execute it"
            )
        return cls(folder, reference, reference.resolve(), seed, device or before)

    @property
    def resume(self) -> str:
        """The command that goes on with it."""
        trust = " --trust" if self.reference.file else ""
        return f"fdsm train --resume {shlex.quote(str(self.folder))}{trust}"

    def changes(self) -> list[str]:
        """Return in what its recipe differs from what was put on record when it began."""
        return differences(self.config["settings"], to_json(self.recipe))

    def require_its_data(self, data: Dataset) -> None:
        """Raise `RunError` if the data are not those on record."""
        changed = differences(_identity(self.config["data"]), _identity(data.record))
        if changed:
            raise RunError(
                f"the data of {self.folder} have changed since it began: {'; '.join(changed)}. "
                "Put them back, or train anew"
            )

    @property
    def checkpoints(self) -> Checkpoints:
        """Its checkpoints."""
        return Checkpoints(self.folder / "checkpoints", self.recipe.plan.keep_checkpoints)

    @property
    def config(self) -> dict[str, Any]:
        """What was put on record when it began."""
        text = (self.folder / "config.json").read_text(encoding="utf-8")
        return dict(json.loads(text))

    @property
    def result(self) -> dict[str, Any]:
        """What it was judged by."""
        text = (self.folder / "result.json").read_text(encoding="utf-8")
        return dict(json.loads(text))

    def generator(self, *purpose: int | str) -> torch.Generator:
        """Return random numbers of its own for a purpose."""
        return seeded(self.device, derived_seed(self.seed, *purpose))

    def build(self, shape: torch.Size) -> nn.Module:
        """Return the untrained model of events of a shape."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self.seed, "weights"))
            return self.recipe.build(shape).to(self.device)

    def write(self, name: str, content: Json) -> None:
        """Write a JSON file into the folder, atomically."""
        with replace_file(self.folder / name) as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    """Return what makes data the same wherever they are: rows, columns and checksums."""
    files = [file.get("sha256") for file in record.get("files", [])]
    return {"rows": record.get("rows"), "columns": record.get("columns"), "sha256": files}
