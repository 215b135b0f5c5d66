"""The command itself: help, version, exit codes, and errors in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

import fdsm
from fdsm.cli import main

from .cli_cases import run_fails

ROOT = Path(fdsm.__file__).parents[1]
COMMANDS = ("train", "score", "sample", "report", "demo")


def test_help_lists_the_commands_without_importing_torch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "fdsm", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in COMMANDS:
        assert f"• {name} " in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "fdsm.cli" in imported
    assert not {"torch", "numpy", "matplotlib", "PIL", "jinja2"} & imported


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_each_default_once(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "default: None" not in text
    assert "default: ''" not in text


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"fdsm {fdsm.__version__}\n"


def test_closed_pipe_is_not_an_error() -> None:
    command = [sys.executable, "-u", "-m", "fdsm", "--help"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(("arguments", "message"), [(["trian"], "train"), ([], "demo")])
def test_unknown_commands_list_the_commands(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(arguments, capsys)
    assert code == 2
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "nowhere"], "nowhere does not exist. Give a folder that `fdsm train` wrote"),
        (["score", "nowhere", "x.csv"], "nowhere does not exist. Give a folder"),
        (["report", "nowhere"], "nowhere has no summary.json"),
    ],
)
def test_missing_folders_are_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_fails(arguments, capsys)
    assert code == 1
    assert message in error
    assert error.count("\n") == 1


def test_interruption_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fdsm.tables.TableModel.load", interrupt)
    code, error = run_fails(["score", "model", "x.csv"], capsys)
    assert code == 130
    assert error == "fdsm: interrupted. Files already written are complete.\n"


def test_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FDSM_TRACEBACK", "1")
    with pytest.raises(ValueError, match="nowhere does not exist"):
        main(["sample", "nowhere"])


def test_unexpected_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a mistake in the code")

    monkeypatch.setattr("fdsm.tables.TableModel.load", fail)
    with pytest.raises(LookupError, match="a mistake in the code"):
        main(["sample", "anywhere"])
