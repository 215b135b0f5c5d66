"""Run folders of strangers."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.training import checkpoint
from paper.__main__ import main
from paper.report import read_folders
from paper.runs import Run, RunError, SavedModel, train
from paper.tests.commands.command_cases import run_fails
from paper.tests.runs.run_cases import array_recipe, write_array


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("stranger")
    train(Run.create(folder / "run", array_recipe(write_array(folder / "images.npy"))))
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    change(config)
    path.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(seed=float("inf")),
        lambda c: c.update(seed=[1]),
        lambda c: c.pop("seed"),
        lambda c: c.pop("recipe"),
        lambda c: c.update(data=[1]),
        lambda c: c.update(data={"files": "x"}),
        lambda c: c.update(data={"files": [1]}),
        lambda c: c.update(stored_shape={"a": 1}),
        lambda c: c.update(origin=3),
        lambda c: c["recipe"]["network"].update(widths=[float("inf")]),
        lambda c: c["recipe"]["network"].update(widths="x" * 10**5),
        lambda c: c["recipe"].update(plan={"class": "paper.recipes.TrainingPlan", "batch": -1}),
        lambda c: c["recipe"].pop("data"),
        lambda c: c["recipe"]["data"].update(transform={"class": "paper.runs.Run"}),
    ],
)
def test_damaged_configs_are_refused_by_name(
    run: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    edit(run / "config.json", change)
    with pytest.raises(RunError, match=r"run/config\.json") as raised:
        Run.open(run)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 10**5, b'{"a":' * 1000 + b"1" + b"}" * 1000],
)
def test_configs_that_are_not_objects_are_refused_by_name(run: Path, content: bytes) -> None:
    (run / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        Run.open(run)
    (run / "result.json").write_bytes(content)
    assert "config.json cannot be read" in read_folders([run]).notes[0]


def test_a_model_that_is_larger_than_its_file_is_not_built(run: Path) -> None:
    """A width of a million would take terabytes, and a million layers take hours."""
    for widths in ([10**6, 10**6], [8] * 10**6):
        edit(run / "config.json", lambda c, w=widths: c["recipe"]["network"].update(widths=w))
        with pytest.raises(RunError, match=r"model\.safetensors does not match|was edited"):
            SavedModel.load(Run.open(run))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("model"),
        lambda s: s.update(model=[1]),
        lambda s: s["model"].popitem(),
        lambda s: s.update(shape="x"),
        lambda s: s.update(shape=[10**6]),
        lambda s: s.update(progress=None),
        lambda s: s.update(max_value="large"),
        lambda s: s.pop("transform"),
        lambda s: s.pop("is_integer"),
    ],
)
def test_models_with_a_valid_digest_and_another_content_are_refused_by_name(
    run: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    state = checkpoint.load(run / "model.safetensors")
    change(state)
    checkpoint.save(run / "model.safetensors", state)
    with pytest.raises(RunError, match=r"model\.safetensors does not match its config\.json"):
        SavedModel.load(Run.open(run))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "result.json"])
def test_pipes_in_a_run_are_not_read(
    run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    code, error = run_fails(["sample", str(run), "-n", "2"], capsys)
    assert code == 1
    assert error.count("\n") <= 2
    assert name in error
    read_folders([run])


def test_a_device_as_the_data_of_a_config_is_not_read(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(run / "config.json", lambda c: c["recipe"]["data"].update(path="/dev/zero"))
    code, error = run_fails(["evaluate", str(run)], capsys)
    assert (code, error) == (1, "paper: /dev/zero is a device, but a file is needed\n")


@pytest.mark.parametrize("name", ["checkpoints", "samples", ".lock"])
def test_links_out_of_a_run_are_not_followed(run: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=rf"{name} is a link to .*outside, outside the run"):
        Run.open(run)
    (run / name).unlink()
    (run / "inside").mkdir()
    (run / name).symlink_to(run / "inside")
    assert Run.open(run).seed == 0


def test_code_of_a_stranger_is_not_executed_by_any_command(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "code.py"
    code.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    edit(run / "config.json", lambda c: c.update(origin={"file": str(code), "name": "x"}))
    for command in (["sample"], ["evaluate"], ["check"], ["train", "--resume"]):
        status, error = run_fails([*command, str(run)], capsys)
        assert status == 2
        assert error.endswith("Add --trust to execute it\n")
    main(["report", str(run), "--out", str(tmp_path / "report.html")])
    assert not (tmp_path / "executed").exists()


def test_metrics_that_are_numbers_or_empty_objects_are_noted(run: Path) -> None:
    lines = ["1", "{}", "[]", "null", '{"iteration": "x"}', '{"iteration": 1, "loss": {}}', "{"]
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join([*lines, '{"iteration": 3, "validation": [1]}\n']))
    (note,) = (note for note in read_folders([run]).notes if "metrics" in note)
    assert "run: metrics.jsonl is damaged in line" in note
