"""All exact relations of a table: broken ones, the cells to blame, and rows that satisfy them."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Generator, Tensor

from ..schema import TableSchema
from .kinds import Relation
from .search import SEARCHED_ROWS, Search, find_step

REPAIRS = 3
"""Largest number of times that all relations are solved in order."""


class Blame(NamedTuple):
    """A cell whose change repairs broken relations of its row.

    Attributes:
        column: Index of the column.
        value: Code of the cell.
        expected: Code that repairs the relations. NaN if it is not known.
        relations: Indices of the broken relations that it repairs.
    """

    column: int
    value: float
    expected: float
    relations: tuple[int, ...]


@dataclass(frozen=True)
class Relations:
    r"""Relations between columns that hold in nearly all training rows.

    - Rules: one or two categories or few-valued integers determine a category or a number, or a
      part of a date does.
    - Numbers: $c = a \pm b$, $c = a b$, $c = a / b$ and $c = k a + m$, up to rounding.
    - Parts of a date, a date plus a constant, differences of dates in days, hours, minutes or
      seconds, hours and minutes of times of day that are written as integers HHMM, and their
      differences in minutes.

    A relation fails in at most 0.5 % of the rows in which it can be checked. With shuffled targets
    it fails in at least 20 % of them, and at least 20 times as often. A rule is checked in each
    row by the other rows. If it has the columns of another relation and more, it is left out.

    Candidates are looked for in 5,000 rows, and accepted by 100,000. Only the first 45 numbers,
    the first 30 keys and the first 6 dates of a table are combined in relations of three columns.
    A level that stands for several rare categories counts as unknown.

    The relations are saved by `fdsm.serialize.to_json`.

    Attributes:
        relations: The relations.
        steps: Unit of which the cells of each used column are multiples, 0 if there is none.

    Example:
        >>> import pyarrow as pa
        >>> asleep = (torch.rand(200, 1).double() * 20).round(decimals=1)
        >>> frame = pa.table({"asleep": asleep[:, 0].numpy(), "awake": 24 - asleep[:, 0].numpy()})
        >>> schema = TableSchema.infer(frame)
        >>> relations = Relations.fit(torch.cat([asleep, 24 - asleep], 1), schema)
        >>> relations.describe(schema)
        ['asleep + awake = 24']
        >>> row = torch.tensor([[10.0, 12.0]], dtype=torch.float64)
        >>> relations.broken(row)
        tensor([[True]])
        >>> relations.repair(row)
        tensor([[10., 14.]], dtype=torch.float64)
    """

    relations: tuple[Relation, ...]
    steps: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = {column for relation in self.relations for column in relation.columns}
        if columns and max(columns) >= len(self.steps):
            raise ValueError(
                f"a relation has column {max(columns)}, but the table has {len(self.steps)}"
            )

    @classmethod
    def fit(cls, codes: Tensor, schema: TableSchema) -> Self:
        """Find the relations of a table.

        Args:
            codes: Codes of the training rows, shape `(N, C)`, float64, in random order. NaN in
                missing cells.
            schema: Types of the columns.

        Returns:
            The relations. Often there are none.
        """
        steps = [find_step(cells) for cells in codes[:SEARCHED_ROWS].T]
        return cls(tuple(Search(codes, schema).accepted), tuple(steps))

    def describe(self, schema: TableSchema) -> list[str]:
        """Return the relations as text."""
        return [relation.describe(schema) for relation in self.relations]

    def broken(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """Return which relations do not hold, shape `(N, C) -> (R, N)`.

        Args:
            codes: Codes of rows.
            leave_one_out: Whether these are the training rows. Then rules are those of the other
                rows.

        Returns:
            False where a relation holds or cannot be checked.
        """
        result = codes.new_zeros(len(self.relations), len(codes), dtype=torch.bool)
        for i, relation in enumerate(self.relations):
            result[i] = relation.holds(codes, leave_one_out=leave_one_out) == 0
        return result

    def surprise(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        r"""Return how surprising the broken relations of rows are, shape `(N, C) -> (N,)`.

        A relation that failed in $f$ of $n$ training rows counts $\log((n + 1) / (f + 1/2))$. The
        largest number of a row counts, so a wrong cell that breaks several relations counts once.

        Args:
            codes: Codes of rows.
            leave_one_out: Whether these are the training rows.

        Returns:
            One number per row, 0 if no relation is broken.
        """
        if not self.relations:
            return codes.new_zeros(len(codes))
        sizes = codes.new_tensor([relation.surprise for relation in self.relations])
        return (self.broken(codes, leave_one_out=leave_one_out) * sizes[:, None]).amax(0)

    def blamed(self, row: Tensor, *, leave_one_out: bool = False) -> list[Blame]:
        """Return the cells of a row of which one change repairs most broken relations.

        For each column of a broken relation, the cell that the relation gives is tried. The best
        ones leave the fewest relations broken. Targets come first.

        Args:
            row: Codes, shape `(C,)`.
            leave_one_out: Whether this is a training row.

        Returns:
            The cells that repair equally many. If a column is in more broken relations than any
            change repairs, it is returned without an expected value. Empty if no relation is
            broken, or no change of one cell helps.
        """
        codes = row[None]
        broken = self.broken(codes, leave_one_out=leave_one_out)[:, 0]
        indices = broken.nonzero().flatten().tolist()
        columns, changed = list[int](), list[Tensor]()
        for relation in (self.relations[i] for i in indices):
            for column in reversed(relation.columns):
                cells = relation.solve(codes, column)
                if column == relation.target.column:
                    cells = relation.expected(codes, leave_one_out=leave_one_out)
                if cells is not None:
                    columns.append(column)
                    changed.append(row.clone())
                    changed[-1][column] = self._rounded(cells, column)[0]
        left = self.broken(torch.stack(changed or [row])).T[: len(changed)]
        gains: dict[int, tuple[int, Blame]] = {}
        for column, new_row, still in zip(columns, changed, left, strict=True):
            gain = len(indices) - int(still.sum())
            if gain > gains.get(column, (0,))[0] and not bool(new_row[column].isnan()):
                repaired = tuple((broken & ~still).nonzero().flatten().tolist())
                blame = Blame(column, float(row[column]), float(new_row[column]), repaired)
                gains[column] = (gain, blame)
        most = max((gain for gain, _ in gains.values()), default=0)
        members = {c: tuple(i for i in indices if c in self.relations[i].columns) for c in columns}
        # A column of several broken relations is blamed even if no value of it is known.
        if (shared := max(map(len, members.values()), default=0)) > max(most, 1):
            return [
                Blame(column, float(row[column]), math.nan, of_column)
                for column, of_column in members.items()
                if len(of_column) == shared
            ]
        return [blame for gain, blame in gains.values() if gain == most]

    def repair(self, codes: Tensor, generator: Generator | None = None) -> Tensor:
        """Return rows that are changed so that the relations hold.

        Numbers are rounded as in the training table. Then the relations are solved one after the
        other, each for a column that the ones before do not have. Keys that never occurred are
        replaced. Missing cells stay missing.

        Args:
            codes: Codes of rows, such as samples, shape `(N, C)`.
            generator: Random numbers for keys that are equally near.

        Returns:
            The rows. Relations that contradict each other may still be broken in some.
        """
        codes = codes.clone()
        for column in {column for relation in self.relations for column in relation.columns}:
            codes[:, column] = self._rounded(codes[:, column], column)
        for _ in range(REPAIRS):
            kept: set[int] = set()
            for i, column in self._order():
                relation = self.relations[i]
                codes = relation.with_known_terms(codes, kept, generator)
                cells = relation.solve(codes, column)
                if cells is not None:
                    wrong = (relation.holds(codes) == 0) & ~cells.isnan()
                    codes[:, column] = self._rounded(cells, column).where(wrong, codes[:, column])
                kept |= set(relation.columns)
            if not bool(self.broken(codes).any()):
                break
        return codes

    def _order(self) -> list[tuple[int, int]]:
        """Return the relations in the order of repairs, each with the column that is changed.

        A column that only one of the remaining relations has can be changed after all others.
        """
        remaining, order = dict(enumerate(self.relations)), list[tuple[int, int]]()
        while remaining:
            uses = Counter(column for r in remaining.values() for column in r.columns)
            choices = []
            for i, r in remaining.items():
                for column in r.columns:
                    is_target = column == r.target.column
                    if is_target or (uses[column] == 1 and self._can_solve(i, column)):
                        choices.append((uses[column], not is_target, i, column))
            *_, i, column = min(choices)
            order.append((i, column))
            del remaining[i]
        return order[::-1]

    def _can_solve(self, i: int, column: int) -> bool:
        row = torch.zeros(1, len(self.steps), dtype=torch.float64)
        return self.relations[i].solve(row, column) is not None

    def _rounded(self, cells: Tensor, column: int) -> Tensor:
        step = self.steps[column]
        return cells if step == 0 else (cells / step).round() / round(1 / step)
