"""Printing: results to standard output, everything else to standard error."""

import json as jsonlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..runs import Run
    from ..samplers import Progress
    from ..serialize import Json

WIDTH = 200
"""Number of characters of a line without a terminal."""
MAX_WARNINGS = 4
"""Largest number of warnings about a model that are printed."""
INTERVAL = 30.0
"""Seconds between two lines of progress without a terminal."""


def console(*, stderr: bool = True) -> "Console":
    """Return a console. Without a terminal its lines have `WIDTH` characters."""
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH)


def progress(description: str) -> "Progress":
    """Return a wrapper of loops that shows their progress.

    A terminal shows a bar. Without a terminal, a line is printed now and every half minute of a
    loop.

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
    """Print a message that is not a result."""
    print(text, file=sys.stderr)


def report_files(files: Sequence[Path], *, json: bool, **facts: "Json") -> None:
    """Print which files were written, and facts about them."""
    if json:
        print_json({"files": [str(path) for path in files], **facts})
        return
    for name, value in facts.items():
        log(f"{name.replace('_', ' ')}: {value}")
    log(f"Wrote {', '.join(map(str, files))}")


def print_json(value: object) -> None:
    """Print a result as JSON."""
    print(jsonlib.dumps(value, indent=2))


def print_result(run: "Run", result: dict[str, Any], *, json: bool) -> None:
    """Print the metrics of a run and of its references, and warn if the model is bad.

    Args:
        run: The run.
        result: The content of its `result.json`.
        json: Whether to print JSON instead.
    """
    if json:
        print_json({"run": str(run.folder), **run.origin, **result})
        return

    from rich.table import Table

    from ..measurement import Measurement
    from ..report import metric_info

    compared = {one["metric"]: one["references"] for one in result.get("comparisons", ())}
    references = list(dict.fromkeys(name for one in compared.values() for name in one))
    table = Table("metric", "model", *references, box=None, header_style="bold")
    for name, value in result["metrics"].items():
        others = [compared.get(name, {}).get(reference) for reference in references]
        numbers = [str(Measurement(**one)) if one else "" for one in (value, *others)]
        table.add_row(metric_info(name).heading, *numbers)
    if table.rows:
        console(stderr=False).print(table)
    for name in result["metrics"]:
        log(f"{metric_info(name).title}: {metric_info(name).explanation}")
    problems = result["problems"]
    for problem in problems[:MAX_WARNINGS]:
        log(f"WARNING: {problem}")
    if len(problems) > MAX_WARNINGS:
        log(f"WARNING: {len(problems) - MAX_WARNINGS} more problems are in result.json.")
    if problems:
        log(
            "Consider this before you rely on the model. Train longer with --iterations, or try "
            "another --model or --objective."
        )
    files = ["result.json", *([result["samples"]] if "samples" in result else [])]
    log(f"Wrote {', '.join(str(run.folder / name) for name in files)}")


def warn_of_problems(run: "Run") -> None:
    """Repeat the warnings that were printed when a model was evaluated."""
    if (run.folder / "result.json").exists():
        for problem in run.result.get("problems", ())[:MAX_WARNINGS]:
            log(f"WARNING: {problem}")
