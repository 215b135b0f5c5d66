"""Exact relations between the cells of a row: sums, products and rules by key."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Generator, Tensor

from ..schema import DateTime, TableSchema
from ..schema.inference import RESOLUTIONS
from .terms import Cell, Term

RADIX = 2.0**26
"""A key of two integers is the first one times this number, plus the second one."""
CHUNK = 1000
"""Number of rows that are compared with all keys at once."""


@dataclass(frozen=True)
class Relation(ABC):
    """The cells of some columns give the cell of another one.

    Attributes:
        terms: Functions of the cells that give the target.
        target: The cell that they give.
        failures: Number of training rows in which it does not hold.
        checked: Number of training rows in which it can be checked.
    """

    terms: tuple[Term, ...]
    target: Cell
    failures: int = field(default=0, kw_only=True)
    checked: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if not self.terms or len(set(self.columns)) < len(self.columns):
            raise ValueError(f"a relation needs different columns, got {self.columns}")
        if not 0 <= self.failures <= self.checked:
            raise ValueError(f"{self.failures} of {self.checked} rows cannot fail")

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of the columns. The target is the last one."""
        return (*(term.column for term in self.terms), self.target.column)

    @property
    def surprise(self) -> float:
        r"""How surprising it is that it does not hold: $\log((n + 1) / (f + 1/2))$."""
        return math.log((self.checked + 1) / (self.failures + 0.5))

    @property
    def says_the_same(self) -> bool:
        """Whether the target tells as much as the only other column."""
        return False

    @abstractmethod
    def expected(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """Return the target that the other cells give, `(N, C) -> (N,)`. NaN if it is unknown.

        With `leave_one_out`, the rows are training rows, which do not give their own target.
        """

    @abstractmethod
    def differs(self, codes: Tensor, expected: Tensor, cells: Tensor) -> Tensor:
        """Return whether target cells are not the expected ones up to rounding, `(N,)`."""

    @abstractmethod
    def describe(self, schema: TableSchema) -> str:
        """Return the relation as text."""

    @abstractmethod
    def solve_term(self, codes: Tensor, i: int) -> Tensor | None:
        """Return the cells of the column of term `i` that the other cells give. See `solve`."""

    def solve(self, codes: Tensor, column: int) -> Tensor | None:
        """Return the cells of one of the columns that the other cells give, `(N, C) -> (N,)`.

        They are NaN where there are none. `None` if the column cannot be solved for.
        """
        if column == self.target.column:
            return self.expected(codes)
        return self.solve_term(codes, self.columns.index(column))

    def with_known_terms(
        self, codes: Tensor, kept: Collection[int], generator: Generator | None
    ) -> Tensor:
        """Return rows in which the target can be given. See `Lookup`."""
        return codes

    def holds(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """Return 1 where it holds, 0 where not, -1 if it cannot be checked, `(N, C) -> (N,)`."""
        expected = self.expected(codes, leave_one_out=leave_one_out)
        cells = self.target.values(codes)
        holds = (~self.differs(codes, expected, cells)).to(torch.int8)
        return holds.where(~(expected.isnan() | cells.isnan()), -1)


@dataclass(frozen=True)
class Sum(Relation):
    r"""$c = m + \sum_i k_i t_i$, where the terms are cells or parts of dates or times.

    Attributes:
        coefficients: The factors $k_i$.
        constant: The constant $m$.
        tolerance: Largest difference that rounding of the columns explains.
        period: Differences are taken modulo this number. 0 if they are not.
        lowest: With a period, the target is expected between `lowest` and `lowest + period`.

    Example:
        >>> day = Sum((Cell(0),), Cell(1), (-1.0,), 24.0, 0.01)
        >>> rows = torch.tensor([[10.0, 14.0], [10.0, 12.0], [10.0, torch.nan]])
        >>> day.expected(rows), day.holds(rows)
        (tensor([14., 14., 14.]), tensor([ 1,  0, -1], dtype=torch.int8))
    """

    coefficients: tuple[float, ...]
    constant: float
    tolerance: float
    period: float = 0.0
    lowest: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (*self.coefficients, self.constant, self.tolerance, self.period, self.lowest)
        if len(self.coefficients) != len(self.terms) or not all(map(math.isfinite, numbers)):
            raise ValueError(f"a sum needs a finite factor of each term, got {numbers}")

    @property
    def says_the_same(self) -> bool:
        """See `Relation.says_the_same`."""
        return self.terms == (Cell(self.columns[0]),)

    def expected(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """See `Relation.expected`."""
        terms = zip(self.coefficients, self.terms, strict=True)
        value = self.constant + sum(k * term.values(codes) for k, term in terms)
        assert isinstance(value, Tensor)
        return (value - self.lowest) % self.period + self.lowest if self.period else value

    def differs(self, codes: Tensor, expected: Tensor, cells: Tensor) -> Tensor:
        """See `Relation.differs`."""
        difference = cells - expected
        if half := self.period / 2:
            difference = (difference + half) % self.period - half
        return difference.abs() > self.tolerance

    def solve_term(self, codes: Tensor, i: int) -> Tensor | None:
        """See `Relation.solve_term`."""
        rest = self.target.values(codes) - self.constant
        for j, (k, term) in enumerate(zip(self.coefficients, self.terms, strict=True)):
            if j != i:
                rest = rest - k * term.values(codes)
        return self.terms[i].invert(codes, rest / self.coefficients[i])

    def describe(self, schema: TableSchema) -> str:
        """See `Relation.describe`."""
        names = [column.name for column in schema.used]
        target, first = names[self.target.column], self.terms[0]
        if self.coefficients == (-1.0,):
            both = " + ".join(names[column] for column in sorted(self.columns))
            return f"{both} = {_number(self.constant)}"
        text, unit = "", self._time_unit(schema)
        for k, term in zip(self.coefficients, self.terms, strict=True):
            sign = (" + " if k > 0 else " - ") if text else ("" if k > 0 else "-")
            factor = "" if abs(k) == 1 or unit else f"{_number(abs(k))} * "
            text += f"{sign}{factor}{term.describe(names)}"
        if self.constant:
            is_date = isinstance(schema.used[self.target.column], DateTime)
            size = _duration(abs(self.constant)) if is_date else _number(abs(self.constant))
            text += f" {'-' if self.constant < 0 else '+'} {size}"
        if unit:
            text += f" in {unit}s"
        return f"{target} {first.verb} {text}" + (" (times of day)" if self.period else "")

    def _time_unit(self, schema: TableSchema) -> str:
        """Return the unit in which a number is a difference of dates, such as `day`, or none."""
        is_date = [isinstance(schema.used[column], DateTime) for column in self.columns]
        are_cells = all(isinstance(term, Cell) for term in self.terms)
        if not are_cells or is_date != [True] * len(self.terms) + [False]:
            return ""
        sizes = {1 / abs(k) for k in self.coefficients}
        return next((name for name, size in RESOLUTIONS.items() if sizes == {float(size)}), "")


@dataclass(frozen=True)
class Product(Relation):
    r"""$c = a\,b$ or $c = a / b$.

    Rounding of the cells by up to $h$ explains a difference of $h_c + |b^q| h_a + |a\,b^{q-1}|
    h_b$ for the power $q = \pm 1$ of $b$.

    Attributes:
        power: 1 for a product, -1 for a quotient.
        rounding: Largest rounding errors $h$ of $a$, $b$ and $c$.

    Example:
        >>> price = Product((Cell(0), Cell(1)), Cell(2), 1, (0.0, 0.0, 0.005))
        >>> price.holds(torch.tensor([[3.0, 1.15, 3.45], [3.0, 1.15, 4.35]]))
        tensor([1, 0], dtype=torch.int8)
    """

    power: int
    rounding: tuple[float, float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.terms) != 2 or self.power not in {1, -1}:
            raise ValueError(f"a product needs two terms and the power 1 or -1, got {self.power}")

    def expected(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """See `Relation.expected`."""
        a, b = (term.values(codes) for term in self.terms)
        value = a * b**self.power
        return value.where(value.isfinite(), torch.nan)

    def differs(self, codes: Tensor, expected: Tensor, cells: Tensor) -> Tensor:
        """See `Relation.differs`."""
        a, b = (term.values(codes) for term in self.terms)
        h_a, h_b, h_c = self.rounding
        tolerance = h_c + (b**self.power).abs() * h_a + (a * b ** (self.power - 1)).abs() * h_b
        return (cells - expected).abs() > tolerance

    def solve_term(self, codes: Tensor, i: int) -> Tensor:
        """See `Relation.solve_term`."""
        a, b = (term.values(codes) for term in self.terms)
        c = self.target.values(codes)
        value = c * b**-self.power if i == 0 else (c / a) ** self.power
        return value.where(value.isfinite(), torch.nan)

    def describe(self, schema: TableSchema) -> str:
        """See `Relation.describe`."""
        names = [column.name for column in schema.used]
        a, b, c = (names[column] for column in self.columns)
        return f"{c} = {a} {'*' if self.power == 1 else '/'} {b}"


@dataclass(frozen=True)
class Lookup(Relation):
    """One or two integers or categories determine a cell by a rule that the rows have taught.

    The expected cell is the value of more than half of the training rows with the same key. For a
    training row, these are the other rows. Rare categories that were merged count as a value that
    is never expected.

    Attributes:
        keys: Different keys in increasing order. See `RADIX`.
        values: The most frequent value of each key.
        counts: Number of training rows with this value.
        rivals: The other value if exactly half of the rows have it, else the same value.
        totals: Number of training rows with the key.

    Example:
        >>> rows = torch.tensor([[0.0, 7.0], [0.0, 7.0], [0.0, 9.0], [1.0, 5.0]])
        >>> rule = Lookup.learn((Cell(0),), Cell(1), rows)
        >>> rule.expected(rows)
        tensor([7., 7., 7., 5.])
        >>> rule.expected(rows, leave_one_out=True)  # the others of row 0 have 7 and 9
        tensor([nan, nan, 7., nan])
    """

    keys: tuple[float, ...]
    values: tuple[float, ...]
    counts: tuple[float, ...]
    rivals: tuple[float, ...]
    totals: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({len(column) for column in self._table}) > 1 or not self.keys:
            raise ValueError("a rule needs a value and a number of rows for each of its keys")
        if any(a >= b for a, b in zip(self.keys, self.keys[1:], strict=False)):
            raise ValueError("the keys of a rule must increase")

    @classmethod
    def learn(cls, terms: tuple[Term, ...], target: Cell, codes: Tensor) -> "Lookup":
        """Return the rule of rows, shape `(N, C)`. At least one row must have key and target."""
        key, value = join_key(terms, codes), codes[:, target.column]
        present = ~(key.isnan() | value.isnan())
        keys, of_key = torch.unique(key[present], return_inverse=True)
        values, of_value = torch.unique(value[present], return_inverse=True)
        pairs, counts = torch.unique(of_key * len(values) + of_value, return_counts=True)
        owner, choice = pairs // len(values), pairs % len(values)
        # Within each key the most frequent value comes first, then the smaller one.
        order = (owner * (int(counts.max()) + 1) - counts).argsort(stable=True)
        owner, choice, counts = owner[order], choice[order], counts[order]
        first = torch.searchsorted(owner, torch.arange(len(keys)))
        second = (first + 1).clamp_max(len(owner) - 1)
        totals = torch.bincount(of_key, minlength=len(keys))
        is_half = (owner[second] == torch.arange(len(keys))) & (2 * counts[second] == totals)
        rivals = choice[second.where(is_half, first)]
        columns = (keys, values[choice[first]], counts[first], values[rivals], totals)
        return cls(terms, target, *(tuple(column.tolist()) for column in columns))

    @cached_property
    def _table(self) -> tuple[Tensor, ...]:
        columns = (self.keys, self.values, self.counts, self.rivals, self.totals)
        return tuple(torch.tensor(column, dtype=torch.float64) for column in columns)

    @property
    def says_the_same(self) -> bool:
        """See `Relation.says_the_same`."""
        return len(set(self.values)) == len(self.keys) and len(self.terms) == 1

    def expected(self, codes: Tensor, *, leave_one_out: bool = False) -> Tensor:
        """See `Relation.expected`."""
        keys, values, counts, rivals, totals = (part.to(codes.device) for part in self._table)
        key = join_key(self.terms, codes).double().contiguous()
        row = torch.searchsorted(keys, key).clamp_max(len(keys) - 1)
        value, count, rival, total = values[row], counts[row], rivals[row], totals[row]
        if leave_one_out:
            own = codes[:, self.target.column]
            counted, agrees = ~own.isnan(), own == value
            # If half of the rows have the rival, it is more than half of the others.
            swaps = agrees & (rival != value)
            value = rival.where(swaps, value)
            count = count - (agrees & ~swaps).to(count)
            total = total - counted.to(total)
        is_known = (keys[row] == key) & (2 * count > total)
        return self.target.without_merged(value.where(is_known, torch.nan)).to(codes.dtype)

    def differs(self, codes: Tensor, expected: Tensor, cells: Tensor) -> Tensor:
        """See `Relation.differs`."""
        return cells != expected

    def _by_key(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the terms of each key, `(T, K)`, its value and which of a row's terms differ.

        Keys whose value is not known are left out. The last shape is `(T, N, K)`.
        """
        keys, values, counts, _, totals = self._table
        is_known = (2 * counts > totals) & ~self.target.without_merged(values).isnan()
        keys, values = keys[is_known], values[is_known]
        first = (keys / RADIX).round()
        parts = torch.stack([keys] if len(self.terms) == 1 else [first, keys - first * RADIX])
        cells = torch.stack([term.values(codes) for term in self.terms])
        return parts, values, cells[:, :, None] != parts[:, None]

    def solve_term(self, codes: Tensor, i: int) -> Tensor | None:
        """See `Relation.solve_term`."""
        parts, values, differs = self._by_key(codes)
        fits = values == self.target.values(codes)[:, None]
        for j in range(len(self.terms)):
            fits &= ~differs[j] | (i == j)
        best = parts[i][fits.to(torch.uint8).argmax(1)]
        return self.terms[i].invert(codes, best.where(fits.any(1), torch.nan))

    def with_known_terms(
        self, codes: Tensor, kept: Collection[int], generator: Generator | None
    ) -> Tensor:
        """Return rows whose key occurs in training.

        Rows with another key get the key that changes the fewest terms, if possible none in the
        columns `kept`. Among these it is the one whose value is nearest to the target, or a random
        one.
        """
        key, expected = join_key(self.terms, codes), self.expected(codes)
        rows = (expected.isnan() & ~key.isnan()).nonzero().flatten()
        codes = codes.clone()
        for part in torch.split(rows, CHUNK):
            chosen = codes[part]
            parts, values, differs = self._by_key(chosen)
            distance = (values - self.target.values(chosen)[:, None]).abs().nan_to_num(0.0)
            cost = distance / (1 + distance) + 1e-6 * torch.rand(
                distance.shape, generator=generator, dtype=codes.dtype
            )
            for term, changed in zip(self.terms, differs, strict=True):
                cost += changed * (100.0 if term.column in kept else 10.0)
            best = cost.argmin(1)
            for term, value in zip(self.terms, parts, strict=True):
                cells = term.invert(chosen, value[best])
                if cells is not None:
                    codes[part, term.column] = cells
        return codes

    def describe(self, schema: TableSchema) -> str:
        """See `Relation.describe`."""
        names = [column.name for column in schema.used]
        given = " and ".join(term.describe(names) for term in self.terms)
        return f"{names[self.target.column]} is determined by {given}"


def join_key(terms: Sequence[Term], codes: Tensor) -> Tensor:
    """Return the key of each row by one or two integer terms, shape `(N,)`. NaN if unknown."""
    key = terms[0].values(codes)
    return key if len(terms) == 1 else key * RADIX + terms[1].values(codes)


def _number(value: float) -> str:
    return f"{value:.10g}"


def _duration(seconds: float) -> str:
    for name, size in RESOLUTIONS.items():
        if seconds % size == 0:
            count = int(seconds // size)
            return f"{count:,} {name}{'' if count == 1 else 's'}"
    return f"{_number(seconds)} seconds"
