"""Curves and panels of a study, which the report plots. This module does not need torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A curve of a panel.

    Attributes:
        name: Name in the legend.
        x: Positions.
        y: Values at these positions.
        error: Standard error of each value. Empty if there are none.
        reference: Whether the curve is a theoretical or published reference. References are
            dashed.

    Raises:
        ValueError: If the lengths differ.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    reference: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.error and len(self.error) != len(self.y)):
            counts = f"{len(self.x)} x, {len(self.y)} y and {len(self.error)} errors"
            raise ValueError(f"the line {self.name!r} has {counts}: the lengths must be equal")


@dataclass(frozen=True)
class Panel:
    """Curves with common axes.

    Attributes:
        title: Title of the panel.
        x_label: Label of the horizontal axis, with its unit.
        y_label: Label of the vertical axis.
        lines: The curves.
        x_log: Whether the horizontal axis is logarithmic.
        y_log: Whether the vertical axis is logarithmic.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_log: bool = False
    y_log: bool = False
