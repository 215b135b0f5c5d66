"""Conditions on columns, such as `weather=snow` or `wind>10`."""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from .errors import DataError
from .schema import Categorical, DateTime, TableSchema

PATTERN = re.compile(r"\s*(?P<name>.+?)\s*(?P<sign>>=|<=|==?|>|<)\s*(?P<value>.*?)\s*")


class Condition(NamedTuple):
    """A condition on a column.

    Attributes:
        name: Name of the column.
        sign: `=`, `>`, `>=`, `<` or `<=`.
        value: The value that cells are compared with.
    """

    name: str
    sign: str
    value: object

    def __str__(self) -> str:
        """Return the condition as it is written on the command line."""
        return f"{self.name}{self.sign}{self.value}"


@dataclass(frozen=True)
class Given:
    """Conditions that rows satisfy, in the codes of a table.

    Attributes:
        intervals: Smallest and largest code by column. Both are the code of a category.
        texts: The conditions of each column as text.

    Example:
        >>> frame = pa.table({"sky": ["sun", "rain", "sun"], "wind": [2.5, 10.0, 20.0]})
        >>> schema = TableSchema.infer(frame, categorical=["sky"])
        >>> given = Given.parse(schema, ["sky=sun", "wind>2.5"])
        >>> given.holds(torch.from_numpy(schema.encode(frame)[0]))
        tensor([False, False,  True])
    """

    intervals: dict[int, tuple[float, float]] = field(default_factory=dict)
    texts: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, schema: TableSchema, given: Mapping[str, object] | Sequence[str] | None
    ) -> "Given":
        """Return the conditions in the codes of a table.

        Args:
            schema: Types of the columns.
            given: Texts such as `"weather=snow"` or `"wind>10"`; or by column a value, or a pair
                of the smallest and the largest value, of which `None` is no limit.

        Returns:
            The conditions. If a column has several, all must hold.

        Raises:
            DataError: With all conditions that cannot be used.
        """
        result = cls()
        conditions, problems = _conditions(given or ())
        for condition in conditions:
            try:
                result._add(schema, condition)
            except DataError as error:
                problems.append(str(error))
        if problems:
            lines = "".join(f"\n- {problem}" for problem in problems)
            raise DataError(f"the conditions cannot be used:{lines}")
        return result

    def _add(self, schema: TableSchema, condition: Condition) -> None:
        """Add a condition. Raises `DataError` if it cannot be used."""
        name, sign, value = condition
        j = _column(schema, condition)
        column, code = schema.used[j], _code(schema, j, value)
        is_merged = isinstance(column, Categorical) and code == len(column.levels) - 1
        if isinstance(column, Categorical):
            if sign != "=":
                raise DataError(f"{condition}: {name!r} has categories. Use {name}=VALUE")
            if code is None or (column.merged and is_merged):
                levels = column.levels[:-1] if column.merged else column.levels
                shown = ", ".join(levels[:10]) + (", …" if len(levels) > 10 else "")
                raise DataError(f"{condition}: {name!r} has no such category, but {shown}")
        elif code is None:
            kind = "dates" if isinstance(column, DateTime) else "numbers"
            raise DataError(f"{condition}: {name!r} has {kind}, and {str(value)!r} is none")
        low, high = self.intervals.get(j, (-math.inf, math.inf))
        if sign != "<" and sign != "<=":
            low = max(low, float(np.nextafter(code, math.inf)) if sign == ">" else code)
        if sign != ">" and sign != ">=":
            high = min(high, float(np.nextafter(code, -math.inf)) if sign == "<" else code)
        self.intervals[j] = (low, high)
        self.texts.setdefault(j, []).append(str(condition))

    @property
    def columns(self) -> list[int]:
        """The columns with a condition."""
        return list(self.intervals)

    @property
    def fixed(self) -> list[int]:
        """The columns with only one possible value."""
        return [j for j, (low, high) in self.intervals.items() if low == high]

    def holds_in(self, codes: Tensor, column: int) -> Tensor:
        """Return whether the conditions of a column hold, shape `(N, C) -> (N,)`."""
        low, high = self.intervals[column]
        return (codes[:, column] >= low) & (codes[:, column] <= high)

    def holds(self, codes: Tensor) -> Tensor:
        """Return whether all conditions hold, shape `(N, C) -> (N,)`."""
        result = torch.ones(len(codes), dtype=torch.bool, device=codes.device)
        for column in self.columns:
            result &= self.holds_in(codes, column)
        return result

    def require_some(self, schema: TableSchema, codes: Tensor) -> None:
        """Check that some training row satisfies all conditions.

        Args:
            schema: Types of the columns.
            codes: Codes of the training rows, shape `(N, C)`.

        Raises:
            DataError: With the conditions to blame.
        """
        if bool(self.holds(codes).any()):
            return
        rows = f"the {len(codes):,} training rows that the model keeps"
        problems = []
        for j, texts in self.texts.items():
            if not bool(self.holds_in(codes, j).any()):
                problems.append(f"{' and '.join(texts)}: {_range(schema, codes, j)}")
        if problems:
            lines = "".join(f"\n- {problem}" for problem in problems)
            raise DataError(f"none of {rows} satisfies:{lines}")
        every = ", ".join(text for texts in self.texts.values() for text in texts)
        raise DataError(
            f"each of the conditions {every} holds in some of {rows}, but all of them in none. "
            "Use fewer conditions, or wider ones"
        )


