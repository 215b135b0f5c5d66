"""The entry point of the command line. Each command is a function in a file of its own.

Heavy imports belong inside the functions, so that `fdsm --help` is fast. Results go to standard
output, as text or with `--json` as JSON; all messages go to standard error. Exit codes: 0 for
success, 1 for a failure, 2 for a wrong command line, 128 + n after signal n. Errors are printed in
one line; set FDSM_TRACEBACK to see the traceback too.
"""

import os
import re
import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from .. import __version__
from .check import check
from .demo import demo
from .evaluate import evaluate
from .options import UsageError, resume_command
from .printing import log
from .processes import prepare_launch
from .report import report
from .sample import sample
from .score import score
from .train import train

app = SubcommandApp()
for _command in (train, score, sample, evaluate, check, report, demo):
    # tyro keeps the line breaks inside the description of an argument.
    _command.__doc__ = re.sub(r"\n {12}", " ", _command.__doc__ or "")
    app.command(_command)

DESCRIPTION = """Train densities on your own data with score matching, score new data and draw
samples. `fdsm COMMAND --help` explains a command, `fdsm --version` prints the version."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command. Errors are printed in one line.

    Args:
        argv: The command and its options. Default: those of the process.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"fdsm {__version__}")
        return
    try:
        prepare_launch(*arguments[:1])
        app.cli(prog="fdsm", description=" ".join(DESCRIPTION.split()), args=arguments)
    except KeyboardInterrupt:
        log("fdsm: interrupted. Files already written are complete.")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of standard output has closed it, as `head` does. Python must not write to
        # it again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        sys.exit(_report_error(error, *arguments[:1]))


def _report_error(error: Exception, command: str = "") -> int:
    """Print an error and return the exit code. Unexpected errors are raised again."""
    from paper.recipes.presets import PresetError
    from paper.recipes.settings import SettingError
    from paper.runs import (
        TrainingInterrupted,
        UnfinishedRunError,
        UnknownRecipeError,
        UntrustedFileError,
    )
    from paper.runs.distributed import LostProcessError
    from ..training import NonFiniteLossError, OutOfMemory
    from ..training.distributed.world import FailedElsewhere, LaunchError

    if isinstance(error, FailedElsewhere):
        return 1  # the other process prints the error
    if isinstance(error, TrainingInterrupted):
        log(f"fdsm: {error}. Continue with: {resume_command(error.run)}")
        return 128 + error.signal
    if isinstance(error, LostProcessError) and command != "train":
        log(f"fdsm: {error}. Start the command again")
        return 1
    if isinstance(error, (UnfinishedRunError, LostProcessError)):
        log(f"fdsm: {error}. Continue with: {resume_command(error.run)}")
        return 1
    hints: dict[type[Exception], str] = {
        UsageError: "",
        LaunchError: "",
        PresetError: "",
        SettingError: " (see --set)",
        UnknownRecipeError: "",
        UntrustedFileError: ". Add --trust to execute it",
    }
    failures = (ValueError, NonFiniteLossError, OutOfMemory, ImportError, OSError)
    if not isinstance(error, (*hints, *failures)) or "FDSM_TRACEBACK" in os.environ:
        raise error
    hint = next((text for kind, text in hints.items() if isinstance(error, kind)), None)
    setting = getattr(error, "setting", None) if command == "train" else None
    log(f"fdsm: {_in_one_line(str(error))}{hint or ''}{_option(setting)}")
    return 1 if hint is None else 2


def _in_one_line(text: str) -> str:
    """Return a message in one line, also if it has a list of problems."""
    if "\n- " not in text:
        return " ".join(text.splitlines())
    joined = text.replace(":\n- ", ": ").replace("\n- ", "; ")
    return joined.replace("?\n", "? ").replace("\n", ". ")


def _option(setting: str | None) -> str:
    """Return the option of `fdsm train` that changes how the data are read."""
    if setting is None:
        return ""
    if setting in {"columns", "numeric"}:
        return ". Choose columns with --columns, --categorical, --numeric or --ignore"
    return f". Option: --set data.{setting}=..."
