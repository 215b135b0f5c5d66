"""The commands themselves: help, exit codes, and errors in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.commands import COMMANDS

from .command_cases import run_fails

ROOT = Path(__file__).parents[3]


def test_help_is_shown_without_importing_torch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "paper", "train", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--recipe" in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "paper.commands" in imported
    assert not {"torch", "matplotlib", "PIL", "jinja2"} & imported


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_no_default_of_none(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert "default: None" not in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("command", ["evaluate", "sample", "check", "report"])
def test_missing_folders_are_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_fails([command, "nowhere"], capsys)
    assert code == 1
    assert "nowhere" in error
    assert error.startswith("paper: ")
    assert error.count("\n") == 1


def test_interruption_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("paper.data.from_path", interrupt)
    Path("x.npy").touch()
    code, error = run_fails(["train", "x.npy"], capsys)
    assert code == 130
    assert "interrupted. Files already written are complete." in error


def test_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FDSM_TRACEBACK", "1")
    with pytest.raises(ValueError, match="is not the folder of a run"):
        main(["evaluate", "nowhere"])


def test_unexpected_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a mistake in the code")

    monkeypatch.setattr("paper.runs.Run.open", fail)
    with pytest.raises(LookupError, match="a mistake in the code"):
        main(["evaluate", "anywhere"])
