"""Infer the type of a column from its values."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from .cells import (
    INTEGER_DAY,
    ISO,
    NO_UNIT,
    DistinctText,
    Floats,
    Unit,
    distinct_text,
    find_date_format,
    find_unit,
    has_codes,
    iso_format,
    numbers_of_column,
    numbers_of_text,
    parse_numbers,
    seconds_of_dates,
    seconds_of_integers,
    seconds_of_text,
    without_gaps,
)
from .columns import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
    Resolution,
)

MAX_UNREADABLE = 0.05
"""Largest fraction of cells that are not numbers, or not dates, in such a column."""
MAX_LEVELS = 50
"""Largest number of categories of a column. Rare ones are merged beyond it."""
MAX_NUMERIC_LEVELS = 20
"""Largest number of distinct numbers that samples are rounded to."""
MIN_REPEATS = 3
"""Smallest mean number of cells with the same number in a column with levels."""
MIN_FREE_TEXT = 10
"""Smallest number of distinct texts that can be free text."""
MIN_IDENTIFIERS = 5
"""Smallest number of rows in which different values are an identifier."""
MIN_COLLISIONS = 10
"""Smallest expected number of equal pairs at which different integers are an identifier."""
MAX_DECIMALS = 9
"""Largest number of decimals that samples are rounded to."""
RESOLUTIONS: dict[Resolution, int] = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
"""Number of seconds of each resolution of dates."""
HEAD = 1000
"""Number of rows in which distinct numbers are counted first, to save time."""
OTHER = "other"
FRACTION = re.compile(rf"\.(\d{{1,{MAX_DECIMALS}}})")


def infer_column(
    name: str, column: pa.ChunkedArray, *, categorical: bool = False, numeric: bool = False
) -> Column:
    """Infer the type of a column.

    Args:
        name: Name of the column.
        column: The cells.
        categorical: Whether the user says that the column is categorical.
        numeric: Whether the user says that the column is numeric.

    Returns:
        The column.

    Raises:
        DataError: If the user says that it is numeric, but no cell is a number.
    """
    kind = column.type
    if column.null_count == len(column):
        return Empty(name, str(kind), len(column))
    if not is_supported(kind):
        return Ignored(name, str(kind), f"the type {kind} is not supported", column.null_count)
    if categorical:
        return _categorical(name, column, distinct_categories(column))
    if numeric and is_text(kind):
        column = _as_booleans(column)
        kind = column.type
    if is_numeric(kind) or (numeric and pa.types.is_boolean(kind)):
        numbers = numbers_of_column(column)
        unreadable = _count_infinite(numbers, column)
        return _numeric(name, kind, numbers, unreadable, keep=numeric)
    if is_date(kind):
        return _date(name, column)
    if pa.types.is_boolean(kind):
        return _categorical(name, column, distinct_categories(column))
    return _text(name, column, keep_numbers=numeric)


def _count_infinite(numbers: Floats, column: pa.ChunkedArray) -> int:
    unusable = int(np.isnan(numbers).sum())
    return unusable - pc.sum(column.is_null(nan_is_null=True)).as_py() if unusable else 0


@cache
def is_numeric(kind: pa.DataType) -> bool:
    """Return whether an arrow type holds numbers, durations or times of day."""
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_duration,
        pa.types.is_time,
    )
    return any(test(kind) for test in tests)


@cache
def is_date(kind: pa.DataType) -> bool:
    """Return whether an arrow type holds dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


@cache
def is_text(kind: pa.DataType) -> bool:
    """Return whether an arrow type holds text, also as a dictionary."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


@cache
def is_supported(kind: pa.DataType) -> bool:
    """Return whether a column of an arrow type can have codes."""
    plain = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return bool(plain or is_numeric(kind) or is_date(kind) or is_text(kind))


def distinct_categories(column: pa.ChunkedArray) -> DistinctText:
    """Return the distinct texts of a column of any type. The number 5.0 has the text `5`."""
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    return distinct_text(column.cast(pa.string()) if not is_text(column.type) else column)


def _text(name: str, column: pa.ChunkedArray, *, keep_numbers: bool) -> Column:
    distinct, kind = distinct_text(column), str(column.type)
    unit, mixed = _number_format(column, distinct)
    if keep_numbers or mixed:
        numeric = _numeric_text(name, column, unit, keep=keep_numbers)
        if numeric is not None:
            return numeric
    cells = int(distinct.counts().sum())
    if not cells:
        return Empty(name, kind, len(column))
    if len(distinct.values) > 1 and (dates := _dates_as_text(name, kind, without_gaps(distinct))):
        return dates
    if mixed and len(distinct.values) > MAX_NUMERIC_LEVELS:
        bad = int(numbers_of_text(column, unit)[1].sum())
        reason = f"numbers and text, {bad:,} of {cells:,} cells are not numbers"
        return Ignored(name, kind, reason, len(column) - cells)
    if len(distinct.values) == cells >= MIN_IDENTIFIERS:
        return Identifier(name, kind, "unique per row")
    if len(distinct.values) > max(cells / 2, MIN_FREE_TEXT):
        reason = f"text, {len(distinct.values):,} different values in {cells:,} rows"
        return Ignored(name, kind, reason, len(column) - cells)
    return _categorical(name, column, distinct)


def _as_booleans(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text of which all cells are true or false, such as `True`, as booleans."""
    distinct = distinct_text(column)
    words = pc.utf8_lower(distinct.values)
    if not 0 < len(words) <= MAX_NUMERIC_LEVELS or not set(words.to_pylist()) <= {"false", "true"}:
        return column
    codes = distinct.spread(pc.equal(words, "true").to_numpy(zero_copy_only=False) + 0.0)
    return pa.chunked_array([pa.array(codes == 1, mask=np.isnan(codes))])


