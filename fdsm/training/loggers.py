"""Loggers of training metrics."""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..atomic_io import errors_name, replace_file
from ..extras import name_missing_extra
from ..serialize import Json
from ..untrusted import read_file

__all__ = ["JsonLines", "Log", "TensorBoard", "read_metrics"]

Log = Callable[[Mapping[str, Json]], None]
"""A logger. It takes a record with `"iteration"`, `"seconds"` and metrics by name."""


class JsonLines:
    """A file with one JSON object per line.

    Each line is written at once, so a killed process leaves at most one incomplete line. Damaged
    lines are left out with a warning.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, iteration: int = 0) -> None:
        """Open a file and delete the records after a checkpoint, and damaged lines.

        Args:
            path: The file. It is created if it does not exist.
            iteration: Iteration of the checkpoint. Later records are deleted.
        """
        self.path = path
        if iteration > 0 and not path.exists():
            warnings.warn(
                f"{path} is missing. Records up to iteration {iteration:,} are lost", stacklevel=2
            )
        kept = [json.dumps(r) + "\n" for r in read_metrics(path) if r["iteration"] <= iteration]
        with replace_file(path) as draft:
            draft.write_text("".join(kept), encoding="utf-8")

    def __call__(self, record: Mapping[str, Json]) -> None:
        """Append a record."""
        line = f"{json.dumps(record)}\n".encode()
        with errors_name(self.path), open(self.path, "ab") as file:
            file.write(line)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the complete records of a file; an empty list if the file does not exist.

    Damaged lines are left out, and a warning names them.
    """
    if not path.exists():
        return []
    lines = read_file(path).split(b"\n")[:-1]  # the last line may be incomplete
    parsed = [_parse(line) for line in lines]
    bad = [str(number) for number, record in enumerate(parsed, 1) if record is None]
    if bad:
        more = ", ..." if len(bad) > 5 else ""
        warnings.warn(
            f"{path} is damaged in line {', '.join(bad[:5])}{more}. These lines are left out",
            stacklevel=2,
        )
    return [record for record in parsed if record is not None]


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return a record, or `None` if the line is not an object with an iteration."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_metrics = isinstance(record, dict) and isinstance(record.get("iteration"), int)
    return record if is_metrics else None


class TensorBoard:
    """Event files for TensorBoard.

    Attributes:
        writer: The `SummaryWriter` of torch.
    """

    def __init__(self, folder: Path) -> None:
        """Create the writer.

        Args:
            folder: Folder of the event files.

        Raises:
            ImportError: If tensorboard is not installed.
        """
        with name_missing_extra("a log for TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self.writer = SummaryWriter(folder)

    def __call__(self, record: Mapping[str, Json]) -> None:
        """Write a record. Nested names are joined with a slash."""
        for name, value in record.items():
            named = value.items() if isinstance(value, dict) else [("", value)]
            for inner, number in named:
                if name != "iteration" and isinstance(number, (int, float)):
                    tag = f"{name}/{inner}" if inner else name
                    self.writer.add_scalar(tag, number, record["iteration"])
        self.writer.flush()
