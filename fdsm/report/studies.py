"""What a study left behind: numbers, curves and graphs, read from its `study.json`."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..serialize import Json
from .figure import Graph, Line, Panel
from .json_values import Measured, flat, measured, real, text
from .labels import TARGETS

UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading a file that others wrote may raise."""


@dataclass(frozen=True)
class Study:
    """What one study left behind.

    Attributes:
        folder: Its folder, from the one that was asked for on.
        target: What it is a study of, such as `figure2`.
        record: `study.json` as it is.
        numbers: Its numbers by name.
        panels: What is drawn.
        graphs: Graphs that are drawn.
    """

    folder: str
    target: str
    record: Mapping[str, Any]
    numbers: Mapping[str, Measured] = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()
    graphs: tuple[Graph, ...] = ()

    @property
    def name(self) -> str:
        """What to call it."""
        title = TARGETS.get(self.target) or self.said("title") or self.target
        return " · ".join(filter(None, (title, self.said("scale"))))

    @property
    def shows(self) -> str:
        """What it shows, without the number that its name has."""
        number, colon, _ = TARGETS.get(self.target, "").partition(": ")
        title = self.said("title").removeprefix(number + colon)
        return title[:1].upper() + title[1:]

    @property
    def seconds(self) -> float:
        """How long it took; NaN if it is not known."""
        return real(self.record.get("seconds"))

    @property
    def settings(self) -> Mapping[str, Json]:
        """What was configured, by path."""
        return {path: leaf for path, leaf in flat(self.record.get("settings")).items() if path}

    @property
    def versions(self) -> str:
        """The versions of what it ran on."""
        versions = self.record.get("versions")
        return ", ".join(f"{k} {text(v)}" for k, v in flat(versions).items()) if versions else ""

    def said(self, name: str) -> str:
        """Return an entry of `study.json` as text, empty if it is not there."""
        value = self.record.get(name)
        return "" if value is None else text(value)


def read_study(folder: Path, name: str, note: Callable[[str], None]) -> Study | None:
    """Read the `study.json` of a folder.

    Args:
        folder: The folder.
        name: What to call it.
        note: Told of all that cannot be read, which is left out.

    Returns:
        The study, or none if there is nothing to be read.
    """
    try:
        record = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        findings = record["findings"]
        numbers = measured(findings.get("numbers"))
        flat(record)  # what is nested too deeply is refused here, not in the middle of the page
    except UNREADABLE as error:
        note(f"{name}/study.json cannot be read, so this study is left out: {error!r}")
        return None

    def readable(key: str, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        whole = []
        listed = findings.get(key)
        for place, one in enumerate(listed if isinstance(listed, list) else ()):
            try:
                whole.append(read(one))
            except UNREADABLE as error:
                note(f"{name}/study.json: {key}[{place}] is left out: {error!r}")
        return tuple(whole)

    target = text(record.get("study") or folder.resolve().name)
    panels, graphs = readable("panels", _panel), readable("graphs", _graph)
    return Study(name, target, record, numbers, panels, graphs)


def _panel(value: Mapping[str, Any]) -> Panel:
    return Panel(
        text(value["title"]),
        text(value["x_label"]),
        text(value["y_label"]),
        tuple(_line(one) for one in value["lines"]),
        value.get("x_log") is True,
        value.get("y_log") is True,
    )


def _line(value: Mapping[str, Any]) -> Line:
    x, y, error = (tuple(map(_drawable, value.get(key) or ())) for key in ("x", "y", "error"))
    return Line(text(value["name"]), x, y, error, value.get("reference") is True)


def _drawable(value: Json) -> float:
    """Return a number that an axis can hold, NaN if it is none."""
    number = real(value)
    return number if abs(number) < 1e100 else math.nan


def _graph(value: Mapping[str, Any]) -> Graph:
    nodes = tuple(map(text, value["nodes"]))
    edges = tuple((int(start), int(end)) for start, end in value["edges"])
    if any(not (0 <= place < len(nodes)) for edge in edges for place in edge):
        raise ValueError(f"an edge ends outside the {len(nodes)} nodes")
    return Graph(text(value["name"]), nodes, edges)
