"""The command line: every function given to `app.command` is a command, its arguments the options.

Heavy imports belong inside the functions, so that `fdsm --help` answers at once. Results go to
standard output, as a table or with `--json` as JSON; all else goes to standard error. Exit codes:
0 done, 1 failed, 2 asked for something that does not exist, 128 + n stopped by signal n. What went
wrong is said in a line; with the environment variable FDSM_TRACEBACK, where too.
"""

import os
import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from .. import __version__
from .options import UsageError
from .printing import note
from .reproducing import reproduce
from .showing import demo, report
from .training import evaluate, list_, train
from .using import check, sample, score

app = SubcommandApp()
app.command(name="list")(list_)
for _command in (train, evaluate, sample, score, check, report, reproduce, demo):
    app.command(_command)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command, and say in one line what went wrong if something did.

    Args:
        argv: The command and its options; those of the process by default.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        print(f"fdsm {__version__}")
        return
    try:
        app.cli(
            prog="fdsm",
            description="Score matching by finite differences, autodiff and Taylor series. "
            "`fdsm --version` prints the version.",
            args=arguments,
        )
    except KeyboardInterrupt:
        note("fdsm: interrupted; what was written is whole")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read has left, as `head` does. Nothing may be printed to there when we end, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        sys.exit(_explained(error))


def _explained(error: Exception) -> int:
    """Print what went wrong, and return the exit code; what nobody expected is raised again."""
    from ..recipes.override import OverrideError
    from ..runs.reference import UnknownRecipeError, UntrustedRecipeError
    from ..runs.train import TrainingInterrupted
    from ..training import NonFiniteLossError

    if isinstance(error, TrainingInterrupted):
        note(f"fdsm: {error}")
        return 128 + error.signal
    usage = (UsageError, OverrideError, UnknownRecipeError, UntrustedRecipeError)
    failures = (ValueError, NonFiniteLossError, ImportError, OSError)
    if not isinstance(error, (*usage, *failures)) or "FDSM_TRACEBACK" in os.environ:
        raise error
    setting = getattr(error, "setting", None)
    note(f"fdsm: {error}" + (f" (--set data.{setting}=…)" if setting else ""))
    return 2 if isinstance(error, usage) else 1
