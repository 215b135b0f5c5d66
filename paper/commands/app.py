"""Run a command, and print its errors.

Heavy imports belong inside the functions, so that `--help` is fast. Results go to standard output,
as text or with `--json` as JSON; all messages go to standard error. Exit codes: 0 for success, 1
for a failure, 2 for a wrong command line, 128 + n after signal n. Errors are printed in one line;
set FDSM_TRACEBACK to see the traceback too.
"""

import os
import re
import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from fdsm.cli.printing import log

from .check import check
from .evaluate import evaluate
from .options import UsageError, resume_command
from .processes import prepare_launch
from .report import report
from .sample import sample
from .train import train

app = SubcommandApp()
for _command in (train, sample, evaluate, check, report):
    # tyro keeps the line breaks inside the description of an argument.
    _command.__doc__ = re.sub(r"\n {12}", " ", _command.__doc__ or "")
    app.command(_command)

COMMANDS = ("train", "sample", "evaluate", "check", "report")
"""Names of the commands."""


def run_command(arguments: Sequence[str]) -> None:
    """Run a command. Errors are printed in one line.

    Args:
        arguments: The command and its options.
    """
    try:
        prepare_launch(*arguments[:1])
        app.cli(prog="python -m paper", args=list(arguments))
    except KeyboardInterrupt:
        log("paper: interrupted. Files already written are complete.")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of standard output has closed it, as `head` does. Python must not write to
        # it again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        sys.exit(_report_error(error))


def _report_error(error: Exception) -> int:
    """Print an error and return the exit code. Unexpected errors are raised again."""
    from fdsm.training import NonFiniteLossError, OutOfMemory

    from ..catalogue import UnknownTargetError
    from ..recipes.settings import SettingError
    from ..runs import (
        TrainingInterrupted,
        UnfinishedRunError,
        UnknownRecipeError,
        UntrustedFileError,
    )
    from ..runs.distributed import LostProcessError
    from ..runs.distributed.world import FailedElsewhere, LaunchError

    if isinstance(error, FailedElsewhere):
        return 1  # the other process prints the error
    if isinstance(error, (TrainingInterrupted, UnfinishedRunError, LostProcessError)):
        log(f"paper: {error}. Continue with: {resume_command(error.run)}")
        return 128 + error.signal if isinstance(error, TrainingInterrupted) else 1
    hints: dict[type[Exception], str] = {
        UsageError: "",
        LaunchError: "",
        SettingError: " (see --set)",
        UnknownRecipeError: "",
        UnknownTargetError: "",
        UntrustedFileError: ". Add --trust to execute it",
    }
    failures = (ValueError, NonFiniteLossError, OutOfMemory, ImportError, OSError)
    if not isinstance(error, (*hints, *failures)) or "FDSM_TRACEBACK" in os.environ:
        raise error
    hint = next((text for kind, text in hints.items() if isinstance(error, kind)), None)
    log(f"paper: {' '.join(str(error).splitlines())}{hint or ''}")
    return 1 if hint is None else 2
