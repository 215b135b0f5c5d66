"""Files of a model that are damaged, deleted or replaced: refused in one sentence, or harmless."""

import random
import shutil
from pathlib import Path

import pytest
import torch

from fdsm.cli import main
from fdsm.tables import ModelError, TableModel
from fdsm.training import CheckpointError, checkpoint

from ...cli.cli_cases import FILES, run_fails
from .damages import DAMAGES, damage_file, flip


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A copy of the model."""
    return Path(shutil.copytree(trained, tmp_path / "model"))


@pytest.mark.parametrize("name", [*DAMAGES, "deleted", "folder", "another"])
@pytest.mark.parametrize("file", sorted(FILES))
def test_damaged_file_is_refused_in_one_sentence_or_harmless(
    file: str,
    name: str,
    model: Path,
    trained: Path,
    table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = model / file
    if name in DAMAGES:
        damage_file(path, DAMAGES[name])
    else:
        path.unlink()
    if name == "folder":
        path.mkdir()
    if name == "another":
        shutil.copy(model / min(FILES - {file}), path)
    score = ["score", str(model), str(table), "--out"]
    code: object = 0
    try:
        main([*score, "damaged.csv"])
    except SystemExit as stop:
        code = stop.code
    if code == 0:
        assert file != "model.safetensors", "damaged weights must be noticed"
        main(["score", str(trained), str(table), "--out", "whole.csv"])
        assert Path("damaged.csv").read_bytes() == Path("whole.csv").read_bytes()
        return
    assert code == 1
    *before, line = capsys.readouterr().err.splitlines()
    assert line.startswith("fdsm: ")
    assert str(model) in line
    assert not [words for words in before if "Traceback" in words or "fdsm: " in words]
    assert not Path("damaged.csv").exists()


def test_every_flipped_byte_of_the_weights_is_noticed(model: Path) -> None:
    """In each region of the file: header, names, tensors."""
    path, choose = model / "model.safetensors", random.Random(0)
    content = path.read_bytes()
    places = [i / 400 for i in range(10)] + [choose.random() for _ in range(60)]
    for place in places:
        path.write_bytes(flip(place, choose.randrange(8))(content))
        with pytest.raises((ModelError, CheckpointError), match=str(model)):
            TableModel.load(model)


def test_flipped_bytes_of_the_settings_raise_no_other_error(
    model: Path, trained: Path, table: Path
) -> None:
    """They have no digest: a flipped letter of the name of a file, for example, is not noticed."""
    path, choose = model / "config.json", random.Random(0)
    content = path.read_bytes()
    messages = []
    for _ in range(200):
        path.write_bytes(flip(choose.random(), choose.randrange(8))(content))
        try:
            TableModel.load(model)
        except ModelError as error:
            messages.append(str(error))
    assert len(messages) > 60
    assert [text for text in messages if str(model) not in text or "\n" in text] == []


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value: float, model: Path) -> None:
    """With a correct digest, as after a mistake of another program."""
    path = model / "model.safetensors"
    state = checkpoint.load(path)
    state["network"]["rows.weight"][:] = value
    checkpoint.save(path, state)
    with pytest.raises(ModelError, match="its log-density is not finite"):
        TableModel.load(model)


def test_model_of_another_version_is_refused_with_that_version(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model / "config.json"
    path.write_text(path.read_text().replace("fdsm table 1", "fdsm table 9"))
    for command in (["sample"], ["score", "x.csv"]):
        code, error = run_fails([command[0], str(model), *command[1:]], capsys)
        assert code == 1
        assert f"fdsm: {model} was written by fdsm " in error
        assert "Train the model again" in error
