"""Where the runs of a reproduction are."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from .reference import Reference, Scale
from .run import Run
from .train import train
from .trained import Trained, open_trained


@dataclass(frozen=True)
class Place:
    """A folder of runs, `ROOT/TARGET/ROW/SEED`, that are trained when they are first needed.

    Attributes:
        root: The folder.
        scale: Of which scale the recipes are.
        device: Where to train.
        console: Where to draw progress bars; nowhere if not given.
    """

    root: Path
    scale: Scale = "cpu"
    device: str = "cpu"
    console: Console | None = None

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
        """
        folder = self.folder(target, recipe.partition("/")[2], seed)
        if (folder / "config.json").exists():
            return Run.open(folder, device=self.device)
        return Run.create(folder, Reference(recipe, self.scale), seed, self.device)

    def trained(self, target: str, recipe: str, seed: int) -> Trained:
        """Return the model of a run, which is trained now if it has not been; as `run`."""
        run = self.run(target, recipe, seed)
        train(run, console=self.console)
        return open_trained(run)
