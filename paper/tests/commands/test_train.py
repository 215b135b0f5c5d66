"""`python -m paper train`: recipes, options, folders, and what happens when something fails."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fdsm.training.checkpoint as checkpoint
from fdsm.training import IterationEvent
from paper.__main__ import main
from paper.runs import SHEET_FOLDER, Run, SavedModel, train
from paper.runs.train import Training
from paper.tables import table2
from paper.tests.recipes.recipe_cases import tiny
from paper.tests.runs.run_cases import TINY

from .command_cases import QUICK, config, run_fails, run_json, run_text, write_photos

SHORT = ["--iterations=6", "--compile=off"]


def test_images_are_trained_with_the_default_recipe(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, log = run_text(["train", str(photos), *QUICK], capsys)
    assert (
        f"Read {photos}: 40 rows of shape (3, 8, 8) (their central squares, resized to 8 × 8; see"
        in log
    )
    assert "denoising score matching, at most 6 iterations of 32 rows" in log
    for line in ("Training in runs/photos", "Trained 6 iterations in ", "Drawing 4 samples ..."):
        assert line in log
    assert "\r" not in log
    assert "\x1b" not in log
    names = {"config.json", "metrics.jsonl", "checkpoints", "model.safetensors", "result.json"}
    assert names <= {path.name for path in Path("runs/photos").iterdir()}
    assert np.load("runs/photos/samples.npy").shape == (4, 3, 8, 8)
    with Image.open("runs/photos/samples.png") as picture:
        assert picture.mode == "RGB"


def test_array_in_a_file_is_chosen_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "two.npz", x=images, y=images[:3])
    quick = [option for option in QUICK if "size" not in option]
    code, error = run_fails(["train", "two.npz", *quick], capsys)
    assert code == 1
    assert "has the arrays 'x', 'y'. Select one with key=..., or --set data.key=..." in error
    assert not Path("runs").exists()
    result = run_json(["train", "two.npz", "--set=data.key=x", *quick], capsys)
    assert result["run"] == "runs/two"


def test_images_are_padded_and_samples_have_their_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images of 6 × 10 become 12 × 12 for the network. Samples are cut out again."""
    images = np.random.default_rng(0).integers(0, 256, (40, 6, 10), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    quick = [option for option in QUICK if "size" not in option]
    _, log = run_text(["train", "images.npy", *quick], capsys)
    assert "Images are padded from 6 × 10 to 12 × 12 for the network." in log
    assert config("runs/images")["shape"] == [1, 12, 12]
    assert np.load("runs/images/samples.npy").shape == (4, 1, 6, 10)
    assert config("runs/images")["recipe"]["data"]["transform"]["steps"][0]["size"] == 12


def test_sheets_show_samples_while_images_are_trained(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four sheets in eight iterations; the model is the one without sheets."""
    command = ["train", str(photos), *QUICK, "--iterations=8"]
    _, log = run_text(command, capsys)
    assert "Samples are shown while training in runs/photos/samples_in_training" in log
    sheets = sorted(Path("runs/photos/samples_in_training").iterdir())
    assert [sheet.name for sheet in sheets] == [f"{i:08d}.png" for i in (2, 4, 6, 8)]
    with Image.open(sheets[0]) as picture:
        assert picture.size == (322, 322)  # five by five images of 8 × 8 with borders, 7 times
    run = Run.open(Path("runs/photos"))
    alone = train(Run(tmp := Path("alone"), run.recipe, run.seed), compile="off")
    assert not (tmp / SHEET_FOLDER).exists()
    for name, weight in SavedModel.load(run).model.state_dict().items():
        assert torch.equal(weight, alone.model.state_dict()[name])


def test_a_row_of_the_paper_is_trained_on_other_images(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--iterations=2", "--set=data.size=8", "--set=plan.num_samples=2"]
    options += ["--set=network.image.width=2", "--compile=off"]
    with pytest.warns(UserWarning, match="rounding"):
        run_json(["train", str(photos), "--recipe", "table2/FD-SSM", *options], capsys)
    record = config("runs/photos")
    assert record["origin"] == {"recipe": "table2/FD-SSM", "scale": "cpu"}
    (row,) = (row for row in table2.CPU if row.name == "FD-SSM")
    recipe = record["recipe"]
    assert recipe["objective"]["derivative"]["class"] == "fdsm.derivatives.FiniteDifference"
    assert recipe["data"]["class"] == "paper.data.ImageFolder"
    assert len(recipe["data"]["transform"]["steps"]) == len(row.data.transform.steps)  # type: ignore[attr-defined]
    assert [source["class"] for source in recipe["ood_sources"]] == [
        "paper.recipes.ShuffledFeatures"
    ]


def test_recipe_of_a_file_needs_trust_to_be_opened_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = run_json(["train", "--recipe", TINY, *SHORT], capsys)
    assert result["run"] == "runs/tiny"
    assert set(result["metrics"]) == {"exact_sm_loss", "fisher", "ood_auc_shuffled"}
    for command in (["evaluate"], ["sample"], ["check"], ["train", "--resume"]):
        code, error = run_fails([*command, "runs/tiny"], capsys)
        assert code == 2
        assert "is code in" in error
        assert "Add --trust to execute it" in error
    before = Path("runs/tiny/model.safetensors").read_bytes()
    again = run_json(["train", "--resume", "runs/tiny", "--trust"], capsys)
    assert again["metrics"] == result["metrics"]
    assert Path("runs/tiny/model.safetensors").read_bytes() == before


def test_options_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seed=5", "--set=optimizer.lr=1e-3", "--set=data.seed=3"]
    run_json(["train", "gaussian-ring", "--recipe", TINY, *SHORT, *options], capsys)
    record = config("runs/gaussian-ring")
    assert record["seed"] == 5
    assert record["recipe"]["optimizer"]["lr"] == pytest.approx(1e-3)
    assert record["recipe"]["data"]["seed"] == 3
    assert record["recipe"]["plan"]["iterations"] == 6
    assert record["origin"]["name"] == "tiny"


def test_second_run_gets_a_folder_of_its_own_and_none_is_overwritten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["train", "--recipe", TINY, *SHORT]
    main(command)
    main(command)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["tiny", "tiny-2"]
    code, error = run_fails([*command, "--out", "runs/tiny"], capsys)
    assert code == 1
    assert "runs/tiny already holds a run" in error


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    original = Training._count

    def count(self: Training, event: IterationEvent) -> None:
        original(self, event)
        if event.iteration == after:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Training, "_count", count)


def test_interrupted_run_is_resumed_even_if_its_data_have_moved(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = run_json(["train", str(photos), *QUICK, "--out", "whole"], capsys)
    with monkeypatch.context() as patch:
        interrupt(patch, after=3)
        code, error = run_fails(["train", str(photos), *QUICK, "--out", "my run"], capsys)
    assert code == 128 + signal.SIGINT
    assert "stopped after iteration 3 of 6. A checkpoint was written" in error
    assert "Continue with: python -m paper train --resume 'my run'" in error
    code, error = run_fails(["sample", "my run"], capsys)
    assert code == 1
    assert "has not finished. Continue with: python -m paper train --resume 'my run'" in error
    photos.rename(tmp_path / "moved")
    code, error = run_fails(["train", "--resume", "my run"], capsys)
    assert code == 1
    assert "If the data were moved, run: python -m paper train --resume 'my run' NEW" in error
    write_photos(tmp_path / "other", seed=1)
    code, error = run_fails(["train", "other", "--resume", "my run"], capsys)
    assert code == 1
    assert "have changed since training started" in error
    result = run_json(["train", "moved", "--resume", "my run"], capsys)
    assert result["metrics"] == whole["metrics"]
    first, second = (checkpoint.load(Path(f, "model.safetensors")) for f in ("whole", "my run"))
    for name, value in first["model"].items():
        assert np.array_equal(value.numpy(), second["model"][name].numpy()), name


def test_unfinished_run_is_mentioned_when_a_new_one_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--recipe", TINY, *SHORT]
    with monkeypatch.context() as patch:
        interrupt(patch, after=3)
        run_fails(command, capsys)
    _, log = run_text(command, capsys)
    assert "To continue it instead: python -m paper train --resume runs/tiny" in log
    assert Path("runs/tiny-2/result.json").exists()


@pytest.mark.parametrize(("after", "last"), [(0, "none yet"), (2, "iteration 4")])
def test_full_disk_names_the_file_the_last_checkpoint_and_the_command(
    after: int, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, written = checkpoint.save, []

    def save(path: Path, state: dict[str, Any]) -> None:
        if path.stem.isdigit():
            written.append(path)
        if path.stem.isdigit() and len(written) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        original(path, state)

    with monkeypatch.context() as patch:
        patch.setattr("fdsm.training.checkpoint.save", save)
        command = ["train", "--recipe", TINY, *SHORT, "--set=plan.checkpoint_every=2"]
        code, error = run_fails(command, capsys)
    assert code == 1
    assert f"runs/tiny/checkpoints/{2 * (after + 1):08d}.safetensors" in error
    assert "No space left on device" in error
    assert f"The last complete checkpoint: {last}" in error
    assert "run: python -m paper train --resume runs/tiny" in error
    result = run_json(["train", "--resume", "runs/tiny", "--trust"], capsys)
    assert result["iterations"] == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "many", "x"], "many"),
        (["--sed", "1", "x"], "--seed"),
        ([], "give DATA or --recipe, for example: python -m paper train photos/"),
        (["--recipe", TINY, "--set", "plan.iteration=3"], "Did you mean plan.iterations?"),
        (["--recipe", TINY, "--set", "batch=3"], "Did you mean plan.batch?"),
        (["--recipe", TINY, "--set", "plan.iterations=x"], "must be int, not 'x'. It is 40 now"),
        (["--recipe", TINY, "--set", "plan.iterations"], "such as optimizer.lr=1e-3"),
        (["--recipe", TINY, "--set", "data.sede=1"], "Did you mean data.seed?"),
        (["--recipe", TINY, "--iterations", "0"], "plan.iterations=0 is not allowed"),
        (["--recipe", "nowhere.py:mine"], "there is no file nowhere.py"),
        (["--recipe", "mine"], "--recipe is TABLE/ROW, such as table2/FD-SSM, or FILE.PY:NAME"),
        (["--recipe", "table2/FD-SMS"], "Did you mean 'FD-SSM'?"),
        (["--recipe", "tabel2/FD-SSM"], "Did you mean 'table2'?"),
        (["--recipe", "lemma2/SSM"], "unknown row 'SSM' of lemma2"),
        (["--recipe", TINY.replace(":tiny", ":tyni")], "Did you mean 'tiny'?"),
        (["--resume", "x", "--set", "a=b"], "a run that is resumed keeps its settings"),
        (["--resume", "x", "--iterations", "5"], "a run that is resumed keeps its settings"),
        (["--resume", "x", "--seed", "5"], "a run that is resumed keeps its settings"),
        (["--recipe", TINY, "--device", "cuda:99"], "cannot use the device 'cuda:99' here"),
        (["--recipe", TINY, "--threads", "0"], "--threads must be at least 1, but is 0"),
    ],
)
def test_wrong_command_lines_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(["train", *arguments], capsys)
    assert code == 2
    assert message in " ".join(error.replace("│", " ").split())
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digts"], "Did you mean 'digits'?"),
        (["nowhere.npy"], "nowhere.npy does not exist"),
        (["gaussian-ring"], "no default recipe for data that are not images: give --recipe"),
        (["--resume", "nowhere"], "is not the folder of a run: it has no config.json"),
        (["--recipe", TINY, "--set", "optimizer.lr=1e30", *SHORT], "learning rate"),
    ],
)
def test_data_and_settings_that_do_not_fit_are_explained(
    arguments: list[str], message: str, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", *(str(photos) if word == "PHOTOS" else word for word in arguments)]
    code, error = run_fails(command, capsys)
    assert code == 1
    assert message in error


def test_run_of_a_built_in_data_set_has_no_data_to_move(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not hasattr(tiny.data, "path")
    run_json(["train", "--recipe", TINY, *SHORT], capsys)
    command = ["train", str(photos), "--resume", "runs/tiny", "--trust"]
    code, error = run_fails(command, capsys)
    assert code == 2
    assert "are not a file: leave DATA out" in error
