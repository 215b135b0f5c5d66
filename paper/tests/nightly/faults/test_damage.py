"""Files of a run that are damaged, torn, deleted or replaced: noticed, named, or harmless."""

import json
import random
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from fdsm.serialize import to_json
from fdsm.training import CheckpointError, Checkpoints, checkpoint
from paper.__main__ import main
from paper.report import Experiment, read_folders
from paper.runs import Run, RunError, SavedModel, train
from paper.runs.train import Training
from tests.nightly.faults.damages import DAMAGES, cut, damage_file, flip

from .commands import run
from .comparison import hidden_files, require_same_result


def resume(folder: Path) -> list[str]:
    """Train a run to its end. Return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(Run.open(folder))
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_newest_checkpoint_is_named_and_the_one_before_is_used(
    name: str, unfinished: Path, whole: Run
) -> None:
    path = unfinished / "checkpoints" / "00000027.safetensors"
    damage_file(path, DAMAGES[name])
    [warning] = resume(unfinished)
    assert str(path) in warning
    assert warning.endswith("Using the previous checkpoint")
    require_same_result(unfinished, whole)


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_older_checkpoint_is_harmless(name: str, unfinished: Path, whole: Run) -> None:
    damage_file(unfinished / "checkpoints" / "00000020.safetensors", DAMAGES[name])
    assert resume(unfinished) == []
    require_same_result(unfinished, whole)


@pytest.mark.parametrize("name", [*DAMAGES, "deleted"])
def test_damaged_best_weights_are_named_before_training_goes_on(
    name: str, unfinished: Path, whole: Run
) -> None:
    """They cannot be rebuilt from the others. Training again from the start can."""
    path = unfinished / "checkpoints" / "best.safetensors"
    if name == "deleted":
        path.unlink()
    else:
        damage_file(path, DAMAGES[name])
    with pytest.raises(CheckpointError, match=rf"{path}.* the best so far\. Restore it, or delet"):
        train(Run.open(unfinished))
    assert not (unfinished / "model.safetensors").exists()
    shutil.rmtree(unfinished / "checkpoints")
    resume(unfinished)
    require_same_result(unfinished, whole)


WRONG_STATES: dict[str, dict[str, object]] = {
    "no weights": {},
    "a number": {"model": 5},
    "a list": {"model": [1, 2]},
    "other names": {"model": {"weight": torch.zeros(2)}},
    "other shapes": {"model": {"SAME": torch.zeros(9, 9, 9)}},
    "no tensors": {"model": {"SAME": "text"}},
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_best_weights_of_another_model_are_named_before_training_goes_on(
    name: str, unfinished: Path, tmp_path: Path, whole: Run
) -> None:
    """Their digest is right. Nothing is lost, and training again from the start helps."""
    path, state = unfinished / "checkpoints" / "best.safetensors", WRONG_STATES[name]
    weights = state.get("model")
    if isinstance(weights, dict) and "SAME" in weights:
        state = {"model": dict.fromkeys(checkpoint.load(path)["model"], weights["SAME"])}
    checkpoint.save(path, state)
    before = {file: file.read_bytes() for file in unfinished.rglob("*") if file.is_file()}
    code, output = run(["train", "--resume", unfinished], tmp_path / "log")
    assert code == 1
    assert "Traceback" not in output
    [line] = [line for line in output.splitlines() if line.startswith("paper: ")]
    assert line.startswith(f"paper: {path} does not fit: ")
    assert f"Restore it, or delete {path.parent} and resume: training then starts aga" in line
    assert {file: file.read_bytes() for file in before} == before
    shutil.rmtree(path.parent)
    resume(unfinished)
    require_same_result(unfinished, whole)


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_metrics_do_not_stop_training(name: str, unfinished: Path, whole: Run) -> None:
    """A warning names the damaged lines. An incomplete last line is that of a killed process."""
    path = unfinished / "metrics.jsonl"
    before = path.read_bytes()
    damaged = DAMAGES[name](before)
    path.write_bytes(damaged)
    bad = [line for line in damaged.split(b"\n")[:-1] if line + b"\n" not in before]
    caught = resume(unfinished)
    assert all(one.startswith(f"{path} is damaged in line ") for one in caught)
    assert not caught or bad
    require_same_result(unfinished, whole, metrics=False)


@pytest.mark.parametrize(
    "line",
    [b'{"iterat', b"", b"3", b"[1]", b"{}", b'{"iteration": "x"}', b"\xff\xfe", b"[" * 10**5],
    ids=["half", "empty", "number", "list", "object", "text", "bytes", "nested"],
)  # fmt: skip
def test_damaged_line_is_dropped_with_a_warning(line: bytes, unfinished: Path, whole: Run) -> None:
    """It stopped the run from being resumed in 0.2.0."""
    path = unfinished / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:4], line, *lines[4:]]))
    assert resume(unfinished) == [f"{path} is damaged in line 5. These lines are left out"]
    require_same_result(unfinished, whole)


def test_damaged_config_is_noticed_or_harmless(unfinished: Path, whole: Run) -> None:
    """Whatever bit is flipped: the run is refused, or it is the same run."""
    path, choose = unfinished / "config.json", random.Random(0)
    content = path.read_bytes()
    outcomes = {"refused": 0, "same": 0}
    for _ in range(200):
        path.write_bytes(flip(choose.random(), choose.randrange(8))(content))
        outcomes[_open_and_restore(unfinished, whole)] += 1
    for share in (0, 0.3, 0.9):
        path.write_bytes(cut(share)(content))
        assert _open_and_restore(unfinished, whole) == "refused", share
    assert outcomes["refused"] > 100, outcomes
    path.write_bytes(content)
    resume(unfinished)
    require_same_result(unfinished, whole)


def _open_and_restore(folder: Path, whole: Run) -> str:
    try:
        run = Run.open(folder)
        run = run.with_source(whole.recipe.data)
        training = Training(run, run.recipe.data.load())
        training.start_or_restore()
    except (RunError, CheckpointError) as error:
        return "refused" if str(folder) in str(error) else f"not named: {error}"
    assert (run.seed, to_json(run.recipe)) == (whole.seed, to_json(whole.recipe))
    assert training.iteration == 27
    return "same"


def test_damaged_config_of_a_trained_model_is_noticed(finished: Path) -> None:
    """A model must not be used with the settings of another."""
    path = finished / "config.json"
    config = json.loads(path.read_text())
    config["recipe"]["noise_std"] = 0.5
    path.write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"config\.json was edited or damaged after training start"):
        SavedModel.load(Run.open(finished))


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_model_is_named_and_can_be_rebuilt(name: str, finished: Path, whole: Run) -> None:
    path = finished / "model.safetensors"
    damage_file(path, DAMAGES[name])
    with pytest.raises(CheckpointError, match=str(path)):
        SavedModel.load(Run.open(finished))
    path.unlink()
    assert resume(finished) == []
    require_same_result(finished, whole)


@pytest.mark.parametrize("file", ["result.json", "samples.npy", ".lock"])
def test_damaged_results_do_not_stop_the_report_and_can_be_written_again(
    file: str, finished: Path, whole: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model does not depend on these files."""
    content = (finished / file).read_bytes()
    for name in ("flipped early", "empty", "cut in the middle", "zeros"):
        (finished / file).write_bytes(DAMAGES[name](content))
        [section] = read_folders([finished]).sections
        assert isinstance(section, Experiment), name
    (finished / file).unlink()
    main(["evaluate", str(finished), "--json"])
    capsys.readouterr()
    assert Run.open(finished).result["metrics"] == whole.result["metrics"]
    if file == "samples.npy":
        assert (finished / file).read_bytes() == content
    assert hidden_files(finished) <= {".lock"}


