"""A table of numbers, with all problems of the cells that could not be read."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import DataError
from ..split import index_splits, train_val_test_split

MIN_ROWS = 10
"""Smallest number of rows that can be split into training, validation and test."""

MAX_LINES = 10
"""Largest number of problems in an error."""


class Problem(Enum):
    """A reason why cells or rows cannot be used, as text in the singular and in the plural."""

    EMPTY = "is empty", "are empty"
    NOT_A_NUMBER = "is not a number", "are not numbers"
    THOUSANDS = "has a thousands separator", "have thousands separators"
    DECIMAL_COMMA = (
        "has a decimal comma, although cells are separated by commas or other numbers have a "
        "decimal point",
        "have a decimal comma, although cells are separated by commas or other numbers have a "
        "decimal point",
    )
    UNIT = "has a unit or symbol", "have a unit or symbol"
    NOT_FINITE = "is not a finite float32 number", "are not finite float32 numbers"
    WRONG_LENGTH = "has a wrong number of cells", "have a wrong number of cells"


class BadCell(NamedTuple):
    """A cell or row that cannot be used.

    Attributes:
        row: Index of the row, from 0.
        column: Name of the column, or `None` for the whole row.
        problem: Why it cannot be used.
        text: Text of the cell, or the numbers of cells of the row.
    """

    row: int
    column: str | None
    problem: Problem
    text: str

    def __str__(self) -> str:
        if self.column is None:
            return f"{self.problem.value[0]} ({self.text})"
        return f"column {self.column!r}: {self.text!r} {self.problem.value[0]}"


@dataclass(frozen=True)
class NumericTable:
    """A table of numbers.

    Attributes:
        columns: Names of the columns: `"0"`, `"1"`, … if the file has none.
        values: Numbers, shape `(N, D)`, float64. NaN in each bad cell.
        bad_cells: Cells and rows that could not be read.
        problems: Problems of whole columns, such as missing columns.
    """

    columns: tuple[str, ...]
    values: npt.NDArray[np.float64]
    bad_cells: tuple[BadCell, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        columns: Sequence[str],
        values: npt.NDArray[np.float64],
        bad_cells: Sequence[BadCell] = (),
        problems: Sequence[str] = (),
    ) -> Self:
        """Return a table in which numbers that float32 cannot hold are bad cells.

        Args:
            columns: Names of the columns.
            values: Numbers, shape `(N, D)`.
            bad_cells: Cells that are already known to be bad.
            problems: Problems of whole columns.

        Returns:
            The table.
        """
        finite = np.abs(values) <= np.finfo(np.float32).max
        unreported, index = ~finite, {name: i for i, name in enumerate(columns)}
        for cell in bad_cells:
            unreported[cell.row, slice(None) if cell.column is None else index[cell.column]] = (
                False
            )
        found = list(bad_cells)
        for row, i in np.argwhere(unreported).tolist():
            text = f"{values[row, i]:g}"
            found.append(BadCell(row, columns[i], Problem.NOT_FINITE, text))
        values = values if finite.all() else np.where(finite, values, np.nan)
        return cls(tuple(columns), values, tuple(found), tuple(problems))

    def rows(self, path: Path) -> Tensor:
        """Return the rows as float32, shape `(N, D)`. Raises `DataError` for any problem."""
        return torch.from_numpy(self.require_valid(path).values).to(torch.float32)

    def rows_with_problems(self, path: Path) -> tuple[Tensor, dict[int, str]]:
        """Return the rows, with NaN in each bad cell, and the problem of each row that has one.

        Args:
            path: Path of the file, for errors.

        Returns:
            The rows as float32, shape `(N, D)`, and the problems by the index of the row.

        Raises:
            DataError: If whole columns are missing.
        """
        if self.problems:
            _raise(path, self.problems)
        messages = defaultdict(list)
        for cell in self.bad_cells:
            messages[cell.row].append(str(cell))
        problems = {row: "; ".join(messages[row][:MAX_LINES]) for row in sorted(messages)}
        return torch.from_numpy(self.values).to(torch.float32), problems

    def require_valid(self, path: Path) -> Self:
        """Return the table. Raises `DataError` with all problems if there are any."""
        if problems := self._all_problems():
            _raise(path, problems)
        return self

    def split(
        self, path: Path, *, validation: float, test: float, seed: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Split the table at random into training, validation and test.

        Args:
            path: Path of the file, for errors.
            validation: Fraction of the rows for validation.
            test: Fraction of the rows for the test.
            seed: Random seed of the split.

        Returns:
            The rows of each split, float32.

        Raises:
            DataError: With all problems: bad cells, too few rows, columns that do not vary.
        """
        n, problems = len(self.values), self._all_problems()
        if n < MIN_ROWS:
            problems.append(f"{n} rows, but at least {MIN_ROWS} are needed for a split")
            _raise(path, problems)
        order = train_val_test_split(n, validation=validation, test=test, seed=seed)
        problems += self._variation_problems(order[0])
        if problems:
            _raise(path, problems)
        return index_splits(torch.from_numpy(self.values).to(torch.float32), order)

    def _all_problems(self) -> list[str]:
        """Return one line per column and kind of problem."""
        counts = Counter((cell.column, cell.problem) for cell in self.bad_cells)
        first = {(cell.column, cell.problem): cell for cell in reversed(self.bad_cells)}
        lines, n = list(self.problems), len(self.values)
        for (column, problem), count in counts.items():
            cell = first[column, problem]
            what = problem.value[count > 1]
            if column is None:
                lines.append(f"{count} of {n} rows {what}, first row {cell.row + 1}: {cell.text}")
            else:
                lines.append(
                    f"column {column!r}: {count} of {n} cells {what}, first in row "
                    f"{cell.row + 1}: {cell.text!r}"
                )
        return lines

    def _variation_problems(self, train: Tensor) -> list[str]:
        """Return problems of the columns, without bad cells, that hardly vary."""
        good = np.flatnonzero(~np.isnan(self.values).any(0))
        values = self.values[train.numpy()][:, good]
        spread, size = values.std(0), np.abs(values).max(0)
        problems = []
        if constant := [self.columns[i] for i in good[spread == 0]]:
            problems.append(
                f"{list_names(constant)} {'is' if len(constant) == 1 else 'are'} constant in the "
                "training rows and must be left out"
            )
        too_small = (spread > 0) & (size * np.finfo(np.float32).eps > spread / 10)
        for i in np.flatnonzero(too_small):
            problems.append(
                f"column {self.columns[good[i]]!r}: values near {size[i]:.3g} vary by only "
                f"{spread[i]:.3g}, too little for float32. Subtract a constant first"
            )
        return problems


def list_names(names: Sequence[str]) -> str:
    """Return the names of columns as text. Long lists are shortened."""
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names[:10]))}{more}"


def _raise(path: Path, problems: Sequence[str]) -> NoReturn:
    advice = "Correct the file"
    if path.suffix not in {".npy", ".npz"}:
        advice += ", or select other columns with columns=(...)"
    if len(problems) == 1:
        text = f" {problems[0]}. {advice}"
    else:
        shown = [*problems[:MAX_LINES]]
        if len(problems) > MAX_LINES:
            shown[-1] = f"and {len(problems) - MAX_LINES + 1:,} more problems"
        text = "".join(f"\n- {line}" for line in shown) + f"\n{advice}"
    raise DataError(f"{path} cannot be used as it is:{text}", setting="columns")
