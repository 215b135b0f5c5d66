"""Where the numbers of a run go."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..atomic_io import replace_file
from ..serialize import Json

Log = Callable[[Mapping[str, Json]], None]
"""Something that takes a record: `"iteration"`, `"seconds"`, and numbers by name."""


class JsonLines:
    """A file with a JSON object per line.

    A line is written in one go, so that a killed process leaves at most one that is torn.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, iteration: int = 0) -> None:
        """Open a file, and drop what a run that is continued has written after its checkpoint.

        Args:
            path: The file, made if it is not there.
            iteration: Up to which iteration to keep records.
        """
        self.path = path
        kept = [json.dumps(r) + "\n" for r in records(path) if r["iteration"] <= iteration]
        with replace_file(path) as draft:
            draft.write_text("".join(kept), encoding="utf-8")

    def __call__(self, record: Mapping[str, Json]) -> None:
        """Append a record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def records(path: Path) -> list[dict[str, Any]]:
    """Return the whole records of a file of JSON lines; none if there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]  # what follows the last newline is torn


class TensorBoard:
    """The same numbers for TensorBoard.

    Attributes:
        writer: Torch's own writer of event files.
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder of event files.

        Args:
            folder: Where to write.

        Raises:
            ImportError: If tensorboard is not installed.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "logs for TensorBoard need tensorboard: pip install 'fdsm[tensorboard]'"
            ) from error
        self.writer = SummaryWriter(folder)

    def __call__(self, record: Mapping[str, Json]) -> None:
        """Write a record; nested names are joined by a slash."""
        for name, value in record.items():
            named = value.items() if isinstance(value, dict) else [("", value)]
            for inner, number in named:
                if name != "iteration" and isinstance(number, (int, float)):
                    tag = f"{name}/{inner}" if inner else name
                    self.writer.add_scalar(tag, number, record["iteration"])
        self.writer.flush()