def test_damaged_result_is_named(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage_file(finished / "result.json", cut(0.5))
    with pytest.raises(SystemExit):
        main(["sample", str(finished), "-n", "2"])
    assert f"{finished / 'result.json'} is damaged" in capsys.readouterr().err


def test_folder_in_the_place_of_a_checkpoint(unfinished: Path, whole: Run) -> None:
    path = unfinished / "checkpoints" / "00000027.safetensors"
    path.unlink()
    path.mkdir()
    later = path.with_name("00000030.safetensors")
    later.mkdir()
    (later / "notes.txt").write_text("mine")
    caught = resume(unfinished)
    assert [warning.split(" is a folder")[0] for warning in caught] == [str(later), str(path)]
    require_same_result(unfinished, whole)
    assert (path.parent / "00000030.safetensors.folder" / "notes.txt").read_text() == "mine"


def test_all_checkpoints_damaged(unfinished: Path, whole: Run) -> None:
    for path in (unfinished / "checkpoints").glob("0*.safetensors"):
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="Using the previous checkpoint"),
        pytest.raises(CheckpointError, match=r"no valid checkpoint in .*Delete this folder"),
    ):
        train(Run.open(unfinished))
    shutil.rmtree(unfinished / "checkpoints")
    resume(unfinished)
    require_same_result(unfinished, whole)


def test_later_damaged_checkpoints_do_not_displace_new_ones(tmp_path: Path) -> None:
    """Training has fallen back to iteration 10, and is interrupted at 12."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    for iteration in (20, 30):
        checkpoints.save(iteration, {"iteration": iteration})
        (tmp_path / f"{iteration:08d}.safetensors").write_bytes(b"damaged")
    for iteration in (10, 12):
        checkpoints.save(iteration, {"iteration": iteration})
    with pytest.warns(UserWarning, match="cannot be read"):
        assert checkpoints.latest() == {"iteration": 12}


@pytest.mark.parametrize(
    ("file", "warning"),
    [
        ("checkpoints/00000027.safetensors", None),
        ("checkpoints/00000020.safetensors", None),
        ("checkpoints", None),
        ("metrics.jsonl", "is missing. Records up to iteration 27 are lost"),
        (".lock", None),
    ],
)
def test_deleted_file_of_an_unfinished_run(
    file: str, warning: str | None, unfinished: Path, whole: Run
) -> None:
    path = unfinished / file
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert resume(unfinished) == ([f"{path} {warning}"] if warning else [])
    require_same_result(unfinished, whole, metrics=file != "metrics.jsonl")


def test_deleted_config_is_named(unfinished: Path) -> None:
    (unfinished / "config.json").unlink()
    with pytest.raises(RunError, match=f"{unfinished} is not the folder of a run: it has no conf"):
        Run.open(unfinished)
