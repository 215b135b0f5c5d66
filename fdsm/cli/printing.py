"""Where commands print: results to standard output, all else to standard error."""

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..samplers import Progress
    from ..serialize import Json

WIDE = 200
"""How many characters a line has where there is no terminal to ask."""


def console(*, stderr: bool = True) -> "Console":
    """Return where to print; what is no terminal, such as a file, is wide."""
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDE)


def progress(description: str) -> "Progress":
    """Return what shows how far a loop is, and leaves nothing behind."""
    from functools import partial

    from rich.progress import track

    return partial(track, description=description, console=console(), transient=True)


def note(text: str) -> None:
    """Say something that is no result."""
    print(text, file=sys.stderr)


def wrote(files: Sequence[Path], *, json: bool, **facts: "Json") -> None:
    """Say which files were written, and facts about them."""
    if json:
        print_json({"files": [str(path) for path in files], **facts})
        return
    for name, value in facts.items():
        note(f"{name.replace('_', ' ')}: {value}")
    for path in files:
        note(f"wrote {path}")


def print_json(value: object) -> None:
    """Print a result as JSON."""
    print(jsonlib.dumps(value, indent=2))
