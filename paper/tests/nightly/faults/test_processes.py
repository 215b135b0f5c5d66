"""Several processes and one folder."""

from functools import partial
from pathlib import Path

import pytest

from fdsm.atomic_io import replace_file
from paper.runs import Run, RunError, TrainingInterrupted, train
from paper.tests.runs.run_cases import array_recipe, interrupt_after
from tests.nightly.faults.moments import pause_in_write

from .commands import Command, run
from .comparison import hidden_files, require_same_result


def test_second_process_in_one_folder_is_refused(
    unfinished: Path, tmp_path: Path, whole: Run
) -> None:
    """The first one goes on. After it was killed, the folder is free, whatever it was doing."""
    moment = partial(pause_in_write, "checkpoints/0*.safetensors", 1, "half")
    resume: list[str | Path] = ["train", "--resume", unfinished]
    first = Command(resume, tmp_path / "first.log", moment)
    assert first.connection.poll(60), first.output
    drafts = hidden_files(unfinished)
    code, output = run(resume, tmp_path / "log")
    assert code == 1
    assert f"another process is writing to {unfinished}. Wait until it has finished" in output
    assert hidden_files(unfinished) == drafts
    assert first.kill()
    code, output = run(resume, tmp_path / "log")
    assert code == 0, output
    require_same_result(unfinished, whole)


def test_draft_of_a_living_process_is_kept(tmp_path: Path, finished: Path) -> None:
    """Two processes write the same report. Each draft is complete, and the last one wins."""
    out = tmp_path / "report.html"
    report: list[str | Path] = ["report", finished, "--out", out]
    moment = partial(pause_in_write, "report.html", 1, "half")
    first = Command(report, tmp_path / "first.log", moment)
    assert first.connection.poll(60), first.output
    [draft] = tmp_path.glob(".report.html.*")
    with replace_file(out) as other:
        other.write_text("second")
        assert draft.exists()
    assert (draft.exists(), out.read_text()) == (True, "second")
    assert first.kill()
    with replace_file(out) as other:
        other.write_text("third")
    assert not draft.exists()


@pytest.mark.parametrize(
    ("settings", "seed", "message"),
    [
        ((), 1, "seed: 0 -> 1"),
        (("optimizer.lr=0.5",), 0, r"recipe\.optimizer\.lr: 0\.001 -> 0\.5"),
    ],
)
@pytest.mark.parametrize("after", [17, None])
def test_run_with_other_settings_does_not_continue_that_of_another_process(
    after: int | None,
    settings: tuple[str, ...],
    seed: int,
    message: str,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both start in an empty folder; one of them trains first, and is killed or ends."""
    folder = tmp_path / "run"
    ours = Run.create(folder, array_recipe(images), seed=0)
    theirs = Run.create(folder, array_recipe(images, *settings), seed=seed)
    if after is None:
        train(ours)
    else:
        with monkeypatch.context() as patch:
            interrupt_after(after, patch)
            with pytest.raises(TrainingInterrupted):
                train(ours)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=rf"{folder} holds a run with other settings \({message}"):
        train(theirs)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    train(Run.create(tmp_path / "other", theirs.recipe, seed=seed))
    train(ours)
