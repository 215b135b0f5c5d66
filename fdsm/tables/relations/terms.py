"""Functions of one cell that appear in relations: the cell, parts of a date, times of day."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

Calendar = Literal[
    "year", "quarter", "month", "day", "weekday", "day of the week", "hour", "minute"
]
"""A part of a date. Weekdays count from Monday = 0, days of the week from Sunday = 0."""
DAY = 86_400
MINUTES = 1440
"""Number of minutes of a day."""


@dataclass(frozen=True)
class Term(ABC):
    """A function of one cell of a row.

    Attributes:
        column: Index of the column.
    """

    verb: ClassVar[str] = "="
    """The word between a target and the term: `=` or `is`."""
    column: int

    def __post_init__(self) -> None:
        if self.column < 0:
            raise ValueError(f"the index of a column must be at least 0, got {self.column}")

    @abstractmethod
    def values(self, codes: Tensor) -> Tensor:
        """Return the value of the term in each row, `(N, C) -> (N,)`. NaN if unknown."""

    @abstractmethod
    def invert(self, codes: Tensor, values: Tensor) -> Tensor | None:
        """Return cells that have given values of the term, shape `(N,)`, or `None`.

        The rest of the cell, such as the minute if the term is the hour, stays as it is.
        """

    def describe(self, names: Sequence[str]) -> str:
        """Return the term as text."""
        return names[self.column]


@dataclass(frozen=True)
class Cell(Term):
    """The cell itself.

    Attributes:
        merged: Code of the level that stands for several rare categories, which is unknown here.

    Example:
        >>> Cell(1, merged=3).values(torch.tensor([[0.5, 2.0], [0.5, 3.0]]))
        tensor([2., nan])
    """

    merged: int = -1

    def values(self, codes: Tensor) -> Tensor:
        """See `Term.values`."""
        return self.without_merged(codes[:, self.column])

    def without_merged(self, cells: Tensor) -> Tensor:
        """Return cells of the column with NaN in place of rare categories."""
        return cells if self.merged < 0 else cells.where(cells != self.merged, torch.nan)

    def invert(self, codes: Tensor, values: Tensor) -> Tensor:
        """See `Term.invert`."""
        return values


@dataclass(frozen=True)
class DatePart(Term):
    """A part of a date in a time zone, such as the month.

    Attributes:
        part: The part.
        zone: Time zone in which the part is taken, such as `"+01:00"` or `"Europe/Berlin"`.
        note: What a description adds, such as `" (time zone +01:00)"`.

    Example:
        >>> seconds = torch.tensor([[1709251199.0]], dtype=torch.float64)  # 2024-02-29 23:59:59
        >>> [float(DatePart(0, part).values(seconds)) for part in ("month", "day", "weekday")]
        [2.0, 29.0, 3.0]
        >>> DatePart(0, "day", "+01:00").values(seconds)
        tensor([1.], dtype=torch.float64)
    """

    verb: ClassVar[str] = "is"
    part: Calendar
    zone: str = "UTC"
    note: str = ""

    def values(self, codes: Tensor) -> Tensor:
        """See `Term.values`."""
        cells = codes[:, self.column]
        present = cells.isfinite()
        seconds = local_seconds(cells.where(present, 0.0), self.zone)
        return calendar_part(seconds, self.part).to(cells).where(present, torch.nan)

    def invert(self, codes: Tensor, values: Tensor) -> Tensor | None:
        """See `Term.invert`."""
        size = {"hour": 3600, "minute": 60}.get(self.part)
        return (
            None if size is None else codes[:, self.column] + size * (values - self.values(codes))
        )

    def describe(self, names: Sequence[str]) -> str:
        """See `Term.describe`."""
        return f"the {self.part} of {names[self.column]}{self.note}"


@dataclass(frozen=True)
class TimeOfDay(Term):
    """A time that is written as an integer HHMM, such as 1435, as minutes since midnight.

    Example:
        >>> times = torch.tensor([[1435.0], [2400.0], [1061.0]])
        >>> TimeOfDay(0).values(times)  # there is no 10:61
        tensor([ 875., 1440.,   nan])
    """

    def values(self, codes: Tensor) -> Tensor:
        """See `Term.values`."""
        cells = codes[:, self.column]
        is_time = (cells % 100 < 60) & (cells >= 0) & (cells <= 2400)
        return (cells // 100 * 60 + cells % 100).where(is_time, torch.nan)

    def invert(self, codes: Tensor, values: Tensor) -> Tensor:
        """See `Term.invert`."""
        minutes = values % MINUTES
        return minutes // 60 * 100 + minutes % 60


@dataclass(frozen=True)
class TimePart(Term):
    """The hour or the minute of a time that is written as an integer HHMM.

    Attributes:
        part: The part.

    Example:
        >>> TimePart(0, "hour").values(torch.tensor([[1435.0]]))
        tensor([14.])
    """

    verb: ClassVar[str] = "is"
    part: Literal["hour", "minute"]

    def values(self, codes: Tensor) -> Tensor:
        """See `Term.values`."""
        cells = codes[:, self.column]
        return cells // 100 if self.part == "hour" else cells % 100

    def invert(self, codes: Tensor, values: Tensor) -> Tensor:
        """See `Term.invert`."""
        size = 100 if self.part == "hour" else 1
        return codes[:, self.column] + size * (values - self.values(codes))

    def describe(self, names: Sequence[str]) -> str:
        """See `Term.describe`."""
        return f"the {self.part} of {names[self.column]}"


def local_seconds(seconds: Tensor, zone: str) -> Tensor:
    """Return the seconds since 1970 that a clock of a time zone shows, shape `(N,)`.

    Raises:
        ValueError: If the time zone is unknown.
    """
    if zone == "UTC":
        return seconds
    whole = seconds.floor()
    ticks = pa.array(whole.cpu().numpy().astype(np.int64)).cast(pa.timestamp("s", tz=zone))
    local = np.array(pc.local_timestamp(ticks).cast(pa.int64()))
    return torch.from_numpy(local).to(seconds) + (seconds - whole)


def calendar_part(seconds: Tensor, part: Calendar) -> Tensor:
    """Return a part of dates without gaps, shape `(N,) -> (N,)`."""
    days = seconds.div(DAY).floor()
    match part:
        case "hour":
            return seconds.div(3600).floor() % 24
        case "minute":
            return seconds.div(60).floor() % 60
        case "weekday":  # 1970-01-01 was a Thursday
            return (days + 3) % 7
        case "day of the week":
            return (days + 4) % 7
    dates = days.cpu().numpy().astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    since_1970 = months.astype(np.int64)
    numbers = {
        "day": (dates - months).astype(np.int64) + 1,
        "year": since_1970 // 12 + 1970,
        "quarter": since_1970 % 12 // 3 + 1,
        "month": since_1970 % 12 + 1,
    }
    return torch.from_numpy(numbers[part]).to(seconds)
