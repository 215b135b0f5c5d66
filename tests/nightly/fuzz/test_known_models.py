"""Models of strangers, and names that contain markup or control a terminal."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.cli import main
from fdsm.tables import ModelError, TableModel
from fdsm.training import checkpoint

from ...cli.cli_cases import QUICK, run_fails, write_messy


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("stranger")
    table = write_messy(folder / "t.csv", 60)
    main(["train", str(table), "--out", str(folder / "model"), *QUICK])
    return folder / "model"


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("schema"),
        lambda c: c.update(schema=[1]),
        lambda c: c.update(schema={"class": "fdsm.projections.Sphere"}),
        lambda c: c["schema"].update(columns=[]),
        lambda c: c["schema"]["columns"].pop(1),
        lambda c: c["schema"]["columns"].append(c["schema"]["columns"][1]),
        lambda c: c.update(objective={"import": "os.system"}),
        lambda c: c.update(objective={"class": "fdsm.projections.Sphere"}),
        lambda c: c.update(objective=None),
        lambda c: c.update(file=3),
        lambda c: c.update(training={}),
        lambda c: c.update(log_partition="x"),
        lambda c: c.pop("log_partition"),
        lambda c: c["training"].update(seed=float("inf")),
        lambda c: c["training"].update(objective="x" * 10**5, seed="x" * 10**5),
    ],
)
def test_damaged_settings_are_refused_by_name(
    model: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = model / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    change(config)
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=str(model)) as raised:
        TableModel.load(model)
    assert len(str(raised.value)) < 1000
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 10**5, b'{"a":' * 1000 + b"1" + b"}" * 1000],
)
def test_settings_that_are_not_objects_are_refused_by_name(model: Path, content: bytes) -> None:
    (model / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=str(model)):
        TableModel.load(model)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("network"),
        lambda s: s.update(network=[1]),
        lambda s: s["network"].popitem(),
        lambda s: s["network"].update({"blocks.999999999.weight": torch.zeros(1)}),
        lambda s: s["network"].update({"rows.weight": torch.zeros(4, 1, 20_000)}),
        lambda s: s.update(columns={}),
        lambda s: s.update(tails=None),
        lambda s: s.update(imputation={"x": 1}),
        lambda s: s.update(detector=None),
        lambda s: s["detector"].popitem(),
        lambda s: s["detector"].update(conditionals={"x": 1}),
        lambda s: s["columns"].update(mean=torch.zeros(10**6)),
    ],
)
def test_weights_with_a_valid_digest_and_another_content_are_refused(
    model: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    """A billion blocks would take hours to build, and a width of 20,000 takes 13 GB."""
    state = checkpoint.load(model / "model.safetensors")
    change(state)
    checkpoint.save(model / "model.safetensors", state)
    with pytest.raises(ModelError, match=rf"the model in {model} is damaged"):
        TableModel.load(model)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "summary.json"])
def test_pipes_in_a_model_are_not_read(
    model: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / name).unlink()
    os.mkfifo(model / name)
    code, error = run_fails(["sample", str(model), "-n", "2"], capsys)
    assert code == 1
    assert error.count("\n") == 1
    assert f"{name} is a pipe" in error


def test_training_and_scoring_use_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    table, folder = write_messy(tmp_path / "t.csv", 60), str(tmp_path / "model")
    main(["train", str(table), "--out", folder, *QUICK])
    main(["score", folder, str(table)])
    main(["sample", folder, "-n", "3"])
    main(["report", folder, "--out", str(tmp_path / "r.html")])
    assert "Wrote" in capsys.readouterr().err


def test_names_with_markup_and_escape_sequences_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column called [/bold] was a traceback, and an escape sequence changed the terminal."""
    rows = write_messy(tmp_path / "x", 80).read_text(encoding="utf-8").split("\n")
    rows[0] = "[/bold],day,\x1b]0;title\x07,unit,[red]a,:smile:,\x9b31m,<script>"
    table, folder = tmp_path / "[bold]\x1b[31m.csv", str(tmp_path / "[bold]\x1b[31m")
    table.write_text("\n".join(rows), encoding="utf-8")
    main(["train", str(table), "--out", folder, *QUICK])
    main(["score", folder, str(table)])
    scores = str(tmp_path / "[bold]\x1b[31m.scores.csv")
    main(["report", folder, scores, "--out", str(tmp_path / "r.html")])
    shown = "".join(capsys.readouterr())
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    for name in ("[/bold]", "[red]a", ":smile:", "\N{REPLACEMENT CHARACTER}]0;title"):
        assert name in shown
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not {"\x1b", "\x07", "\x9b"} & set(page)
    assert "<script>" not in page
