"""Search for exact relations between the columns of a table."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, permutations, starmap
from typing import get_args

import pyarrow as pa
import torch
from torch import Tensor

from ..schema import Categorical, DateTime, Numeric, TableSchema
from .kinds import Lookup, Product, Relation, Sum, join_key
from .terms import (
    DAY,
    MINUTES,
    Calendar,
    Cell,
    DatePart,
    Term,
    TimeOfDay,
    TimePart,
    calendar_part,
    local_seconds,
)

MAX_FAILURES = 0.005
"""Largest share of rows in which an accepted relation does not hold."""
MIN_CHECKED, MIN_COVERED = 30, 0.5
"""Smallest number of rows, and share of the rows with all cells, in which it can be checked."""
MIN_SHUFFLED, MIN_RATIO = 0.2, 20
"""With shuffled targets it must fail in this share of rows, and so many times as often."""
MIN_DISTINCT = 0.8
"""Smallest share of the rows with another target in which shuffled targets are noticed."""
SCREENED_ROWS, SCREENED_KEYS, SEARCHED_ROWS, CHECKED_ROWS = 200, 1000, 5000, 100_000
"""Largest numbers of rows in which formulas and rules are looked for, compared and accepted."""
MAX_NUMBERS, MAX_KEYS, MAX_DATES = 45, 30, 6
"""Largest numbers of columns in relations of three columns, the first of the table."""
SHUFFLES = (1, 3, 7, 12, 17)
"""Numbers of rows by which targets are shifted. The rows are in random order."""
MAX_DECIMALS = 9
ZONES = (
    *(f"{sign}{hours:02d}:00" for hours in range(1, 13) for sign in "+-"),
    *(f"America/{city}" for city in ("New_York", "Chicago", "Denver", "Los_Angeles")),
    *(f"Europe/{city}" for city in ("London", "Berlin", "Athens")),
    "Australia/Sydney",
)
"""Time zones in which the parts of a date are tried if its own zone does not fit."""
ZONE_PARTS: tuple[Calendar, ...] = ("day", "weekday", "day of the week", "hour")
"""Parts of a date from which its time zone is recognized."""


def find_step(cells: Tensor) -> float:
    """Return the unit of which nearly all cells are multiples: a power of 0.1, or 0."""
    present = cells[cells.isfinite()]
    for decimals in range(MAX_DECIMALS + 1):
        scaled = present * 10**decimals
        size = scaled.abs()
        rounded = (scaled - scaled.round()).abs() <= 1e-6 * size.clamp_max(1.0) + 1e-12 * size
        if int((~rounded).sum()) <= MAX_FAILURES * len(present):
            return 10.0**-decimals
    return 0.0


class Search:
    """The search for the relations between the columns of a table. See `Relations`.

    Args:
        codes: Codes of the training rows, shape `(N, C)`, in random order.
        schema: Types of the columns.

    Attributes:
        accepted: The relations. None of them has all columns of another one.
    """

    def __init__(self, codes: Tensor, schema: TableSchema) -> None:
        self.all_rows, self.rows, self.used = codes, codes[:SEARCHED_ROWS], schema.used
        self.accepted: list[Relation] = []
        self.derived: set[int] = set()
        """Columns that say the same as another one, which need no further relations."""
        self.cells = [
            Cell(j, len(c.levels) - 1 if isinstance(c, Categorical) and c.merged else -1)
            for j, c in enumerate(schema.used)
        ]
        self.numbers = [j for j, c in enumerate(schema.used) if isinstance(c, Numeric)]
        self.dates = {j: c for j, c in enumerate(schema.used) if isinstance(c, DateTime)}
        exact = [
            _precision(self.rows[:, j], 1e-6 if c.type == "float" else 1e-9)
            for j, c in enumerate(schema.used)
        ]
        rounded = [
            find_step(self.rows[:, j]) / 2 + exact[j] if j in self.numbers else 0.0
            for j in range(len(exact))
        ]
        self.exact, self.rounded = exact, rounded
        """Largest errors of the cells of each column if they are not rounded, and if they are."""
        self.errors = ((exact, exact), (rounded, exact), (rounded, rounded))
        """Errors of target and terms that are tried: none is rounded, the target is, all are."""
        if len(codes) >= MIN_CHECKED:
            self._find()

    def _find(self) -> None:
        times = [j for j in self.numbers if self._is_time_of_day(j)]
        zones = {j: self._zone(j) for j in list(self.dates)[:MAX_DATES]}
        parts = self._parts(zones, times)
        rules = self._rules(self._single_keys(zones))
        self._accept(chain(self._shifted_dates(), parts, self._lines(), rules))
        self.numbers = [j for j in self.numbers if j not in self.derived][:MAX_NUMBERS]
        rules = self._rules(self._double_keys())
        self._accept(chain(self._differences(times), self._sums_and_products(), rules))

    def _accept(self, candidates: Iterable[Relation]) -> None:
        """Accept the relations that hold and are new."""
        for relation in candidates:
            if not self._is_new(relation.columns):
                continue
            counted = _counted(relation, self.rows)
            if counted and len(self.rows) < len(self.all_rows):
                counted = _counted(relation, self.all_rows[:CHECKED_ROWS])
            if counted:
                self.accepted.append(counted)
                if counted.says_the_same:
                    self.derived.add(counted.target.column)

    def _is_new(self, columns: Sequence[int]) -> bool:
        """Return whether no accepted relation has only some of these columns.

        A target that one other column gives needs no second one. The target is the last column.
        """
        others = set(columns)
        return not self.derived & others and not any(
            set(r.columns) <= others
            or (len(columns) > 2 and len(r.terms) == 1 and r.target.column == columns[-1])
            for r in self.accepted
        )

    def _is_time_of_day(self, j: int) -> bool:
        """Return whether the numbers of a column are times such as 1435."""
        cells = self.rows[:, j][~self.rows[:, j].isnan()]
        if len(cells) < MIN_CHECKED:
            return False
        minutes = TimeOfDay(0).values(cells[:, None])
        few_others = int(minutes.isnan().sum()) <= MAX_FAILURES * len(cells)
        span = torch.quantile(cells, torch.tensor([0.05, 0.95], dtype=cells.dtype)).diff()
        return few_others and float(span) >= 200 and self.rounded[j] >= 0.5

    def _zone(self, j: int) -> str:
        """Return the time zone of a date in which most cells are its parts."""
        own = self.dates[j].timezone or "UTC"
        rows = self.rows[~self.rows[:, j].isnan()][:SCREENED_ROWS]
        numbers = rows[:, self.numbers]
        if self.dates[j].resolution == "day" or not numbers.numel():
            return own

        def subtract_parts(zone: str) -> Tensor:  # (rows, parts, columns)
            seconds = local_seconds(rows[:, j], zone)
            parts = torch.stack([calendar_part(seconds, part) for part in ZONE_PARTS], 1)
            return numbers[:, None] - parts[:, :, None]

        # A column that is a part in any zone often differs from it by the same hours or days.
        difference = subtract_parts("UTC") % 24
        if not bool(((difference == difference.mode(0).values).double().mean(0) > 0.3).any()):
            return own

        def count_parts(zone: str) -> int:
            try:
                difference = subtract_parts(zone)
            except pa.ArrowInvalid:  # this machine has no data about time zones
                return -1
            counts = torch.stack([(difference == constant).sum(0) for constant in (0, 1)])
            return int(counts[counts > 0.9 * (~difference.isnan()).sum(0)].sum())

        return max((own, *ZONES), key=count_parts)

    def _date_parts(self, j: int, zone: str) -> list[DatePart]:
        """Return the parts of a date from the year to the minute."""
        note = "" if zone == (self.dates[j].timezone or "UTC") else f" (time zone {zone})"
        return [DatePart(j, part, zone, note) for part in get_args(Calendar)]

    def _parts(self, zones: dict[int, str], times: list[int]) -> Iterator[Sum]:
        """Yield parts of dates, which may be counted from 1, and of times of day."""
        for part in chain.from_iterable(starmap(self._date_parts, zones.items())):
            yield from self._sums_of((part,), (1.0,), (0.0, 1.0))
        for j in times:
            yield from self._sums_of((TimePart(j, "hour"),), (1.0,))
            yield from self._sums_of((TimePart(j, "minute"),), (1.0,))

    def _differences(self, times: list[int]) -> Iterator[Sum]:
        """Yield differences of times of day and of dates."""
        for clocks in permutations(map(TimeOfDay, times[:MAX_DATES]), 2):
            yield from self._sums_of(clocks, (1.0, -1.0), period=MINUTES)
        for dates in permutations(map(Cell, list(self.dates)[:MAX_DATES]), 2):
            for unit in (DAY, 3600, 60, 1):
                yield from self._sums_of(dates, (1 / unit, -1 / unit))

    def _sums_of(
        self,
        terms: tuple[Term, ...],
        factors: tuple[float, ...],
        constants: tuple[float, ...] = (0.0,),
        period: float = 0.0,
    ) -> Iterator[Sum]:
        """Yield the columns that equal a sum of terms in most rows of a sample."""
        rows, given = self.rows[:SCREENED_ROWS], {term.column for term in terms}
        targets = [j for j in self.numbers if j not in given]
        tolerance = rows.new_tensor([self.rounded[j] for j in targets])
        rest = rows[:, targets]
        for factor, term in zip(factors, terms, strict=True):
            rest = rest - factor * term.values(rows)[:, None]
        for constant in constants:
            error = (rest - constant).abs()
            if period:
                error = torch.minimum(error % period, period - error % period)
            for c in _fitting(targets, error <= tolerance, ~error.isnan()):
                # Nearly all cells are at least an hour above the lowest expected number.
                cells = self.rows[:, c]
                lowest = float(cells[~cells.isnan()].quantile(0.001)) - 60 if period else 0.0
                for errors in (self.exact, self.rounded):
                    yield Sum(terms, Cell(c), factors, constant, errors[c], period, lowest)

    def _shifted_dates(self) -> Iterator[Sum]:
        for a, c in combinations(self.dates, 2):
            shift = (self.rows[:, c] - self.rows[:, a]).nanmedian().item()
            if shift == shift:  # not NaN
                yield Sum((Cell(a),), Cell(c), (1.0,), shift, 0.5)

    def _lines(self) -> Iterator[Sum]:
        """Yield $c = k a + m$ for each pair of columns that is nearly on a line."""
        rows = self.rows[:SCREENED_ROWS][:, self.numbers]
        rounding = torch.tensor(self.rounded, dtype=rows.dtype)[self.numbers]
        spread = rows.sub(rows.nanmedian(0).values).abs().nanmedian(0).values
        for i, a in enumerate(self.numbers):
            order = rows[:, i].argsort()[: int((~rows[:, i].isnan()).sum())]
            if len(order) < 20:
                continue
            rise = rows[order[-(len(order) // 2) :]] - rows[order[: len(order) // 2]]
            k = (rise / rise[:, i : i + 1]).nanmedian(0).values
            rest = rows - k * rows[:, i : i + 1]
            error = (rest - rest.nanmedian(0).values).abs()
            largest = 3 * (rounding + k.abs() * rounding[i]) + 0.05 * spread
            holds = (error <= largest) & (k != 0) & k.isfinite()
            for c in _fitting(self.numbers, holds, ~error.isnan()):
                if c > a:
                    yield from self._line(a, c)

    def _line(self, first: int, second: int) -> Iterator[Sum]:
        rows = self.rows[~self.rows[:, [first, second]].isnan().any(1)]
        unit = max(find_step(rows[:, first]), find_step(rows[:, second]))
        lines = {
            (a, c): _fit_line(rows[:, a], rows[:, c], self.rounded[a], self.rounded[c])
            for a, c in ((first, second), (second, first))
        }
        for own, other in self.errors:
            for (a, c), (k, m) in lines.items():
                tolerance = 1.001 * (own[c] + abs(k) * other[a])
                line = _shortest(rows[:, a], rows[:, c], k, m, tolerance, unit)
                # If both columns are rounded, too many lines with a free slope would fit.
                if line is not None and (other is self.exact or line[0] == -1):
                    yield Sum((Cell(a),), Cell(c), (line[0],), line[1], tolerance)

    def _sums_and_products(self) -> Iterator[Relation]:
        """Yield $c = a + b$ and $c = a b$, solved for each of the columns."""
        x = self.rows[:SCREENED_ROWS][:, self.numbers]
        h = torch.tensor(self.rounded, dtype=x.dtype)[self.numbers]
        is_constant = _is_constant(x).tolist()
        for i, a in enumerate(self.numbers):
            own, others = x[:, i : i + 1], x[:, i + 1 :]
            error_of_sum = (own + others)[:, :, None] - x[:, None]  # (rows, b, c)
            error_of_product = (own * others)[:, :, None] - x[:, None]
            sum_rounding = (h[i] + h[i + 1 :])[:, None] + h
            product_rounding = (others.abs() * h[i] + own.abs() * h[i + 1 :])[:, :, None] + h
            for error, rounding, solutions in (
                (error_of_sum, sum_rounding, self._sums),
                (error_of_product, product_rounding, self._products),
            ):
                for b, c in _mostly(error.abs() <= rounding, ~error.isnan()).nonzero().tolist():
                    b += i + 1
                    # Of two columns that are nearly always 0, one is nearly any multiple.
                    if c not in {i, b} and is_constant[i] + is_constant[b] + is_constant[c] < 2:
                        yield from solutions(a, self.numbers[b], self.numbers[c])

    def _sums(self, a: int, b: int, c: int) -> Iterator[Sum]:
        """Yield $c = a + b$ with each column as the target, the last of the table first."""
        signs = {a: 1.0, b: 1.0, c: -1.0}
        for own, other in self.errors:
            for target in sorted(signs, reverse=True):
                terms = sorted(set(signs) - {target}, key=lambda j: (signs[j] == signs[target], j))
                factors = tuple(-signs[j] / signs[target] for j in terms)
                tolerance = 1.001 * (own[target] + sum(other[j] for j in terms))
                yield Sum(tuple(map(Cell, terms)), Cell(target), factors, 0.0, tolerance)

    def _products(self, a: int, b: int, c: int) -> Iterator[Product]:
        """Yield $c = a b$ with each column as the target, the last of the table first."""
        for own, other in self.errors:
            for target in sorted((a, b, c), reverse=True):
                first, second = (a, b) if target == c else (c, a if target == b else b)
                rounding = (1.001 * other[first], 1.001 * other[second], 1.001 * own[target])
                power = 1 if target == c else -1
                yield Product((Cell(first), Cell(second)), Cell(target), power, rounding)

    def _is_key(self, j: int) -> bool:
        """Return whether a column has few categories or few integers."""
        column = self.used[j]
        if isinstance(column, Numeric):
            few = column.integer and column.levels is not None
            return few and max(map(abs, column.levels or ())) < 2**25
        return isinstance(column, Categorical)

    def _single_keys(self, zones: dict[int, str]) -> Iterator[tuple[Term, ...]]:
        yield from ((self.cells[j],) for j in range(len(self.used)) if self._is_key(j))
        for j, zone in zones.items():
            yield from ((part,) for part in self._date_parts(j, zone)[:-1])

    def _double_keys(self) -> Iterator[tuple[Term, ...]]:
        keys = [j for j in range(len(self.used)) if self._is_key(j) and j not in self.derived]
        yield from combinations([self.cells[j] for j in keys[:MAX_KEYS]], 2)

    def _rules(self, keys: Iterable[tuple[Term, ...]]) -> Iterator[Lookup]:
        """Yield the rules by which keys determine other columns in most rows of a sample."""
        rows = self.rows[:SCREENED_KEYS]
        cells = [cell for cell in self.cells if cell.column not in self.dates]
        if not cells:
            return
        targets = torch.stack([cell.values(rows) for cell in cells], 1)
        is_constant = _is_constant(targets)
        for terms in keys:
            given = [term.column for term in terms]
            key, order = join_key(terms, rows).sort()
            before, after = targets[order[:-1]], targets[order[1:]]
            counts = (key[1:] == key[:-1])[:, None] & ~(before.isnan() | after.isnan())
            fits = _mostly(before == after, counts) & ~is_constant
            for target in (cells[i] for i in fits.nonzero().flatten().tolist()):
                if target.column not in given and self._is_new([*given, target.column]):
                    rule = Lookup.learn(terms, target, self.rows)
                    # The rule of all rows is learned only if that of a sample is accepted.
                    if self._is_accepted(rule):
                        yield Lookup.learn(terms, target, self.all_rows)

    def _is_accepted(self, rule: Lookup) -> bool:
        """Return whether a rule holds in a sample.

        If it has two terms, each of them alone must fail at least four times as often.
        """
        counted = _counted(rule, self.rows)
        if counted is None or len(rule.terms) == 1:
            return counted is not None
        rows = self.rows[rule.holds(self.rows, leave_one_out=True) >= 0]
        singles = [Lookup.learn((term,), rule.target, rows) for term in rule.terms]
        return all(
            int((single.holds(rows, leave_one_out=True) < 1).sum()) >= 4 * (counted.failures + 1)
            for single in singles
        )


def _precision(cells: Tensor, relative: float) -> float:
    """Return the largest error of cells with a relative error, small against their spread."""
    present = cells[cells.isfinite()]
    if not len(present):
        return 0.0
    low, high = present.min(), present.max()
    return min(relative * float(max(high, -low)), 1e-6 * float(high - low)) + 1e-12


def _counted(relation: Relation, codes: Tensor) -> Relation | None:
    """Return a relation with its numbers of failures and rows, or `None` if it is refused."""
    expected = relation.expected(codes, leave_one_out=True)
    cells = relation.target.values(codes)
    known = ~cells.isnan()
    checked = ~expected.isnan() & known
    count = int(checked.sum())
    for term in relation.terms:
        known = known & ~term.values(codes).isnan()
    failures = int((relation.differs(codes, expected, cells) & checked).sum())
    enough = count >= max(MIN_CHECKED, MIN_COVERED * int(known.sum()))
    if not enough or failures > MAX_FAILURES * count:
        return None
    codes, expected, cells = codes[checked], expected[checked], cells[checked]
    shuffled, different = 0.0, 0.0
    for shift in SHUFFLES:
        other = cells.roll(shift)
        shuffled += int(relation.differs(codes, expected, other).sum()) / len(SHUFFLES)
        different += int((other != cells).sum()) / len(SHUFFLES)
    smallest = max(MIN_SHUFFLED * count, MIN_RATIO * (failures + 1), MIN_DISTINCT * different)
    is_informative = shuffled >= smallest
    return replace(relation, failures=failures, checked=count) if is_informative else None


def _mostly(holds: Tensor, counts: Tensor, share: float = 0.97) -> Tensor:
    """Return where something holds in most of at least 20 rows, shape `(N, ...) -> (...)`."""
    number = counts.sum(0)
    return (number >= 20) & ((holds & counts).sum(0) >= share * number)


def _fitting(columns: Sequence[int], holds: Tensor, counts: Tensor) -> list[int]:
    """Return the columns in which something holds in most rows, shapes `(N, C)`."""
    return [columns[i] for i in _mostly(holds, counts).nonzero().flatten().tolist()]


def _is_constant(cells: Tensor) -> Tensor:
    """Return which columns have nearly always the same value, shape `(N, C) -> (C,)`."""
    return _mostly(cells == cells.roll(1, 0), ~cells.isnan(), 1 - MIN_SHUFFLED)


def _window(rest: Tensor) -> tuple[float, float]:
    """Return the center and the width of the shortest interval with nearly all numbers."""
    ordered = rest.sort().values
    outside = int(MAX_FAILURES * len(rest))
    low, high = ordered[: outside + 1], ordered[len(rest) - outside - 1 :]
    best = int((high - low).argmin())
    return float(low[best] + high[best]) / 2, float(high[best] - low[best])


def _fit_line(a: Tensor, c: Tensor, h_a: float, h_c: float) -> tuple[float, float]:
    """Return the slope and constant of the line with the smallest largest error."""
    order = a.argsort()
    half = len(a) // 2
    rise, run = c[order[-half:]] - c[order[:half]], a[order[-half:]] - a[order[:half]]
    rise, run = rise[run > 0], run[run > 0]
    slope = float((rise / run).median())
    margin = 4 * (h_c + abs(slope) * h_a) / float(run.median()) + 1e-9 * abs(slope)
    low, high, golden = slope - margin, slope + margin, (5**0.5 - 1) / 2
    for _ in range(40):  # golden-section search
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _window(c - left * a)[1] <= _window(c - right * a)[1]:
            high = right
        else:
            low = left
    slope = (low + high) / 2
    return slope, _window(c - slope * a)[0]


def _shortest(
    a: Tensor, c: Tensor, k: float, m: float, tolerance: float, unit: float
) -> tuple[float, float] | None:
    """Return slope and constant with the fewest digits that fit as well as `k` and `m`.

    With a slope of 1 or -1, the constant is a multiple of the unit of both columns.
    """
    if not (math.isfinite(k) and math.isfinite(m)):  # numbers are too large or too close
        return None
    if abs(abs(k) - 1) < 1e-6:
        k = float(round(k))
        m = _window(c - k * a)[0]
    fewest = int(((c - k * a - m).abs() > tolerance).sum())
    if fewest > MAX_FAILURES * len(a):
        return None
    for digits in range(1, 10):
        slope = float(f"{k:.{digits}g}")
        center = _window(c - slope * a)[0]
        constants = [0.0, *(round(center, decimals) for decimals in range(digits + 1))]
        if abs(slope) == 1 and unit:
            constants = [round(center / unit) / round(1 / unit)]
        for constant in constants:
            if int(((c - slope * a - constant).abs() > tolerance).sum()) <= fewest:
                return slope, constant
    return None if abs(k) == 1 and unit else (k, m)
