"""Commands in processes of their own, which can be killed.

The processes are forked from a server that has imported everything, so that one starts in
milliseconds. A fault is prepared in the new process before the command starts: a function of this
package that patches what it needs there.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

PRELOADED = [
    "pyarrow.csv", "pyarrow.feather", "pyarrow.parquet", "rich.progress", "rich.table",
    "sklearn.ensemble", "sklearn.mixture", "scipy.stats", "torch.fx.experimental.symbolic_shapes",
    "fdsm.cli.main", "fdsm.tables.model", "fdsm.tables.report.plots", "fdsm.training",
]  # fmt: skip
"""Modules that commands need."""

Prepare = Callable[..., None]
"""Prepares a fault in the new process. It takes the connection to the test."""


class Command:
    """A command that runs in a process of its own.

    Attributes:
        log: The file with the output of the process.
        process: The process.
        connection: Receives what the fault sends, for example that its moment has come.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        log: Path,
        prepare: Prepare | None = None,
        environment: Mapping[str, str] | None = None,
        program: str = "fdsm.cli",
    ) -> None:
        """Start a command.

        Args:
            arguments: The command and its options.
            log: The file for standard output and standard error.
            prepare: Prepares the fault. It must be picklable.
            environment: Variables to set.
            program: The module whose function `main` is called.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self.log = log
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_run,
            args=(
                program,
                [str(word) for word in arguments],
                log,
                prepare,
                other,
                environment or {},
            ),
        )
        self.process.start()
        other.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> bool:
        """Kill the process. Return whether it was still running."""
        self.process.kill()
        return self.wait() == -signal.SIGKILL

    def wait(self, seconds: float = 120) -> int:
        """Return the exit code of the process, or minus the signal that ended it."""
        self.process.join(seconds)
        code = self.process.exitcode
        assert code is not None, f"still running after {seconds} s:\n{self.output}"
        return code


def run(
    arguments: Sequence[str | Path],
    log: Path,
    prepare: Prepare | None = None,
    program: str = "fdsm.cli",
) -> tuple[int, str]:
    """Run a command to its end. Return its exit code and its output."""
    command = Command(arguments, log, prepare, program=program)
    return command.wait(), command.output


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something has happened in another process."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def _run(
    program: str,
    arguments: list[str],
    log: Path,
    prepare: Prepare | None,
    connection: Connection,
    environment: Mapping[str, str],
) -> None:
    import torch

    os.environ |= environment
    sys.argv[1:] = arguments  # which processes that train together compare
    torch.set_num_threads(1)
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(number, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run after `nohup`
    if prepare is not None:
        prepare(connection)
    import_module(program).main(arguments)
    sys.stdout.flush()
