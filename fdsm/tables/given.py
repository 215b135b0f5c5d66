"""Conditions on columns, such as `weather=snow` or `wind>10`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from .errors import DataError
from .schema import Categorical, TableSchema

CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<sign>>=|<=|=|>|<)\s*(?P<value>.*?)\s*")
Interval = tuple[object, object]


@dataclass(frozen=True)
class Given:
    """Conditions that rows satisfy.

    Attributes:
        levels: Allowed codes of categorical columns, by column.
        intervals: Smallest and largest code of the other columns, by column.

    Example:
        >>> frame = pa.table({"sky": ["sun", "rain", "sun"], "wind": [2.5, 12.0, 20.0]})
        >>> schema = TableSchema.infer(frame, categorical=["sky"])
        >>> given = Given.parse(schema, {"sky": "sun", "wind": (10, None)})
        >>> given.holds(torch.from_numpy(schema.encode(frame)[0]))
        tensor([False, False,  True])
    """

    levels: dict[int, float]
    intervals: dict[int, tuple[float, float]]

    @classmethod
    def parse(cls, schema: TableSchema, given: Mapping[str, object]) -> "Given":
        """Return the conditions in the codes of a table.

        Args:
            schema: Types of the columns.
            given: A value for each column, or a pair of the smallest and the largest one, of which
                `None` is no limit.

        Returns:
            The conditions.

        Raises:
            DataError: With all conditions that cannot be used.
        """
        columns = {column.name: j for j, column in enumerate(schema.used)}
        levels: dict[int, float] = {}
        intervals: dict[int, tuple[float, float]] = {}
        problems = []
        for name, value in given.items():
            if name not in columns:
                problems.append(f"the model has no column {name!r}")
                continue
            j = columns[name]
            column = schema.used[j]
            is_interval = isinstance(value, tuple)
            low, high = value if isinstance(value, tuple) else (value, value)
            codes = [_code(schema, j, end) for end in (low, high)]
            if isinstance(column, Categorical):
                if is_interval:
                    problems.append(f"column {name!r} has categories. Use {name}=VALUE")
                elif codes[0] is None or (column.merged and codes[0] == len(column.levels) - 1):
                    shown = ", ".join(column.levels[:10]) + (
                        ", …" if len(column.levels) > 10 else ""
                    )
                    problems.append(f"{value!r} is no category of {name!r}. It has {shown}")
                else:
                    levels[j] = codes[0]
            elif any(
                end is not None and code is None
                for end, code in zip((low, high), codes, strict=True)
            ):
                problems.append(f"{value!r} cannot be compared with the cells of {name!r}")
            else:
                ends = (
                    -np.inf if codes[0] is None else codes[0],
                    np.inf if codes[1] is None else codes[1],
                )
                intervals[j] = ends
        if problems:
            raise DataError(
                "the conditions cannot be used:" + "".join(f"\n- {p}" for p in problems)
            )
        return cls(levels, intervals)

    @property
    def columns(self) -> list[int]:
        """The columns with a condition."""
        return [*self.levels, *self.intervals]

    def holds_in(self, codes: Tensor, column: int) -> Tensor:
        """Return whether the condition of a column holds, shape `(N, C) -> (N,)`."""
        cells = codes[:, column]
        if column in self.levels:
            return cells == self.levels[column]
        low, high = self.intervals[column]
        return (cells >= low) & (cells <= high)

    def holds(self, codes: Tensor) -> Tensor:
        """Return whether all conditions hold, shape `(N, C) -> (N,)`."""
        result = torch.ones(len(codes), dtype=torch.bool, device=codes.device)
        for column in self.columns:
            result &= self.holds_in(codes, column)
        return result


def _code(schema: TableSchema, column: int, value: object) -> float | None:
    """Return the code of a value of a column, or `None` if it has none."""
    if value is None:
        return None
    cells = {c.name: pa.nulls(1, pa.string()) for c in schema.columns}
    cells[schema.used[column].name] = pa.array([str(value)])
    codes, _ = schema.encode(pa.table(cells))
    return None if np.isnan(codes[0, column]) else float(codes[0, column])


def parse_conditions(texts: list[str]) -> dict[str, object]:
    """Return the conditions of `--given` by column.

    Args:
        texts: Conditions such as `weather=snow`, `wind>10` or `wind<=20`.

    Returns:
        A value for each column, or a pair of limits.

    Raises:
        DataError: If a text is no condition, or a column has two that contradict each other.

    Example:
        >>> parse_conditions(["weather=snow", "wind>10", "wind<=20"])
        {'weather': 'snow', 'wind': ('10', '20')}
    """
    given: dict[str, object] = {}
    for text in texts:
        match = CONDITION.fullmatch(text)
        if match is None:
            raise DataError(
                f"{text!r} is no condition. Write NAME=VALUE, NAME>VALUE or NAME<VALUE"
            )
        name, sign, value = match["name"], match["sign"], match["value"]
        before = given.get(name)
        if sign == "=":
            if name in given:
                raise DataError(f"column {name!r} has two conditions")
            given[name] = value
            continue
        low, high = before if isinstance(before, tuple) else (None, None)
        if isinstance(before, str) or (low if sign[0] == ">" else high) is not None:
            raise DataError(f"column {name!r} has two conditions")
        given[name] = (value, high) if sign[0] == ">" else (low, value)
    return given
