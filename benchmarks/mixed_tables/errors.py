"""Errors that a person would recognize, and how to plant them in rows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

Row = dict[str, Any]
"""The cells of a row by column name. None is a missing cell."""

Condition = Callable[[Row], bool]


@dataclass(frozen=True)
class Error:
    """A kind of error in certain columns.

    Attributes:
        kind: What the results call it.
        columns: The changed columns. A reason that names one of them is right.
        change: Returns the wrong cells of a row.
        where: The rows in which the error is recognizable.
        rivals: Unchanged columns that a reason may name too, because nobody can tell from the
            row which of the cells that contradict each other is wrong.
    """

    kind: str
    columns: tuple[str, ...]
    change: Callable[[Row], Row]
    where: Condition
    rivals: tuple[str, ...] = ()

    def applies(self, row: Row) -> bool:
        """Whether the cells exist, the error is recognizable and it changes the row."""
        present = all(row[name] is not None for name in self.columns)
        return present and self.where(row) and row | self.change(row) != row


def always(row: Row) -> bool:
    """Return True."""
    return True


def wrong_unit(column: str, convert: Callable[[float], float], where: Condition = always) -> Error:
    """A value in another unit."""
    return Error("wrong unit", (column,), lambda row: {column: convert(row[column])}, where)


def swapped(first: str, second: str, where: Condition = always) -> Error:
    """The values of two columns exchanged."""
    change = lambda row: {first: row[second], second: row[first]}
    return Error("swapped columns", (first, second), change, where)


def wrong_category(column: str, value: str, where: Condition) -> Error:
    """A category that contradicts the rest of the row."""
    return Error("wrong category", (column,), lambda row: {column: value}, where)


def contradiction(
    kind: str,
    column: str,
    value: Callable[[Row], object],
    where: Condition = always,
    rivals: tuple[str, ...] = (),
) -> Error:
    """A value that exists elsewhere in the table and contradicts the rest of its row."""
    return Error(kind, (column,), lambda row: {column: value(row)}, where, rivals)


def wrong_date(column: str, years: int) -> Error:
    """A date that is wrong by some years."""
    change = lambda row: {column: shift_years(row[column], years)}
    return Error("impossible date", (column,), change, always)


def repeated_digit(column: str, where: Condition = always) -> Error:
    """A number whose first digit was typed twice."""
    change = lambda row: {column: repeat_first_digit(row[column])}
    return Error("digit typed twice", (column,), change, where)


def shift_years(day: date, years: int) -> date:
    """Return the same day of another year, with February 29 as February 28."""
    leap_day = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year + years, day=28 if leap_day else day.day)


def repeat_first_digit(value: float) -> float:
    """Return a number whose first digit other than zero is typed twice: 4.7 becomes 44.7."""
    return type(value)(re.sub(r"([1-9])", r"\1\1", str(value), count=1))


def plant(
    rows: Sequence[Row], errors: Sequence[Error], count: int, seed: int
) -> tuple[list[Row], dict[int, Error]]:
    """Plant errors in rows, as many of each kind as of the others, at most one per row.

    Args:
        rows: The rows.
        errors: The errors, used one after the other.
        count: The number of rows with an error.
        seed: Random seed.

    Returns:
        The rows, and the planted error of each changed row by its index.

    Raises:
        ValueError: If there are too few rows in which an error is recognizable.
    """
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    planted: dict[int, Error] = {}
    for number in range(count):
        error = errors[number % len(errors)]
        free = (i for i in order if i not in planted and error.applies(rows[i]))
        index = next(free, None)
        if index is None:
            raise ValueError(f"no row is left for the error {error.kind!r} in {error.columns}")
        planted[index] = error
    changed = [
        row | planted[index].change(row) if index in planted else row
        for index, row in enumerate(rows)
    ]
    return changed, planted