def _number_format(column: pa.ChunkedArray, distinct: DistinctText) -> tuple[Unit, bool]:
    """Return the unit of a column of text, and whether at least half of a sample are numbers."""
    if not pc.any(pc.match_substring_regex(distinct.values, "[0-9]")).as_py():
        return NO_UNIT, False
    sample = distinct
    if len(column) > HEAD:
        rows = np.linspace(0, len(column) - 1, HEAD, dtype=np.int64)
        sample = distinct_text(column.take(pa.array(rows)))
    unit = find_unit(sample)
    # A dictionary says that numbers are categories. Leading zeros say that they are codes.
    if pa.types.is_dictionary(column.type) or has_codes(distinct.values):
        return unit, False
    sample = without_gaps(sample)
    readable = ~np.isnan(parse_numbers(sample.values, unit))
    counts = sample.counts()
    return unit, bool(counts[~readable].sum() <= counts[readable].sum())


def _numeric_text(name: str, column: pa.ChunkedArray, unit: Unit, *, keep: bool) -> Column | None:
    """Return the numeric column, or `None` if too many cells are not numbers."""
    numbers, bad = numbers_of_text(column, unit)
    unreadable, readable = int(bad.sum()), int((~np.isnan(numbers)).sum())
    if keep and not readable:
        raise DataError(
            f"column {name!r} is given as numeric, but none of its cells is a number, for example "
            f"{column.drop_null()[0].as_py()!r}",
            setting="numeric",
        )
    if not readable or not (keep or unreadable <= MAX_UNREADABLE * (readable + unreadable)):
        return None
    numeric = _numeric(name, column.type, numbers, unreadable, keep=keep, unit=unit)
    if isinstance(numeric, Constant) and not keep:
        # One number and a word such as `none` are two categories, and `12 kg` is a text.
        others = int((distinct_text(column).indices >= 0).sum()) - readable
        return None if unit != NO_UNIT or others > MAX_UNREADABLE * readable else numeric
    if isinstance(numeric, Numeric) and numeric.decimals is not None and unit != NO_UNIT:
        return replace(numeric, decimals=max(numeric.decimals, _written_decimals(column)))
    return numeric


def _written_decimals(column: pa.ChunkedArray) -> int:
    """Return the largest number of decimals of the first texts: 2 for `$6.50`."""
    texts = distinct_text(column).values[:HEAD].to_pylist()
    return max((len(digits) for text in texts for digits in FRACTION.findall(text)), default=0)


def _dates_as_text(name: str, kind: str, distinct: DistinctText) -> DateTime | None:
    text_format = find_date_format(distinct, MAX_UNREADABLE)
    if text_format is None:
        return None
    per_value = seconds_of_text(distinct.values, text_format)
    unreadable = int(distinct.counts()[np.isnan(per_value)].sum())
    missing = int((distinct.indices < 0).sum()) + unreadable
    written = iso_format(distinct.values[0].as_py()) if text_format == ISO else None
    return DateTime(
        name, kind, text_format, None, missing, unreadable, _find_resolution(per_value), written
    )


