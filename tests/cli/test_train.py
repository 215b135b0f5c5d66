"""`fdsm train`: presets, options, folders, and what happens when something goes wrong."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fdsm.cli import main
from paper.runs.train import Training
from fdsm.training import IterationEvent, checkpoint

from paper.tests.runs.run_cases import TINY
from .cli_cases import QUICK, run_fails, run_json, run_text, write_measurements


def config(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return value


def test_preset_is_chosen_and_explained(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, log = run_text(["train", str(table), *QUICK], capsys)
    assert f"Read {table}: 200 rows, 3 numeric (length, weight, height).\n" in log
    assert "Preset table/small, chosen for 200 training rows of 3 columns: energy-based" in log
    assert "denoising score matching, at most 15 iterations of 200 rows" in log
    for option in ("--model", "--objective", "--derivative", "--iterations", "--set"):
        assert option in log
    folder = Path("runs/measurements")
    names = {"config.json", "metrics.jsonl", "checkpoints", "model.safetensors", "result.json"}
    assert names | {"samples.csv"} <= {path.name for path in folder.iterdir()}
    record = config(folder)
    assert record["origin"]["preset"] == "table/small"
    assert record["recipe"]["plan"]["iterations"] == 15
    assert record["recipe"]["width"] == 16
    header, *rows = (folder / "samples.csv").read_text().splitlines()
    assert header == "length,weight,height"
    assert len(rows) == 60


def test_every_printed_metric_has_a_meaning_and_references(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = run_text(["train", str(table), "--model", "flow", "--iterations=3"], capsys)
    for name in ("exact SM loss", "NLL"):
        line = next(line for line in log.splitlines() if line.startswith(f"{name}: "))
        assert len(line) > 30
    assert "Gaussian" in out


def test_bad_model_ends_with_a_warning(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, log = run_text(["train", str(table), "--model", "flow", "--iterations=1"], capsys)
    assert "WARNING: The model is worse than a Gaussian" in log
    assert "Consider this before you rely on the model" in log


def test_second_data_set_and_second_run_get_folders_of_their_own(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_measurements(tmp_path / "other.csv", seed=1)
    for path in (table, other, table):
        main(["train", str(path), *QUICK])
    folders = sorted(path.name for path in Path("runs").iterdir())
    assert folders == ["measurements", "measurements-2", "other"]
    hashes = {name: config(Path("runs", name))["data"]["files"][0]["sha256"] for name in folders}
    assert hashes["measurements"] == hashes["measurements-2"] != hashes["other"]


def test_folder_that_holds_a_run_is_refused(
    trained: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (trained / "model.safetensors").read_bytes()
    code, error = run_fails(["train", str(table), "--out", str(trained), *QUICK], capsys)
    assert code == 1
    assert "already holds a run" in error
    assert (trained / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("rows", [10, 20])
def test_small_tables_train(rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No row is lost to validation or test: every row is held out once."""
    path = write_measurements(tmp_path / "small.csv", rows=rows)
    result = run_json(["train", str(path), *QUICK], capsys)
    assert result["iterations"] == 15
    assert result["calibration"]["held_out_rows"] == rows
    record = config(Path("runs/small"))
    assert record["data"]["rows"] == {"train": rows, "validation": 0, "test": 0}


def test_decimal_commas_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    lines = ["a;b", *(f"{a:.3f};{b:.3f}".replace(".", ",") for a, b in x)]
    path = tmp_path / "comma.csv"
    path.write_text("\n".join(lines))
    main(["train", str(path), *QUICK])
    samples = np.loadtxt("runs/comma/samples.csv", delimiter=",", skiprows=1)
    assert samples.shape == (60, 2)


