"""Printing: results to standard output, everything else to standard error."""

import json as jsonlib
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..untrusted import printable

__all__ = [
    "console",
    "log",
    "print_json",
    "print_problems",
    "progress",
    "repeat_problems",
    "report_files",
    "show",
    "show_wrapped",
]

if TYPE_CHECKING:
    from rich.console import Console

    from ..samplers import Progress
    from ..serialize import Json

WIDTH = 200
"""Number of characters of a line without a terminal."""
MAX_WARNINGS = 4
"""Largest number of warnings about a model that are printed."""
INTERVAL = 5.0
"""Seconds between two lines of progress without a terminal."""


def console(*, stderr: bool = True) -> "Console":
    """Return a console that prints names as they are, without markup such as `[bold]`.

    Without a terminal its lines have `WIDTH` characters.
    """
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(stderr=stderr, width=WIDTH, markup=False, emoji=False)


def progress(description: str) -> "Progress":
    """Return a wrapper of loops that shows their progress.

    A terminal shows a bar. Without a terminal, a line is printed now and every five seconds of
    a loop.

    Args:
        description: The name of the loop.

    Returns:
        The wrapper.
    """
    terminal = console()
    if not terminal.is_terminal:
        log(f"{description} ...")
        return lambda steps: _print_progress(steps, description)

    from functools import partial

    from rich.progress import track

    return partial(track, description=description, console=terminal, transient=True)


def _print_progress(steps: Iterable[int], description: str) -> Iterator[int]:
    total = len(steps) if isinstance(steps, (range, Sequence)) else None
    printed = time.monotonic()
    for count, step in enumerate(steps):
        yield step
        if time.monotonic() - printed > INTERVAL:
            printed = time.monotonic()
            log(f"{description}: {count + 1:,}" + (f" of {total:,} steps" if total else " steps"))


def log(text: str) -> None:
    """Print a message that is not a result. It is lost if the terminal was closed."""
    with suppress(OSError):
        print(_neutral(text), file=sys.stderr)


def show(text: str) -> None:
    """Print a result. Names in it cannot control the terminal."""
    print(_neutral(text))


def show_wrapped(text: str, indent: str = "") -> None:
    """Print a result in lines as wide as the terminal."""
    width = console(stderr=False).width
    wrapper = textwrap.TextWrapper(width, indent, f"{indent}  ", break_on_hyphens=False)
    wrapper.break_long_words = False
    show(wrapper.fill(text))


def print_problems(problems: Sequence[str]) -> None:
    """Print the clear faults of the samples of a model."""
    for problem in problems[:MAX_WARNINGS]:
        log(f"WARNING: {problem}")
    if len(problems) > MAX_WARNINGS:
        log(f"WARNING: {len(problems) - MAX_WARNINGS} more problems are in summary.json.")


def repeat_problems(model: Path) -> None:
    """Print the clear faults of the model in a folder, which `fdsm train` has found."""
    from ..tables.summary import read_summary

    if (model / "summary.json").exists():
        print_problems(read_summary(model / "summary.json").problems)


def _neutral(text: str) -> str:
    """Return lines in which characters that control a terminal are replaced."""
    return "\n".join(map(printable, text.split("\n")))


def report_files(files: Sequence[Path], *, json: bool, **facts: "Json") -> None:
    """Print which files were written. JSON holds facts about them too."""
    if json:
        print_json({"files": [str(path) for path in files], **facts})
    else:
        log(f"Wrote {', '.join(map(str, files))}")


def print_json(value: object) -> None:
    """Print a result as JSON."""
    print(jsonlib.dumps(value, indent=2))
