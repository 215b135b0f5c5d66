"""`fdsm train`: options, folders, the printed result, and what happens when it fails."""

import errno
import os
import re
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from fdsm.cli import main
from fdsm.cli.train import _training_sentence
from fdsm.tables import DataError, ModelError, TableModel, choose_objective
from fdsm.tables.summary import read_summary
from fdsm.training import NonFiniteLossError

from ..tables.report.summary_cases import SUMMARY
from .cli_cases import (
    FILES,
    QUICK,
    SAMPLES,
    run_fails,
    run_json,
    run_text,
    write_measurements,
    write_messy,
)

pytestmark = pytest.mark.usefixtures("quick")


def sentences(out: str) -> dict[str, str]:
    """Return the printed sentences by what comes before the colon. Lines are joined."""
    lines = out.replace("\n    ", " ").splitlines()[1:]
    return dict(line.strip().split(": ", 1) for line in lines if ": " in line)


def stop_before_training(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let training fail at once. Return the arguments that it will be given."""
    given: dict[str, Any] = {}

    def fit(table: object, **options: object) -> None:
        given.update(options, table=table)
        raise DataError("no training here")

    monkeypatch.setattr(TableModel, "fit", fit)
    return given


@pytest.mark.parametrize("write", [write_measurements, write_messy])
def test_sentences_and_json_hold_the_facts_of_the_model(
    write: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same seed gives the same model."""
    path = write(tmp_path / "table.csv")
    out, _ = run_text(["train", str(path), *QUICK, "--out", "text"], capsys)
    result = run_json(["train", str(path), *QUICK, "--out", "json"], capsys)
    model, text = TableModel.load("json"), sentences(out)
    scores = model.detector.calibration.held_out_scores()
    assert TableModel.load("text").detector.calibration.held_out_scores().equal(scores)
    assert out.startswith("Model of table.csv, in text\n")
    missing = " 2 % of the cells are missing." if write == write_messy else ""
    assert text["Table"] == f"200 rows, {len(model.schema.columns)} columns.{missing}"
    assert result["file"]["rows"] == 200
    assert text["training"].startswith("denoising score matching, 15 iterations in ")
    assert result["training"]["iterations"] == 15
    p_values = model.detector.calibration.held_out_p_values()
    share = float((p_values <= 0.05).double().mean())
    assert 0.01 <= share <= 0.09
    assert result["calibration"] == {
        "held_out_rows": 200, "level": 0.05, "share_at_most_level": share,
    }  # fmt: skip
    assert text["p-values"].startswith(
        f"{100 * share:.1f} % of the training rows that were held out have a p-value of at most "
        "0.05; 5 % would be perfect."
    )
    unusual = int((p_values < 0.01).sum())
    assert result["unusual_rows"] == unusual > 0
    assert text["Unusual rows"].startswith(f"{unusual} of 200 training rows ha")
    assert {*result["unusual_columns"]} <= {column.name for column in model.schema.used}
    assert 0 < max(result["unusual_columns"].values()) <= unusual
    assert text["samples"].startswith("A classifier can")
    assert result["num_samples"] == SAMPLES
    assert text["density"].startswith("On held-out rows it is ")
    assert len(result["comparison"]["references"]) == 2
    if model.log_partition is None:  # the density of encoded categories is not a probability
        assert result["log_partition"] is result["log_partition_error"] is None
        assert text["log_density"].startswith("known up to a constant")
    else:
        assert [result["log_partition"], result["log_partition_error"]] == [*model.log_partition]
        error = model.log_partition[1]
        assert text["log_density"] == f"normalized, with an error of {error:.2g} nats."
    assert result["normalized"] == (model.log_partition is not None) == (write != write_messy)


def test_constant_that_cannot_be_estimated_is_admitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Importance sampling in 40 dimensions has too few effective samples."""
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "wide.csv", rng.normal(size=(60, 40)), delimiter=",", fmt="%.3f")
    result = run_json(["train", "wide.csv", *QUICK], capsys)
    assert result["normalized"] is False
    assert result["log_partition"] is None


@pytest.mark.parametrize(
    ("iterations", "best", "expected"),
    [
        (100, 95, ["best at iteration 95.", "Longer training may help: --iterations 200."]),
        (100, 60, ["best at iteration 60."]),
        (80, 60, ["best at iteration 60.", "Early stopping ended it."]),
    ],
)
def test_end_of_the_training_is_explained(iterations: int, best: int, expected: list[str]) -> None:
    losses = ((10, 2.0), (best, 1.0), (iterations, 1.5))
    training = replace(
        SUMMARY.training, iterations=iterations, seconds=3.4, validation_losses=losses
    )
    model = SimpleNamespace(training=training, file=SUMMARY.file)
    assert _training_sentence(model, 100) == (  # type: ignore[arg-type]
        f"training: denoising score matching, {iterations} iterations in 3 s. The held-out loss "
        f"was {' '.join(expected)}"
    )


def test_default_number_of_iterations_belongs_to_the_rows() -> None:
    """1,297 of the 1,320 rows are trained on, for at most 600 iterations."""
    training = replace(SUMMARY.training, iterations=600, validation_losses=((600, 1.0),))
    model = SimpleNamespace(training=training, file=SUMMARY.file)
    assert "--iterations 1200." in _training_sentence(model, None)  # type: ignore[arg-type]


def test_result_is_printed_in_the_order_of_interest(
    trained: Path,
    table: Path,
    instant: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the table is, what is unusual, whether to trust the model; losses come last."""
    summary = read_summary(trained / "summary.json")
    column = replace(summary.columns[0], name="status", possible_codes=2)
    changed = replace(
        summary,
        columns=(*summary.columns, column, *(replace(column, name=f"x{i}") for i in range(40))),
        relations=("distance is determined by origin and dest", "a + b = 24"),
    )
    monkeypatch.setattr(TableModel, "summarize", lambda *_: changed)
    out, _ = run_text(["train", str(table), "--numeric=x0,x1", *QUICK, "--out=m"], capsys)
    words = " ".join(out.split())
    parts = (
        "Table: 200 rows, 44 columns.", "44 numeric: length, weight, height, status, x0, x1, x2,",
        "x38, x39 status (2 different values), x2 (2), x3 (2),", "x38 (2) and x39 (2) are taken",
        "If these are codes: --categorical status,x2,x3,", "Relations that hold in the table",
        "distance is determined by origin and dest", "a + b = 24", "Unusual rows: ",
        "Can the model be trusted?", "p-values: ", "density: ", "samples: ", "Technical details",
        "training: ", "iterations", "log_density: ",
    )  # fmt: skip
    places = [words.index(part) for part in parts]
    assert places == sorted(places)
    assert max(map(len, out.splitlines())) <= 200
    assert "more" not in words.partition("Can the model be trusted?")[0]
    assert read_summary(Path("m/summary.json")).columns[4].possible_codes == 0


@pytest.mark.usefixtures("instant")
def test_next_commands_can_be_run(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_measurements(tmp_path / "new.csv", seed=1)
    _, log = run_text(["train", str(table), *QUICK, "--out", "my model"], capsys)
    commands = [shlex.split(line) for line in log.split("Next:\n")[1].splitlines()]
    assert [command[:2] for command in commands] == [
        ["fdsm", "score"], ["fdsm", "sample"], ["fdsm", "report"],
    ]  # fmt: skip
    for command in commands:
        main(command[1:])
    for name in ("new.scores.csv", "my model.samples.csv", "report.html"):
        assert Path(name).exists(), name
    assert len(Path("my model.samples.csv").read_text().splitlines()) == 1001
    assert {path.name for path in Path("my model").iterdir()} == FILES


def test_redirected_output_has_lines_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_measurements(tmp_path / "table.csv")
    path.write_text(path.read_text().replace("length", "\x1b[31mred\u202e"))
    out, log = run_text(["train", str(path), *QUICK], capsys)
    assert f"Read {path}: 200 rows. Training a model for runs/table\n" in log
    assert f"Drawing {SAMPLES} samples ..." in log
    assert "3 numeric: \N{REPLACEMENT CHARACTER}[31mred" in out
    assert not {"\r", "\x1b", "\u202e"} & {*out, *log}


def test_copies_of_rows_are_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_measurements(tmp_path / "table.csv", rows=60)
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows, *rows]))
    _, log = run_text(["train", str(path), *QUICK], capsys)
    assert log.count("WARNING: 60 rows are copies of other rows and were left out.") == 1


