"""Search for exact relations between the columns of a table."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import get_args

import pyarrow as pa
import torch
from torch import Tensor

from ..schema import Categorical, DateTime, Numeric, TableSchema
from .kinds import AnyRelation, Lookup, Product, Relation, Sum, join_key
from .terms import (
    DAY,
    MINUTES,
    AnyTerm,
    Calendar,
    Cell,
    DatePart,
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
SCREENED_ROWS, SEARCHED_ROWS, CHECKED_ROWS = 200, 5000, 100_000
"""Largest numbers of rows in which candidates are looked for, compared and accepted."""
MAX_COLUMNS, MAX_DATES = 45, 6
"""Largest numbers of columns and dates in relations of three columns, the first of the table."""
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


def find_relations(codes: Tensor, schema: TableSchema) -> list[AnyRelation]:
    """Return the exact relations between the columns of a table. See `Relations`.

    Args:
        codes: Codes of the training rows, shape `(N, C)`, in random order.
        schema: Types of the columns.

    Returns:
        The relations. None of them has all columns of another one.
    """
    return _Search(codes, schema).accepted


def find_step(cells: Tensor) -> float:
    """Return the unit of which nearly all cells are multiples: a power of 0.1, or 0."""
    present = cells[cells.isfinite()]
    for decimals in range(MAX_DECIMALS + 1):
        scaled = present * 10**decimals
        rounded = (scaled - scaled.round()).abs() <= 1e-6 + 1e-12 * scaled.abs()
        if int((~rounded).sum()) <= MAX_FAILURES * len(present):
            return 10.0**-decimals
    return 0.0


class _Search:
    """The accepted relations, and what the search needs to know about the columns."""

    def __init__(self, codes: Tensor, schema: TableSchema) -> None:
        self.all_rows, self.used = codes, schema.used
        self.rows = codes[:SEARCHED_ROWS]
        self.accepted: list[AnyRelation] = []
        self.cells = [
            Cell(j, len(c.levels) - 1 if isinstance(c, Categorical) and c.merged else -1)
            for j, c in enumerate(schema.used)
        ]
        self.numbers = [j for j, c in enumerate(schema.used) if isinstance(c, Numeric)]
        self.dates = [j for j, c in enumerate(schema.used) if isinstance(c, DateTime)]
        largest = self.rows.abs().nan_to_num(0.0).amax(0).tolist() if len(codes) else []
        self.precision = [
            (1e-6 if c.type == "float" else 1e-9) * size + 1e-12
            for c, size in zip(schema.used, largest, strict=False)
        ]
        """Largest error of a cell that is not rounded."""
        self.rounding = [
            find_step(self.rows[:, j]) / 2 + self.precision[j] if j in self.numbers else 0.0
            for j in range(len(self.precision))
        ]
        """Largest error of a cell that is rounded."""
        if len(codes) >= MIN_CHECKED:
            self._find()

    def _find(self) -> None:
        times = [j for j in self.numbers if self._is_time_of_day(j)]
        zones = {j: self._zone(j) for j in self.dates[:MAX_DATES]}
        self._offer_all(self._date_parts(zones))
        self._offer_all(self._time_parts(times))
        self._offer_all(self._shifted_dates())
        self._offer_all(self._lines())
        self._offer_all(self._rules(self._single_keys(zones)))
        # A column that is a multiple of another one needs no further formula.
        derived = {r.target.column for r in self.accepted if r.columns[:-1] and _is_line(r)}
        self.numbers = [j for j in self.numbers if j not in derived][:MAX_COLUMNS]
        self._offer_all(self._time_differences(times))
        self._offer_all(self._date_differences())
        self._offer_all(self._sums_and_products())
        self._offer_all(self._rules(self._double_keys(derived), self._is_better_than_single))

    def _offer_all(self, candidates: Iterable[AnyRelation]) -> None:
        for relation in candidates:
            if self._is_new(relation) and (accepted := self._verified(relation)) is not None:
                self.accepted.append(accepted)

    def _is_new(self, relation: Relation) -> bool:
        return not any(set(r.columns) <= set(relation.columns) for r in self.accepted)

    def _verified(self, relation: AnyRelation) -> AnyRelation | None:
        """Return a relation with its numbers of failures, or `None` if it is not accepted."""
        for codes in (self.rows, self.all_rows[:CHECKED_ROWS]):
            failures, checked = _count_failures(relation, codes)
            if failures is None:
                return None
            relation = replace(relation, failures=failures, checked=checked)
            if len(codes) == len(self.all_rows):
                break
        return relation

    def _is_time_of_day(self, j: int) -> bool:
        """Return whether the numbers of a column are times such as 1435."""
        cells = self.rows[:, j][~self.rows[:, j].isnan()]
        minutes = TimeOfDay(0).values(cells[:, None])
        few_others = int(minutes.isnan().sum()) <= MAX_FAILURES * len(cells)
        span = torch.quantile(cells, torch.tensor([0.05, 0.95], dtype=cells.dtype)).diff()
        return few_others and float(span) >= 200 and self.rounding[j] >= 0.5

    def _zone(self, j: int) -> str:
        """Return the time zone of a date in which most columns are its parts."""
        column = self.used[j]
        assert isinstance(column, DateTime)
        own = column.timezone or "UTC"
        rows = self.rows[~self.rows[:, j].isnan()][:SCREENED_ROWS]
        parts, best, most = get_args(Calendar), own, 0.0
        for zone in (own, *(ZONES if column.resolution != "day" else ())):
            try:
                seconds = local_seconds(rows[:, j], zone)
            except pa.ArrowInvalid:  # this machine has no data about time zones
                continue
            fits = 0.0
            for part in parts:
                difference = rows[:, self.numbers] - calendar_part(seconds, part)[:, None]
                share = ((difference == 0) | (difference == 1)).double().mean(0)
                fits += float(share[share > 0.9].sum())
            if fits > most + 1e-3:
                best, most = zone, fits
        return best

    def _date_part(self, j: int, part: Calendar, zone: str) -> DatePart:
        column = self.used[j]
        assert isinstance(column, DateTime)
        own = column.timezone or "UTC"
        return DatePart(j, part, zone, "" if zone == own else f" (time zone {zone})")

    def _date_parts(self, zones: dict[int, str]) -> Iterator[Sum]:
        for j, zone in zones.items():
            for part in get_args(Calendar):
                term = self._date_part(j, part, zone)
                yield from self._equal_to(term, (0.0, 1.0))

    def _time_parts(self, times: list[int]) -> Iterator[Sum]:
        for j in times:
            for part in ("hour", "minute"):
                yield from self._equal_to(TimePart(j, part), (0.0,))  # type: ignore[arg-type]

    def _equal_to(self, term: AnyTerm, constants: tuple[float, ...]) -> Iterator[Sum]:
        """Yield the columns that equal a term plus a constant in most rows of a sample."""
        rows = self.rows[:SCREENED_ROWS]
        difference = rows[:, self.numbers] - term.values(rows)[:, None]
        for constant in constants:
            fits = _mostly(difference == constant, ~difference.isnan())
            for i in fits.nonzero().flatten().tolist():
                if (target := self.numbers[i]) != term.column:
                    yield Sum((term,), self.cells[target], 0, 0, (1.0,), constant, 1e-6)

    def _shifted_dates(self) -> Iterator[Sum]:
        for a, c in combinations(self.dates, 2):
            shift = (self.rows[:, c] - self.rows[:, a]).nanmedian().item()
            if shift == shift:  # not NaN
                yield Sum((Cell(a),), Cell(c), 0, 0, (1.0,), shift, 0.5)

    def _lines(self) -> Iterator[Sum]:
        """Yield $c = k a + m$ for each pair of columns that is nearly on a line."""
        rows = self.rows[:SCREENED_ROWS][:, self.numbers]
        columns = torch.tensor(self.numbers)
        rounding = torch.tensor(self.rounding, dtype=rows.dtype)[columns]
        spread = rows.sub(rows.nanmedian(0).values).abs().nanmedian(0).values
        for i, a in enumerate(self.numbers):
            order = rows[:, i].argsort()[: int((~rows[:, i].isnan()).sum())]
            if len(order) < 20:
                continue
            low, high = rows[order[: len(order) // 2]], rows[order[-(len(order) // 2) :]]
            rise = high - low
            k = (rise / rise[:, i : i + 1]).nanmedian(0).values
            rest = rows - k * rows[:, i : i + 1]
            error = (rest - rest.nanmedian(0).values).abs()
            largest = 3 * (rounding + k.abs() * rounding[i]) + 0.05 * spread
            fits = _mostly(error <= largest, ~error.isnan()) & (k != 0) & k.isfinite()
            for j in fits.nonzero().flatten().tolist():
                if self.numbers[j] > a:
                    yield from self._line(a, self.numbers[j])

    def _line(self, first: int, second: int) -> Iterator[Sum]:
        rows = self.rows[~self.rows[:, [first, second]].isnan().any(1)]
        lines = {}
        for a, c in ((first, second), (second, first)):
            lines[a, c] = _fit_line(rows[:, a], rows[:, c], self.rounding[a], self.rounding[c])
        for tolerances in (self.precision, self.rounding):
            for inputs in (self.precision, self.rounding):
                for (a, c), (k, m) in lines.items():
                    tolerance = 1.001 * (tolerances[c] + abs(k) * inputs[a])
                    slope, constant = _shortest(rows[:, a], rows[:, c], k, m, tolerance)
                    yield Sum((Cell(a),), Cell(c), 0, 0, (slope,), constant, tolerance)

    def _time_differences(self, times: list[int]) -> Iterator[Sum]:
        rows = self.rows[:SCREENED_ROWS]
        targets = [j for j in self.numbers if j not in times]
        for a, b in permutations(times[:MAX_DATES], 2):
            minutes = TimeOfDay(a).values(rows) - TimeOfDay(b).values(rows)
            difference = (rows[:, targets] - minutes[:, None]) % MINUTES
            for i in _mostly(difference == 0, ~difference.isnan()).nonzero().flatten().tolist():
                cells = self.rows[:, targets[i]]
                lowest = float(cells[~cells.isnan()].quantile(0.001))
                terms = (TimeOfDay(a), TimeOfDay(b))
                target = self.cells[targets[i]]
                yield Sum(terms, target, 0, 0, (1.0, -1.0), 0.0, 1e-6, MINUTES, lowest - 60)

    def _date_differences(self) -> Iterator[Sum]:
        rows = self.rows[:SCREENED_ROWS]
        tolerance = torch.tensor(self.rounding, dtype=rows.dtype)[self.numbers]
        for a, b in permutations(self.dates[:MAX_DATES], 2):
            for unit in (DAY, 3600, 60, 1):
                error = rows[:, self.numbers] - (rows[:, a] - rows[:, b])[:, None] / unit
                fits = _mostly(error.abs() <= tolerance, ~error.isnan())
                for i in fits.nonzero().flatten().tolist():
                    c, factors = self.numbers[i], (1 / unit, -1 / unit)
                    for tolerances in (self.precision, self.rounding):
                        yield Sum((Cell(a), Cell(b)), Cell(c), 0, 0, factors, 0.0, tolerances[c])

    def _sums_and_products(self) -> Iterator[AnyRelation]:
        """Yield $c = a + b$ and $c = a b$, solved for each of the columns."""
        x = self.rows[:SCREENED_ROWS][:, self.numbers]
        h = torch.tensor(self.rounding, dtype=x.dtype)[self.numbers]
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
                fits = _mostly(error.abs() <= rounding, ~error.isnan())
                for b, c in fits.nonzero().tolist():
                    columns = (a, self.numbers[i + 1 + b], self.numbers[c])
                    if len(set(columns)) == 3:
                        yield from solutions(*columns)

    def _sums(self, a: int, b: int, c: int) -> Iterator[Sum]:
        """Yield $c = a + b$ with each column as the target, the last of the table first."""
        signs = {a: 1.0, b: 1.0, c: -1.0}
        for own, other in _roundings(self.precision, self.rounding):
            for target in sorted(signs, reverse=True):
                terms = sorted(set(signs) - {target}, key=lambda j: (signs[j] == signs[target], j))
                factors = tuple(-signs[j] / signs[target] for j in terms)
                tolerance = 1.001 * (own[target] + sum(other[j] for j in terms))
                cells = tuple(map(Cell, terms))
                yield Sum(cells, Cell(target), 0, 0, factors, 0.0, tolerance)

    def _products(self, a: int, b: int, c: int) -> Iterator[Product]:
        """Yield $c = a b$ with each column as the target, the last of the table first."""
        for own, other in _roundings(self.precision, self.rounding):
            for target in sorted((a, b, c), reverse=True):
                first, second = (a, b) if target == c else (c, a if target == b else b)
                rounding = (1.001 * other[first], 1.001 * other[second], 1.001 * own[target])
                power = 1 if target == c else -1
                yield Product((Cell(first), Cell(second)), Cell(target), 0, 0, power, rounding)

    def _is_key(self, j: int) -> bool:
        """Return whether a column has few categories or few integers."""
        column = self.used[j]
        if isinstance(column, Numeric):
            few = column.integer and column.levels is not None
            return few and max(map(abs, column.levels or ())) < 2**25
        return isinstance(column, Categorical)

    def _single_keys(self, zones: dict[int, str]) -> Iterator[tuple[AnyTerm, ...]]:
        for j in range(len(self.used)):
            if self._is_key(j):
                yield (self.cells[j],)
        for j, zone in zones.items():
            for part in get_args(Calendar)[:-1]:
                yield (self._date_part(j, part, zone),)

    def _double_keys(self, derived: set[int]) -> Iterator[tuple[AnyTerm, ...]]:
        keys = [j for j in range(len(self.used)) if self._is_key(j) and j not in derived]
        for a, b in combinations(keys[:MAX_COLUMNS], 2):
            yield self.cells[a], self.cells[b]

    def _rules(self, keys: Iterable[tuple[AnyTerm, ...]], accepts=lambda rule: True) -> Iterator[Lookup]:
        """Yield the rules by which keys determine other columns in most rows of a sample."""
        columns = [j for j in range(len(self.used)) if j not in self.dates]
        targets = torch.stack([self.cells[j].values(self.rows) for j in columns], 1) if columns else self.rows[:, :0]
        for terms in keys:
            key, order = join_key(terms, self.rows).sort()
            sorted_targets = targets[order]
            same = (key[1:] == key[:-1])[:, None]
            before, after = sorted_targets[:-1], sorted_targets[1:]
            fits = _mostly(before == after, same & ~(before.isnan() | after.isnan()))
            for i in fits.nonzero().flatten().tolist():
                if columns[i] not in {term.column for term in terms}:
                    rule = Lookup.learn(terms, self.cells[columns[i]], self.rows)
                    if accepts(rule) and self._is_new(rule):
                        # The rule of all rows is learned only if that of a sample is accepted.
                        if _count_failures(rule, self.rows)[0] is not None:
                            yield Lookup.learn(terms, rule.target, self.all_rows)

    def _is_better_than_single(self, rule: Lookup) -> bool:
        """Return whether both terms are needed: each alone fails at least four times as often."""
        failures = (rule.holds(self.rows, leave_one_out=True) == 0).sum()
        for term in rule.terms:
            single = Lookup.learn((term,), rule.target, self.rows)
            if 4 * failures > (single.holds(self.rows, leave_one_out=True) == 0).sum():
                return False
        return True


def _count_failures(relation: Relation, codes: Tensor) -> tuple[int | None, int]:
    """Return the numbers of failures and of checked rows. No failures if it is not accepted."""
    expected = relation.expected(codes, leave_one_out=True)
    cells = relation.target.values(codes)
    checked = ~(expected.isnan() | cells.isnan())
    count = int(checked.sum())
    complete = ~cells.isnan()
    for term in relation.terms:
        complete &= ~term.values(codes).isnan()
    failures = int((relation.differs(codes, expected, cells) & checked).sum())
    enough = count >= max(MIN_CHECKED, MIN_COVERED * int(complete.sum()))
    if not enough or failures > MAX_FAILURES * count:
        return None, count
    codes, expected, cells = codes[checked], expected[checked], cells[checked]
    shuffled = sum(
        float(relation.differs(codes, expected, cells.roll(shift)).sum()) for shift in SHUFFLES
    ) / len(SHUFFLES)
    if shuffled < max(MIN_SHUFFLED * count, MIN_RATIO * (failures + 1)):
        return None, count
    return failures, count


def _mostly(holds: Tensor, counts: Tensor) -> Tensor:
    """Return where something holds in 97 % of at least 20 rows, shape `(N, ...) -> (...)`."""
    number = counts.sum(0)
    return (number >= 20) & ((holds & counts).sum(0) >= 0.97 * number)


def _roundings(
    precision: list[float], rounding: list[float]
) -> tuple[tuple[list[float], list[float]], ...]:
    """Return errors of target and terms: none is rounded, the target is, all are."""
    return ((precision, precision), (rounding, precision), (rounding, rounding))


def _is_line(relation: Relation) -> bool:
    return isinstance(relation, Sum) and all(isinstance(term, Cell) for term in relation.terms)


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
    slope = float((rise / run)[run > 0].median())
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


def _shortest(a: Tensor, c: Tensor, k: float, m: float, tolerance: float) -> tuple[float, float]:
    """Return slope and constant with the fewest digits that fit as well as `k` and `m`."""
    fewest = int(((c - k * a - m).abs() > tolerance).sum())
    for digits in range(1, 10):
        slope = float(f"{k:.{digits}g}")
        center = _window(c - slope * a)[0]
        for constant in (0.0, *(round(center, decimals) for decimals in range(digits + 1))):
            if int(((c - slope * a - constant).abs() > tolerance).sum()) <= fewest:
                return slope, constant
    return k, m
