"""Commands of the reproduction in processes of their own; see tests/nightly/faults."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.nightly.faults import commands
from tests.nightly.faults.commands import Prepare, wait_until

__all__ = ["Command", "Prepare", "run", "wait_until"]

commands.PRELOADED += [
    "filelock", "pooch", "torch._dynamo", "paper.commands.app", "paper.recipes", "paper.report",
    "paper.report.plots", "paper.runs.distributed", "paper.runs.samples",
    "paper.tests.runs.run_cases",
]  # fmt: skip


class Command(commands.Command):
    """A command `python -m paper` that runs in a process of its own."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        log: Path,
        prepare: Prepare | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a command; see the base class."""
        super().__init__(arguments, log, prepare, environment, "paper.__main__")


def run(
    arguments: Sequence[str | Path], log: Path, prepare: Prepare | None = None
) -> tuple[int, str]:
    """Run a command to its end. Return its exit code and its output."""
    return commands.run(arguments, log, prepare, "paper.__main__")
