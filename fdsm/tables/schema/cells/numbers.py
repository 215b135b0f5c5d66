"""Cells of a column as numbers, also with a unit such as `12 kg` or `$1,200`."""

import re
from typing import NamedTuple
from unicodedata import category

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .text import DistinctText, Floats, as_large_text, distinct_text, without_gaps

LARGEST = float(np.finfo(np.float32).max)
"""Numbers above this size cannot be inputs of a model."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?\d{1,3}([ ,'\x{a0}\x{202f}]\d{3})+(\.\d+)?$"
_SEPARATORS = r"[ ,'\x{a0}\x{202f}]"
_NEGATIVE = r"^\(\s*([^()+-]+?)\s*\)$"
_CODE = r"^0\d+$"
_SPACES, _BLANKS = r"[\s\x{a0}\x{202f}]*", " \t\n\f\r\u00a0\u202f"
_CURRENCIES = (
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "INR", "JPY",
    "KRW", "MXN", "NOK", "NZD", "PLN", "RUB", "SEK", "SGD", "TRY", "USD", "ZAR",
)  # fmt: skip
_NON_ASCII = r"\x{a1}-\x{202e}\x{2030}-\x{10ffff}"
_WITH_UNIT = (
    rf"^[(+-]{{0,2}}(?P<prefix>(?:[A-Z]{{0,3}}[${_NON_ASCII}]?{_SPACES})?)"
    rf"[(+-]?(?:\d[\d.,' \x{{a0}}\x{{202f}}]*?|\.\d+)(?P<suffix>{_SPACES}"
    rf"(?:[A-Za-z%${_NON_ASCII}][A-Za-z%/^. {_NON_ASCII}]{{0,11}}[23]?)?)\)?$"
)
"""A number between two texts that may be a unit, which `_is_unit` decides: pyarrow compiles the
expression for each column, and classes such as `\\pL` would make that 100 times slower."""
MIN_WITH_UNIT = 0.5
"""Smallest fraction of the cells of a column with a unit that have the unit."""


class Unit(NamedTuple):
    """The text around the numbers of a column.

    Attributes:
        prefix: Text before the number, such as `"$"` or `"EUR "`.
        suffix: Text after the number, such as `"%"` or `" kg"`.
    """

    prefix: str = ""
    suffix: str = ""


NO_UNIT = Unit()


def find_unit(distinct: DistinctText) -> Unit:
    """Return the unit that most cells of a column have.

    Args:
        distinct: The distinct texts of the column.

    Returns:
        The unit, or `NO_UNIT`. Before the number there can only be a currency.

    Example:
        >>> find_unit(distinct_text(pa.chunked_array([["12 kg", "7.5 kg", "error"]])))
        Unit(prefix='', suffix=' kg')
    """
    distinct = without_gaps(distinct)
    plain = pc.match_substring_regex(distinct.values, _NUMBER)
    matches = pc.extract_regex(pc.if_else(plain, None, distinct.values), _WITH_UNIT)
    counts: dict[Unit, int] = {}
    for parts, count in zip(matches.to_pylist(), distinct.counts().tolist(), strict=True):
        if parts is not None and _is_unit(unit := Unit(**parts)):
            counts[unit] = counts.get(unit, 0) + count
    if not counts:
        return NO_UNIT
    best = max(counts, key=counts.__getitem__)
    same = sum(n for unit, n in counts.items() if _stripped(unit) == _stripped(best))
    return best if same >= MIN_WITH_UNIT * distinct.counts().sum() else NO_UNIT


def numbers_of_text(
    column: pa.ChunkedArray, unit: Unit = NO_UNIT
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a column of text as numbers.

    Args:
        column: The column.
        unit: Text that may be around the numbers.

    Returns:
        The numbers, NaN where a cell is missing or not a finite number, and which cells are not
        missing but unreadable. Numbers may have separators of thousands, such as `1,234.5`, and
        `(5)` is -5.
    """
    column = as_large_text(column)
    try:
        numbers = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(column, _NUMBER).fill_null(False)
        numbers = np.array(pc.if_else(plain, column, None).cast(pa.float64()).to_numpy())
        rows = np.flatnonzero(~plain.to_numpy())
        rest = without_gaps(distinct_text(column.take(pa.array(rows))))
        numbers[rows] = rest.spread(parse_numbers(rest.values, unit))
        unreadable = np.isnan(finite(numbers))
        unreadable[rows] &= rest.indices >= 0
        return finite(numbers), unreadable
    missing = np.isnan(numbers)
    numbers = finite(numbers)
    return numbers, np.isnan(numbers) & ~missing


def parse_numbers(values: pa.Array, unit: Unit = NO_UNIT) -> Floats:
    """Return texts without surrounding spaces as numbers, NaN where they are not finite ones."""
    values = pc.replace_substring_regex(_without_unit(values, unit), _NEGATIVE, r"-\1")
    plain = pc.match_substring_regex(values, _NUMBER)
    grouped = pc.match_substring_regex(values, _THOUSANDS)
    joined = pc.replace_substring_regex(values, _SEPARATORS, "")
    text = pc.case_when(pc.make_struct(plain, grouped), values, joined)
    return finite(text.cast(pa.float64()).to_numpy(zero_copy_only=False))


def has_codes(column: pa.ChunkedArray | pa.Array) -> bool:
    """Return whether a column of text has digits with leading zeros, such as `02139`."""
    text = pc.utf8_trim_whitespace(as_large_text(column))
    text = text.filter(pc.starts_with(text, "0"))
    return bool(pc.any(pc.match_substring_regex(text, _CODE)).as_py())


def numbers_of_column(column: pa.ChunkedArray) -> Floats:
    """Return a column of a numeric type as numbers, NaN where a cell is missing or not finite."""
    if pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        width = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
        column = column.cast(width)
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    return finite(column.to_numpy())


def finite(values: Floats) -> Floats:
    """Return the numbers with NaN instead of numbers that a model cannot use."""
    usable = np.abs(values) <= LARGEST
    return values if usable.all() else np.where(usable, values, np.nan)


def _is_unit(unit: Unit) -> bool:
    """Return whether the text before a number is a currency and that after it a unit, or empty."""
    currency, name = unit.prefix.rstrip(_BLANKS), unit.suffix.lstrip(_BLANKS)
    if unit.prefix and currency not in _CURRENCIES and category(currency[-1:] or " ") != "Sc":
        return False
    if not name:
        return bool(currency)
    named = name[0].isalpha() or name[0] in "%‰°" or category(name[0]) == "Sc"
    return named and all(c.isalpha() or c in "%°/²³·^. 23" for c in name[1:])


def _stripped(unit: Unit) -> Unit:
    return Unit(unit.prefix.strip(), unit.suffix.strip())


def _without_unit(values: pa.Array, unit: Unit) -> pa.Array:
    """Remove the unit from texts. Signs and brackets stay."""
    prefix, suffix = map(re.escape, _stripped(unit))
    if prefix:
        pattern = rf"^([(+-]{{0,2}}){_SPACES}{prefix}{_SPACES}"
        values = pc.replace_substring_regex(values, pattern, r"\1")
    if suffix:
        values = pc.replace_substring_regex(values, rf"{_SPACES}{suffix}(\)?)$", r"\1")
    return values