def _categorical(name: str, column: pa.ChunkedArray, distinct: DistinctText) -> Column:
    missing, kind = int((distinct.indices < 0).sum()), str(column.type)
    texts, counts = distinct.values.to_pylist(), distinct.counts()
    if not texts:
        return Empty(name, kind, missing)
    if len(texts) == 1:
        return Constant(name, kind, texts[0], missing, len(column))
    order = sorted(range(len(texts)), key=lambda i: (-counts[i], texts[i]))
    levels = [texts[i] for i in order]
    if {text.lower() for text in texts} == {"false", "true"}:
        spelled = {text.lower(): text for text in reversed(levels)}
        return Categorical(name, kind, (spelled["false"], spelled["true"]), True, 0, missing)
    merged = 0
    if len(levels) > MAX_LEVELS:
        merged = len(levels) - (MAX_LEVELS - 1)
        levels = levels[: MAX_LEVELS - 1]
        levels.append(OTHER if OTHER not in levels else f"({OTHER})")
    return Categorical(name, kind, tuple(levels), False, merged, missing)


def _date(name: str, column: pa.ChunkedArray) -> Column:
    kind, zone = str(column.type), getattr(column.type, "tz", None)
    seconds = seconds_of_dates(column)
    if len(_few_distinct(seconds, 1)) == 1:
        text = column.drop_null()[0].cast(pa.string()).as_py()
        return Constant(name, kind, text, column.null_count, len(column))
    resolution = _find_resolution(seconds)
    return DateTime(name, kind, None, zone, column.null_count, resolution=resolution)


def _numeric(
    name: str,
    kind: pa.DataType,
    numbers: Floats,
    unreadable: int,
    *,
    keep: bool,
    unit: Unit = NO_UNIT,
) -> Column:
    present = numbers[~np.isnan(numbers)]
    missing = len(numbers) - len(present)
    if not len(present):
        return Empty(name, str(kind), missing)
    levels = _few_distinct(present, MAX_NUMERIC_LEVELS)
    if len(levels) == 1:
        value = f"{levels[0]:.0f}" if levels[0] % 1 == 0 else repr(levels[0])
        return Constant(name, str(kind), value, missing, len(numbers))
    integer = _are_integers(present)
    if integer and not keep:
        if _are_days(present):
            return DateTime(
                name, str(kind), INTEGER_DAY, None, missing, unreadable, resolution="day"
            )
        if not missing and _is_running(present):
            return Identifier(name, str(kind), "running number")
        if not pa.types.is_temporal(kind) and _are_too_different(present):
            return Identifier(name, str(kind), "unique per row")
    few = len(levels) and len(present) >= MIN_REPEATS * len(levels)
    return Numeric(
        name,
        str(kind),
        integer,
        tuple(levels) if few else None,
        missing,
        unreadable,
        0 if integer else _find_decimals(present, kind),
        *unit,
    )


def _few_distinct(values: Floats, most: int) -> list[float]:
    """Return the sorted distinct numbers, or an empty list if there are more than `most`."""
    for part in _parts(values):
        present = part[~np.isnan(part)] + 0.0  # -0.0 is 0.0
        if len(present) > HEAD:
            present = pc.unique(pa.array(present))
        distinct = (
            {float(value) for value in present.tolist()} if len(present) <= HEAD else present
        )
        if len(distinct) > most:
            return []
    return sorted(distinct)


def _parts(values: Floats) -> tuple[Floats, ...]:
    """Return the first values, which often decide a question, and all values."""
    return (values[:HEAD], values) if len(values) > HEAD else (values,)


def _are_integers(values: Floats) -> bool:
    if values[0] % 1:
        return False
    return bool((values == np.rint(values)).all() and np.abs(values).max() < 2**53)


def _is_running(values: Floats) -> bool:
    step = values[1] - values[0]
    return len(values) >= MIN_IDENTIFIERS and bool((np.diff(values) == step).all())


def _are_days(values: Floats) -> bool:
    return not any(np.isnan(seconds_of_integers(part)).any() for part in _parts(values))


def _are_too_different(values: Floats) -> bool:
    """Return whether integers are all different, although random ones would not be.

    Of n random integers from a range of R, about n² / 2R pairs are equal.
    """
    size = np.ptp(values) + 1
    if len(values) ** 2 / (2 * size) < MIN_COLLISIONS:
        return False
    return len(pc.unique(pa.array(values))) == len(values)


def _find_decimals(values: Floats, kind: pa.DataType) -> int | None:
    """Return the smallest number of decimals that all values have, if there is one."""
    stored = _FLOATS.get(kind, np.float64)
    for decimals in range(MAX_DECIMALS + 1):
        for part in _parts(values):
            if (part.round(decimals).astype(stored) != part.astype(stored)).any():
                break
        else:
            return decimals
    return None


_FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32}


def _find_resolution(seconds: Floats) -> Resolution | None:
    present = seconds[~np.isnan(seconds)]
    for resolution, size in RESOLUTIONS.items():
        if not (present % size).any():
            return resolution
    return None
