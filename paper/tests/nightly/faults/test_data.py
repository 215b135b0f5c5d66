"""Data that change, vanish or move, cells that are not finite, and runs of other versions."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdsm.training import CheckpointError, checkpoint
from paper.__main__ import main
from paper.runs import Run, RunError, train
from paper.tests.commands.command_cases import QUICK, run_fails, run_json
from paper.tests.runs.run_cases import array_recipe, write_array

from .comparison import require_same_result


@pytest.fixture
def own_images(unfinished: Path, images: Path, tmp_path: Path) -> Path:
    """A copy of the data of the unfinished run, which the run is pointed to."""
    own = Path(shutil.copy(images, tmp_path / "own.npy"))
    config = json.loads((unfinished / "config.json").read_text())
    config["recipe"]["data"]["path"] = str(own)
    (unfinished / "config.json").write_text(json.dumps(config))
    return own


def test_changed_data_are_refused(
    unfinished: Path, own_images: Path, whole: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    content = own_images.read_bytes()
    own_images.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    code, error = run_fails(["train", "--resume", str(unfinished)], capsys)
    assert code == 1
    assert f"the data of {unfinished} have changed since training started: sha256" in error
    assert "Restore them, or train a new model" in error
    assert {path: path.read_bytes() for path in before} == before
    own_images.write_bytes(content)
    main(["train", "--resume", str(unfinished)])
    require_same_result(unfinished, whole)


def test_vanished_data_are_named_with_the_way_to_give_their_new_place(
    unfinished: Path, own_images: Path, whole: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = own_images.rename(own_images.with_name("moved.npy"))
    code, error = run_fails(["train", "--resume", str(unfinished)], capsys)
    assert code == 1
    assert str(own_images) in error
    assert (
        f"If the data were moved, run: python -m paper train --resume {unfinished} NEW_PATH"
        in error
    )
    main(["train", "--resume", str(unfinished), str(moved)])
    require_same_result(unfinished, whole)


def test_data_that_vanish_during_training_are_not_needed(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are read once. Only a new process needs them again."""
    own = Path(shutil.copy(images, tmp_path / "own.npy"))
    run = Run.create(tmp_path / "run", array_recipe(own))
    data = run.recipe.data.load()
    own.unlink()
    train(run, data)
    samples = run_json(["sample", str(run.folder), "-n", "3"], capsys)
    assert samples["samples"] == 3


def test_run_and_data_moved_to_another_machine(
    unfinished: Path,
    own_images: Path,
    whole: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The checksum of the data must match, and the result is the same, bit for bit."""
    there = tmp_path / "machine"
    there.mkdir()
    folder, data = shutil.move(unfinished, there / "run"), shutil.move(own_images, there / "x.npy")
    other = write_array(there / "other.npy", seed=1)
    monkeypatch.chdir(there)
    code, error = run_fails(["train", other.name, "--resume", "run"], capsys)
    assert code == 1
    assert "the data of run have changed since training started: sha256" in error
    main(["train", Path(data).name, "--resume", "run"])
    require_same_result(Path(folder), whole)


def test_images_that_are_not_finite_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.full((30, 1, 8, 8), 0.5, np.float32)
    images[3, 0, 1, 1] = np.nan
    np.save(tmp_path / "images.npy", images)
    code, error = run_fails(["train", str(tmp_path / "images.npy"), *QUICK[:1]], capsys)
    assert code == 1
    assert f"{tmp_path / 'images.npy'} has float32 values from nan to nan" in error
    assert not Path("runs").exists()


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_run_of_another_version_is_refused_with_that_version(
    unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def newer(config: dict[str, Any]) -> None:
        config["format"], config["versions"]["fdsm"] = 9, "7.1.0"

    edit(unfinished / "config.json", newer)
    for command in (["train", "--resume"], ["sample"], ["evaluate"]):
        code, error = run_fails([*command, str(unfinished)], capsys)
        assert code == 1
        assert f"{unfinished} was written by fdsm 7.1.0, whose config.json has another" in error


def test_checkpoints_of_another_version_are_refused(unfinished: Path) -> None:
    """The network of this version has other weights."""
    for path in (unfinished / "checkpoints").glob("0*"):
        state = checkpoint.load(path)
        state["model"] = {f"renamed.{name}": value for name, value in state["model"].items()}
        checkpoint.save(path, state)
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=rf"{unfinished}/checkpoints do not fit the recipe"):
        train(Run.open(unfinished))
    assert {path: path.read_bytes() for path in before} == before


def remove_digests(folder: Path) -> None:
    """Make the checkpoints of a run like those of version 0.2.0."""
    for path in (folder / "checkpoints").glob("0*"):
        state = checkpoint.load(path)
        del state["settings"]
        checkpoint.save(path, state)


def test_checkpoints_of_version_0_2_0_without_a_digest_are_continued(
    unfinished: Path, whole: Run
) -> None:
    remove_digests(unfinished)
    train(Run.open(unfinished))
    require_same_result(unfinished, whole)


def test_settings_that_the_version_of_a_run_did_not_have_are_not_differences(
    unfinished: Path, whole: Run
) -> None:
    """A config of an earlier version lacks fields that have a default now."""
    remove_digests(unfinished)
    edit(unfinished / "config.json", lambda config: config["recipe"].pop("noise_std"))
    train(Run.open(unfinished))
    assert Run.open(unfinished).recipe == Run.open(whole.folder).recipe


def test_edited_settings_are_refused(unfinished: Path) -> None:
    """In 0.2.0 the run went on with the other learning rate."""
    edit(unfinished / "config.json", lambda config: config["recipe"]["optimizer"].update(lr=0.5))
    with pytest.raises(RunError, match=r"config\.json was edited or damaged after training start"):
        train(Run.open(unfinished))
