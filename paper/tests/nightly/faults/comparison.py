"""Whether a run that met a fault ended like one that did not."""

from pathlib import Path

from paper.runs import Run
from paper.tests.runs.run_cases import identical, last_checkpoint, logged_metrics, model_file


def require_same_result(folder: Path, whole: Run, *, metrics: bool = True) -> None:
    """Require that a run has the model, the last checkpoint and the metrics of another."""
    run = Run.open(folder)
    assert identical(model_file(run), model_file(whole)), "the models differ"
    assert identical(last_checkpoint(run), last_checkpoint(whole)), "the checkpoints differ"
    if metrics:
        assert logged_metrics(run) == logged_metrics(whole), "the metrics differ"


def hidden_files(folder: Path) -> set[str]:
    """Return the names of hidden files in a folder: drafts, and the lock."""
    return {path.name for path in folder.rglob(".*")}
