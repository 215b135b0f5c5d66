"""What a study draws: curves in panels, and graphs. Nothing here needs torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A curve of a panel.

    Attributes:
        name: What it shows.
        x: Where it was measured.
        y: What was measured there.
        error: The standard error of each `y`, where there is one.
        reference: Whether it is what theory or the paper says, not measured; drawn dashed.

    Raises:
        ValueError: If there are not as many of each.
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
