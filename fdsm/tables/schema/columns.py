"""The types of the columns of a table."""

from dataclasses import dataclass
from typing import Literal

Resolution = Literal["day", "hour", "minute", "second"]
"""A unit of time of which all dates of a column are multiples."""


@dataclass(frozen=True)
class Numeric:
    """A column of numbers, durations or times of day.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data, such as `"int64"`.
        integer: Whether all values are integers.
        levels: The sorted distinct values if they are few. Samples are rounded to them.
        missing: Number of missing cells in the training data, including unreadable ones.
        unreadable: Number of cells that are not numbers.
        decimals: Number of decimals of the values, if at most 9. Samples are rounded to them.
        prefix: Text before each number, such as `"$"`. Samples have it too.
        suffix: Text after each number, such as `" kg"`.
    """

    name: str
    type: str = "double"
    integer: bool = False
    levels: tuple[float, ...] | None = None
    missing: int = 0
    unreadable: int = 0
    decimals: int | None = None
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True)
class Categorical:
    """A column of categories: text, booleans, or numbers if the user says so.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data.
        levels: The categories as text, from the most to the least frequent one.
        boolean: Whether the categories are false and true, in any spelling such as `"True"`.
        merged: Number of rare categories that are merged into the last level. 0 if there is no
            such level.
        missing: Number of missing cells in the training data.
    """

    name: str
    type: str
    levels: tuple[str, ...]
    boolean: bool = False
    merged: int = 0
    missing: int = 0


@dataclass(frozen=True)
class DateTime:
    """A column of dates or times, as seconds since 1970-01-01.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data. Text for dates that pyarrow's readers
            do not recognize, or integers such as 20240229.
        format: Format of the text or integers, as for `datetime.strptime`.
        timezone: Time zone of a timestamp type.
        missing: Number of missing cells in the training data, including unreadable ones.
        unreadable: Number of cells that are not dates.
        resolution: The longest unit of which all values are multiples. Samples are rounded to it.
        written: Format of timestamps in a text file, as for `strftime`.
    """

    name: str
    type: str
    format: str | None = None
    timezone: str | None = None
    missing: int = 0
    unreadable: int = 0
    resolution: Resolution | None = None
    written: str | None = None


@dataclass(frozen=True)
class Constant:
    """A column with a single value. It is reproduced in samples, and other values are reported.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data.
        value: The value as text.
        missing: Number of missing cells in the training data.
        rows: Number of rows of the training data. Samples have gaps as often.
    """

    name: str
    type: str
    value: str
    missing: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Identifier:
    """A column that identifies rows. The model does not see it.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data.
        reason: Why the column is an identifier.
    """

    name: str
    type: str
    reason: Literal["unique per row", "running number"]


@dataclass(frozen=True)
class Ignored:
    """A column that the model does not see.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data.
        reason: Why it is ignored, such as `"text, 812 different values in 900 rows"`.
        missing: Number of missing cells in the training data.
    """

    name: str
    type: str
    reason: str = "by request"
    missing: int = 0


@dataclass(frozen=True)
class Empty:
    """A column whose cells are all missing. The model does not see it.

    Attributes:
        name: Name of the column.
        type: Arrow type of the column in the training data.
        missing: Number of rows of the training data.
    """

    name: str
    type: str
    missing: int = 0


Column = Numeric | Categorical | DateTime | Constant | Identifier | Ignored | Empty
"""A column of any type."""

UsedColumn = Numeric | Categorical | DateTime
"""A column that the model sees."""

Problems = dict[int, list[tuple[str, str]]]
"""For each row with problems: the name of the column and the problem of each bad cell."""