@pytest.mark.parametrize(
    ("options", "recorded"),
    [
        (["--set=optimizer.lr=1e-3"], ("optimizer", "lr", 1e-3)),
        (["--columns=height,length"], ("data", "columns", ["height", "length"])),
        (["--ignore=height"], ("data", "ignore", ["height"])),
        (["--set=data.seed=3"], ("data", "seed", 3)),
        (["--set=folds=3"], ("folds", 3)),
    ],
)
def test_options_are_recorded(
    options: list[str],
    recorded: tuple[Any, ...],
    table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_json(["train", str(table), *QUICK, "--seed=5", *options], capsys)
    record = config(Path("runs/measurements"))
    assert record["seed"] == 5
    value: Any = record["recipe"]
    *path, expected = recorded
    for name in path:
        value = value[name]
    assert value == expected


@pytest.mark.parametrize(
    ("options", "derivative"), [([], "Taylor"), (["--derivative=fd"], "FiniteDifference")]
)
def test_other_objectives_use_validation_and_test_rows(
    options: list[str], derivative: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--iterations=5", "--set=network.widths=8", "--set=plan.num_samples=0"]
    run_json(["train", str(table), "--objective=ssm", *quick, *options], capsys)
    record = config(Path("runs/measurements"))
    assert record["data"]["rows"] == {"train": 160, "validation": 20, "test": 20}
    engine = record["recipe"]["objective"]["objective"]["derivative"]["class"]
    assert engine.endswith(f".{derivative}")


def test_built_in_data_set_is_found_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model=flow", "--iterations=2", "--set=hidden=4", "--set=data.n=200"]
    result = run_json(["train", "gaussian-ring", *options], capsys)
    assert result["run"] == "runs/gaussian-ring"
    assert Path("runs/gaussian-ring/density_grid.npz").exists()


def test_images_train(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--iterations=2", "--set=data.size=8", "--set=network.width=2"]
    options += ["--set=plan.num_samples=4", "--set=sampling_levels=2"]
    _, log = run_text(["train", str(photos), *options], capsys)
    assert "Preset images/small" in log
    assert np.load("runs/photos/samples.npy").shape == (4, 3, 8, 8)
    with Image.open("runs/photos/samples.png") as picture:
        assert picture.mode == "RGB"


def test_array_in_a_file_is_chosen_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    np.savez(tmp_path / "two.npz", x=rows, y=np.zeros((60, 8, 8)))
    code, error = run_fails(["train", "two.npz", *QUICK], capsys)
    assert code == 1
    assert "--set data.key=" in error
    assert "'x'" in error or "x, y" in error
    assert not Path("runs").exists()
    result = run_json(["train", "two.npz", "--set=data.key=x", *QUICK], capsys)
    assert result["run"] == "runs/two"
    samples = np.loadtxt("runs/two/samples.csv", delimiter=",", skiprows=1)
    assert samples.shape == (60, 2)


def test_recipe_of_a_file_needs_trust_to_be_opened_again(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_json(["train", "--recipe", TINY], capsys)
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


def test_recipe_of_a_file_takes_other_data_and_settings(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--iterations=5", "--set=optimizer.lr=1e-3", "--set=data.test=0.2"]
    result = run_json(["train", str(table), "--recipe", TINY, *options], capsys)
    assert result["run"] == "runs/measurements"
    record = config(Path("runs/measurements"))
    assert record["data"]["rows"] == {"train": 140, "validation": 20, "test": 40}
    assert record["recipe"]["optimizer"]["lr"] == pytest.approx(1e-3)
    assert record["origin"]["name"] == "tiny"


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    original = Training._count

    def count(self: Training, event: IterationEvent) -> None:
        original(self, event)
        if event.iteration == after:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Training, "_count", count)


def test_interrupted_run_is_resumed_even_if_its_data_have_moved(
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = run_json(["train", str(table), *QUICK, "--out", "whole"], capsys)
    with monkeypatch.context() as patch:
        interrupt(patch, after=7)
        code, error = run_fails(["train", str(table), *QUICK, "--out", "my run"], capsys)
    assert code == 128 + signal.SIGINT
    assert "stopped after iteration 7 of 15. A checkpoint was written" in error
    assert "Continue with: fdsm train --resume 'my run'" in error
    code, error = run_fails(["sample", "my run"], capsys)
    assert code == 1
    assert "has not finished. Continue with: fdsm train --resume 'my run'" in error
    table.rename(tmp_path / "moved.csv")
    code, error = run_fails(["train", "--resume", "my run"], capsys)
    assert code == 1
    assert "measurements.csv" in error
    write_measurements(tmp_path / "other.csv", seed=1)
    code, error = run_fails(["train", "other.csv", "--resume", "my run"], capsys)
    assert code == 1
    assert "have changed since training started" in error
    result = run_json(["train", "moved.csv", "--resume", "my run"], capsys)
    assert result["metrics"] == whole["metrics"]
    first, second = (checkpoint.load(Path(f, "model.safetensors")) for f in ("whole", "my run"))
    for name, value in first["model"].items():
        assert np.array_equal(value.numpy(), second["model"][name].numpy()), name


def test_run_of_a_built_in_data_set_has_no_data_to_move(
    capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    options = ["--model=flow", "--iterations=2", "--set=hidden=4", "--set=data.n=200"]
    run_json(["train", "gaussian-ring", *options], capsys)
    code, error = run_fails(["train", str(table), "--resume", "runs/gaussian-ring"], capsys)
    assert code == 2
    assert "are not a file: leave DATA out" in error


def test_unfinished_run_is_mentioned_when_a_new_one_is_started(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch, after=3)
        run_fails(["train", str(table), *QUICK], capsys)
    _, log = run_text(["train", str(table), *QUICK], capsys)
    assert "To continue it instead: fdsm train --resume runs/measurements" in log
    assert Path("runs/measurements-2/result.json").exists()


def fail_to_write(name: str, after: int, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the disk be full when a checkpoint is written."""
    original, written = checkpoint.save, []

    def save(path: Path, state: dict[str, Any]) -> None:
        if path.stem.isdigit():
            written.append(path)
        if path.stem.isdigit() and len(written) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        original(path, state)

    monkeypatch.setattr(f"fdsm.training.checkpoint.{name}", save)
    return save


@pytest.mark.parametrize(("after", "last"), [(0, "none yet"), (2, "iteration 10")])
def test_full_disk_names_the_file_the_last_checkpoint_and_the_command(
    after: int,
    last: str,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["train", str(table), *QUICK, "--set=plan.checkpoint_every=5"]
    with monkeypatch.context() as patch:
        fail_to_write("save", after, patch)
        code, error = run_fails(command, capsys)
    assert code == 1
    iteration = 5 * (after + 1)
    assert f"runs/measurements/checkpoints/{iteration:08d}.safetensors" in error
    assert "No space left on device" in error
    assert f"The last complete checkpoint: {last}" in error
    assert "run: fdsm train --resume runs/measurements" in error
    result = run_json(["train", "--resume", "runs/measurements"], capsys)
    assert result["iterations"] == 15


def test_event_files_are_not_written_through_a_link(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    folder.mkdir()
    (folder / "tensorboard").symlink_to(outside)
    command = ["train", str(table), *QUICK, "--out", str(folder), "--tensorboard"]
    code, error = run_fails(command, capsys)
    assert code == 1
    assert f"{folder / 'tensorboard'} is a link to {outside}, outside the run" in error
    assert not list(outside.iterdir())


def test_redirected_output_shows_progress_in_lines(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, log = run_text(["train", str(table), *QUICK], capsys)
    for line in ("Training in runs/measurements", "Trained 15 iterations in ", "Next:"):
        assert line in log
    assert "Drawing 60 samples ..." in log
    assert "\r" not in log
    assert "\x1b" not in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "many", "x.csv"], "many"),
        (["--sed", "1", "x.csv"], "--seed"),
        ([], "give the data to train on, for example: fdsm train measurements.csv"),
        (["TABLE", "--set", "plan.iteration=3"], "Did you mean plan.iterations?"),
        (["TABLE", "--set", "batch=3"], "Did you mean plan.batch?"),
        (["TABLE", "--set", "plan.iterations=x"], "must be int, not 'x'. It is 1000 now (see"),
        (["TABLE", "--set", "plan.iterations"], "such as optimizer.lr=1e-3"),
        (["TABLE", "--set", "data.clumns=a"], "Did you mean columns?"),
        (["TABLE", "--iterations", "0"], "plan.iterations=0 is not allowed"),
        (["TABLE", "--model", "score-network"], "Models for tables: ebm, flow, kernel"),
        (["TABLE", "--objective", "mle"], "Allowed: dsm, ssm, ssmvr, sm"),
        (["TABLE", "--derivative", "fd"], "Objectives with a choice: ssm, ssmvr, sm"),
        (["--recipe", "nowhere.py:mine"], "there is no file nowhere.py"),
        (["--recipe", "mine"], "a recipe is given as file.py:name"),
        (["--recipe", TINY.replace(":tiny", ":tyni")], "Did you mean 'tiny'?"),
        (["--recipe", TINY, "--model", "flow"], "--recipe replaces --model"),
        (["--resume", "x", "--set", "a=b"], "a run that is resumed keeps its settings"),
        (["--resume", "x", "--iterations", "5"], "a run that is resumed keeps its settings"),
        (["--resume", "x", "--seed", "5"], "a run that is resumed keeps its settings"),
        (["TABLE", "--device", "cuda:99"], "torch cannot use the device 'cuda:99' here"),
        (["TABLE", "--device", "meta"], "torch cannot use the device 'meta' here"),
        (["TABLE", "--device", "nonsense"], "torch cannot use the device 'nonsense' here"),
        (["TABLE", "--threads", "0"], "--threads must be at least 1, but is 0"),
    ],
)
def test_wrong_command_lines_are_explained(
    arguments: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(
        ["train", *(str(table) if word == "TABLE" else word for word in arguments)], capsys
    )
    assert code == 2
    assert message in " ".join(error.replace("│", " ").split())
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digts"], "Did you mean 'digits'?"),
        (["nowhere.csv"], "nowhere.csv"),
        (["--resume", "nowhere"], "is not the folder of a run: it has no config.json"),
        (["TABLE", "--set", "data.columns=length,with"], "'with'"),
        (["TABLE", "--set", "optimizer.lr=1e30", *QUICK], "learning rate"),
        (["TABLE", "--model", "kernel", "--set", "inducing=1000"], "Set inducing=80"),
        (["PHOTOS", "--set", "data.size=12"], "multiples of 8"),
    ],
)
def test_data_and_settings_that_do_not_fit_are_explained(
    arguments: list[str],
    message: str,
    table: Path,
    photos: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = {"TABLE": str(table), "PHOTOS": str(photos)}
    command = ["train", *(paths.get(word, word) for word in arguments)]
    for _ in range(2):
        code, error = run_fails(command, capsys)
        assert code == 1
        assert message in error
