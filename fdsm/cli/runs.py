"""Runs that commands open and evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import usable
from .printing import console, note, print_json, progress, wrote

if TYPE_CHECKING:
    from ..runs.run import Run
    from ..runs.saved_model import SavedModel


def open_run(folder: Path, *, trust: bool, device: str | None) -> "Run":
    """Return the run in a folder, on a device that can be used here."""
    from ..runs.run import Run

    run = Run.open(folder, trust=trust, device=device)
    usable(run.device)
    return run


def open_model(folder: Path, *, trust: bool, device: str | None) -> "SavedModel":
    """Return the trained model of the run in a folder."""
    from ..runs.saved_model import open_trained

    return open_trained(open_run(folder, trust=trust, device=device))


def evaluated(run: "Run") -> dict[str, Any]:
    """Evaluate a run, and return its result."""
    from ..runs.evaluate import evaluate as evaluate_run
    from ..runs.saved_model import open_trained

    try:
        return evaluate_run(run, open_trained(run), progress("sampling"))
    except KeyboardInterrupt:
        note(f"fdsm: the model is kept; `fdsm evaluate {run.folder}` goes on")
        raise


def finish(run: "Run", *, json: bool) -> None:
    """Evaluate a run and print what came of it."""
    result = evaluated(run)
    if json:
        print_json({"run": str(run.folder), **result})
        return

    from ..report import collect, terminal

    console(stderr=False).print(terminal(collect([run.folder])))
    files = [run.folder / "result.json", run.folder / result.get("samples", "metrics.jsonl")]
    wrote(files, json=False)