def _conditions(
    given: Mapping[str, object] | Sequence[str],
) -> tuple[list[Condition], list[str]]:
    """Return the conditions, and what is wrong with texts that are none."""
    conditions, problems = list[Condition](), list[str]()
    if isinstance(given, Mapping):
        for name, value in given.items():
            ends = value if isinstance(value, tuple) else (value,)
            signs = (">=", "<=") if isinstance(value, tuple) else ("=",)
            for sign, end in zip(signs, ends, strict=True):
                if end is not None:
                    conditions.append(Condition(name, sign, end))
        return conditions, problems
    for text in [given] if isinstance(given, str) else given:
        if match := PATTERN.fullmatch(text):
            sign = match["sign"].replace("==", "=")
            conditions.append(Condition(match["name"], sign, match["value"]))
        else:
            problems.append(f"{text!r} is no condition. Write NAME=VALUE, or use >, >=, < or <=")
    return conditions, problems


def _column(schema: TableSchema, condition: Condition) -> int:
    """Return the index of the column of a condition."""
    names = [column.name for column in schema.used]
    if condition.name in names:
        return names.index(condition.name)
    if condition.name in schema.names:
        raise DataError(f"{condition}: the model does not use the column {condition.name!r}")
    close = difflib.get_close_matches(condition.name, names, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(names[:20])}"
    raise DataError(f"{condition}: the model has no column {condition.name!r}. {hint}")


def _code(schema: TableSchema, column: int, value: object) -> float | None:
    """Return the code of a value of a column, or `None` if it has none."""
    cells = {c.name: pa.nulls(1, pa.string()) for c in schema.columns}
    cells[schema.used[column].name] = pa.array([str(value)])
    codes, _ = schema.encode(pa.table(cells))
    return None if np.isnan(codes[0, column]) else float(codes[0, column])


def _range(schema: TableSchema, codes: Tensor, column: int) -> str:
    """Return the values of a column in words."""
    cells = codes[~codes[:, column].isnan()]
    order = cells[:, column].argsort()
    ends = schema.decode(cells[order[[0, -1]]].numpy()).column(schema.used[column].name)
    if isinstance(schema.used[column], Categorical):
        return "the category is too rare"
    low, high = ends.cast(pa.string()).to_pylist()
    return f"the values are between {low} and {high}"
