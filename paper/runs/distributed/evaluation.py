"""Evaluating a model by several processes."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fdsm.sharding import divided_among_processes
from fdsm.training.distributed.world import World
from ..saved_model import SavedModel
from .train import lost_processes_explained


@contextmanager
def evaluated_together(saved: SavedModel, world: World) -> Generator[SavedModel]:
    """Divide the rows and samples of an evaluation among processes.

    All processes use the model in the same way. Those that do not lead write into a temporary
    folder.

    Args:
        saved: The model.
        world: The processes.

    Yields:
        The model to evaluate in this process.

    Raises:
        LostProcessError: If another process has ended or does not answer.
    """
    if world.size == 1:
        yield saved
        return
    with divided_among_processes(), lost_processes_explained(saved.run, world):
        if world.is_leader:
            yield saved
            return
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / saved.run.folder.name
            folder.mkdir()
            for name in ("config.json", "metrics.jsonl"):
                if (file := saved.run.folder / name).exists():
                    shutil.copy(file, folder)
            yield replace(saved, run=replace(saved.run, folder=folder))
