"""What a study is: a figure or a theorem of the paper, measured without a table of recipes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..evaluation import Measurement
from ..samplers import Progress
from .place import Place


@dataclass(frozen=True)
class Line:
    """A curve of a panel.

    Attributes:
        name: What it shows.
        x: Where it was measured.
        y: What was measured there.
        error: The standard error of each `y`, where there is one.
        reference: Whether it is what theory says rather than what was measured; drawn dashed.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    reference: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.error and len(self.error) != len(self.y)):
            counts = f"{len(self.x)} x, {len(self.y)} y and {len(self.error)} errors"
            raise ValueError(f"the line {self.name!r} has {counts}: there must be as many of each")


@dataclass(frozen=True)
class Panel:
    """Curves with common axes.

    Attributes:
        title: What it shows.
        x_label: What is on the horizontal axis, with its unit.
        y_label: What is on the vertical one.
        lines: The curves.
        x_log: Whether the horizontal axis is logarithmic.
        y_log: Whether the vertical one is.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True)
class Graph:
    """A directed graph to draw, such as that of a computation.

    Attributes:
        name: What it is.
        nodes: The name of each node.
        edges: Pairs of positions in `nodes`, from and to.
    """

    name: str
    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Findings:
    """What a study found: enough to draw and to tabulate, without a model.

    Attributes:
        numbers: What is said in a sentence or a table, by name.
        panels: What is drawn.
        graphs: Graphs that are drawn.
    """

    numbers: Mapping[str, Measurement] = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()
    graphs: tuple[Graph, ...] = ()


class Study(Protocol):
    """Settings that decide some findings; a frozen dataclass.

    A module of this package that has a `STUDY`, for minutes on two cores, and a `PAPER`, at the
    scale of the paper, can be reproduced by its name.

    Attributes:
        title: What it shows, in a line.
        source: Where in the paper it is, and what was chosen where that leaves it open.
    """

    title: str
    source: str

    def measure(self, place: Place, seed: int, progress: Progress) -> Findings:
        """Return what is found.

        Args:
            place: Where trained models are kept, for studies of such.
            seed: Decides everything random.
            progress: Watches a loop.
        """
        ...