@pytest.mark.usefixtures("instant")
def test_each_model_gets_a_folder_of_its_own(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_measurements(tmp_path / "other.csv", seed=1)
    folders = [run_json(["train", str(p), *QUICK], capsys)["model"] for p in (table, other, table)]
    assert folders == ["runs/measurements", "runs/other", "runs/measurements-2"]
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "measurements", "measurements-2", "other",
    ]  # fmt: skip
    for folder in folders:
        assert {path.name for path in Path(folder).iterdir()} == FILES


@pytest.mark.usefixtures("instant")
def test_existing_folder_is_refused_unless_it_is_empty(
    trained: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in trained.iterdir()}
    (tmp_path / "file").write_text("mine")
    problems = {trained: "exists and is not empty", tmp_path / "file": "is a file"}
    for out, problem in problems.items():
        code, error = run_fails(["train", str(table), "--out", str(out), *QUICK], capsys)
        assert code == 1
        assert error == f"fdsm: {out} {problem}. Choose another folder\n"
    assert {path: path.read_bytes() for path in trained.iterdir()} == before
    (tmp_path / "empty").mkdir()
    main(["train", str(table), "--out", "empty", *QUICK])
    assert {path.name for path in Path("empty").iterdir()} == FILES


@pytest.mark.parametrize(
    ("out", "message"), [("file/model", "file is not a folder"), ("locked/model", "is read-only")]
)
def test_folder_that_cannot_be_written_is_refused_before_training(
    out: str,
    message: str,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    given = stop_before_training(monkeypatch)
    code, error = run_fails(["train", str(table), "--out", out], capsys)
    assert code == 1
    assert error.startswith(f"fdsm: {out} cannot be written: ")
    assert error.endswith(f"{message}\n")
    assert given == {}


@pytest.mark.parametrize("rows", [10, 20])
def test_small_tables_train(rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No row is lost to validation or test: every row is held out once."""
    path = write_measurements(tmp_path / "small.csv", rows=rows)
    result = run_json(["train", str(path), *QUICK], capsys)
    assert result["calibration"]["held_out_rows"] == rows


@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".txt", ".parquet", ".feather", ".npy", ".npz"]
)
def test_formats_of_the_help_are_read(
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2)).round(3)
    path, table = tmp_path / f"table{suffix}", pa.table({"a": x[:, 0], "b": x[:, 1]})
    match suffix:
        case ".parquet":
            pyarrow.parquet.write_table(table, path)
        case ".feather":
            pyarrow.feather.write_feather(table, path)
        case ".npy":
            np.save(path, x)
        case ".npz":
            np.savez(path, x=x)
        case _:
            mark = {".csv": ",", ".tsv": "\t", ".txt": ";"}[suffix]
            np.savetxt(path, x, delimiter=mark, header=f"a{mark}b", comments="", fmt="%.3f")
    given = stop_before_training(monkeypatch)
    code, error = run_fails(["train", str(path)], capsys)
    assert code == 1
    assert f"Read {path}: 30 rows. Training a model for runs/table\n" in error
    read = np.stack([column.to_numpy() for column in given["table"].table.columns], 1)
    np.testing.assert_array_equal(read.astype(float), x)


def test_array_of_a_file_with_several_is_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "two.npz", x=np.ones((60, 2)), y=np.zeros((60, 8, 8)))
    code, error = run_fails(["train", "two.npz", *QUICK], capsys)
    assert code == 1
    assert "two.npz has the arrays 'x', 'y'" in error
    assert "save it alone with numpy.save" in error


def test_decimal_commas_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    lines = ["a;b", *(f"{a:.3f};{b:.3f}".replace(".", ",") for a, b in x)]
    (tmp_path / "comma.csv").write_text("\n".join(lines))
    result = run_json(["train", "comma.csv", *QUICK], capsys)
    assert [column["type"] for column in result["columns"]] == ["Numeric", "Numeric"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], choose_objective()),
        (["--objective=ssm"], choose_objective("ssm", "taylor")),
        (["--objective=sm"], choose_objective("sm", "taylor")),
        (["--objective=ssm", "--derivative=fd"], choose_objective("ssm", "fd")),
        (["--objective=sm", "--derivative=autodiff"], choose_objective("sm", "autodiff")),
    ],
)
def test_options_reach_the_training(
    options: list[str],
    expected: object,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = stop_before_training(monkeypatch)
    names = ["--categorical=height", "--ignore=length,weight", "--ignore", "x"]
    run_fails(["train", str(table), "--seed=5", "--iterations=7", *names, *options], capsys)
    assert given["objective"] == expected
    assert (given["seed"], given["iterations"], given["device"]) == (5, 7, "cpu")
    assert given["categorical"] == ["height"]
    assert given["ignore"] == ["length", "weight", "x"]


def test_other_objective_is_trained_and_named(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--objective=ssm", "--derivative=fd", "--iterations=3"]
    out, _ = run_text(["train", str(table), *options], capsys)
    title = "sliced score matching, derivatives with FiniteDifference"
    assert sentences(out)["training"].startswith(f"{title}, 3 iterations in ")
    assert TableModel.load("runs/measurements").training.objective == title


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
STOPPED = "fdsm: stopped. No model was written. Training cannot be continued; start it again."


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("place", ["TableModel.fit", "checkpoint.save"])
def test_interrupted_training_leaves_nothing_behind_and_says_so(
    place: str,
    number: signal.Signals,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """During training, and while the files are written."""

    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    defaults = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    # nohup and background jobs ignore some of them
    before = [signal.signal(n, d) for n, d in zip(SIGNALS, defaults, strict=True)]
    monkeypatch.setattr(f"fdsm.tables.model.{place}", interrupt)
    code, error = run_fails(["train", str(table), *QUICK], capsys)
    after = [signal.signal(n, b) for n, b in zip(SIGNALS, before, strict=True)]
    assert code == 130
    assert error.splitlines()[-1] == STOPPED
    assert error.count("fdsm: ") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"measurements.csv", "runs"}
    assert not [*Path().glob("runs/*")]
    assert tuple(after) == defaults


def test_signal_that_is_ignored_stays_ignored(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after `nohup`."""

    def hang_up(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        raise DataError("trained on")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr("fdsm.tables.model.train_ensemble", hang_up)
    code, error = run_fails(["train", str(table), *QUICK], capsys)
    assert signal.signal(signal.SIGHUP, before) == signal.SIG_IGN
    assert code == 1
    assert "trained on" in error


@pytest.mark.usefixtures("instant")
def test_full_disk_is_named_and_leaves_nothing_behind(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(path: Path, state: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("fdsm.training.checkpoint.save", save)
    code, error = run_fails(["train", str(table), *QUICK], capsys)
    assert code == 1
    assert re.search(r"No space left on device: '(\S+/)?runs/", error.splitlines()[-1])
    assert not [*Path("runs").iterdir()]


@pytest.mark.parametrize(
    "error",
    [
        NonFiniteLossError("iteration 3: the loss is nan"),
        MemoryError("not enough memory"),
        ModelError("a problem"),
    ],
)
def test_failures_of_training_are_one_line(
    error: Exception,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("fdsm.tables.model.train_ensemble", fail)
    code, printed = run_fails(["train", str(table)], capsys)
    assert code == 1
    prefix = "there is not enough memory: " if isinstance(error, MemoryError) else ""
    assert printed.splitlines()[-1] == f"fdsm: {prefix}{error}"
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "many", "x.csv"], "many"),
        (["TABLE", "--sed", "1"], "--seed"),
        ([], "DATA"),
        (["TABLE", "--iterations", "0"], "--iterations must be at least 1, but is 0"),
        (["TABLE", "--objective", "mle"], "Expected one of ('dsm', 'ssm', 'sm')"),
        (["TABLE", "--derivative", "fd"], "--derivative needs --objective ssm or sm"),
        (["TABLE", "--device", "cuda:99"], "torch cannot use the device 'cuda:99' here"),
        (["TABLE", "--device", "meta"], "torch cannot use the device 'meta' here"),
        (["TABLE", "--device", "nonsense"], "torch cannot use the device 'nonsense' here"),
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
    ("name", "message"),
    [("nowhere.csv", "nowhere.csv does not exist"), ("photos", "photos is a folder")],
)
def test_data_that_are_no_table_are_named(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos").mkdir()
    code, error = run_fails(["train", name], capsys)
    assert code == 1
    assert error.startswith(f"fdsm: {message}")
    assert error.count("\n") == 1
    assert not Path("runs").exists()
