"""The entry point of the command line. Each command is a function in a file of its own.

Heavy imports belong inside the functions, so that `fdsm --help` is fast. Results go to standard
output, as text or with `--json` as JSON; all messages go to standard error. Exit codes: 0 for
success, 1 for a failure, 2 for a wrong command line, 130 after an interruption. Errors are printed
in one line; set FDSM_TRACEBACK to see the traceback too.
"""

import os
import re
import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from .. import __version__
from .demo import demo
from .impute import impute
from .options import UsageError
from .printing import log
from .report import report
from .sample import sample
from .score import score
from .train import train

app = SubcommandApp()
for _command in (train, score, impute, sample, report, demo):
    # tyro keeps the line breaks inside the description of an argument.
    _command.__doc__ = re.sub(r"\n {12}", " ", _command.__doc__ or "")
    app.command(_command)

DESCRIPTION = """Learn the density of a table by score matching: find unusual rows with reasons,
fill gaps and draw samples. `fdsm COMMAND --help` explains a command, `fdsm --version` prints the
version."""


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
        app.cli(prog="fdsm", description=" ".join(DESCRIPTION.split()), args=arguments)
    except KeyboardInterrupt as interruption:
        reason = str(interruption) or "interrupted. Files already written are complete."
        log(f"fdsm: {reason}")
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
    from ..training import NonFiniteLossError
    from ..training.fit import MEMORY_MESSAGES

    if any(text in str(error).lower() for text in MEMORY_MESSAGES):
        error = MemoryError(f"there is not enough memory: {str(error).splitlines()[0]}")
    failures = (ValueError, NonFiniteLossError, MemoryError, ImportError, OSError)
    if not isinstance(error, failures) or "FDSM_TRACEBACK" in os.environ:
        raise error
    columns = getattr(error, "setting", None) in {"columns", "numeric"}
    option = ". Choose columns with --categorical, --numeric or --ignore" if columns else ""
    log(f"fdsm: {_in_one_line(str(error))}{option}")
    return 2 if isinstance(error, UsageError) else 1


def _in_one_line(text: str) -> str:
    """Return a message in one line, also if it has a list of problems."""
    if "\n- " not in text:
        return " ".join(text.splitlines())
    joined = text.replace(":\n- ", ": ").replace("\n- ", "; ")
    return joined.replace("?\n", "? ").replace("\n", ". ")
