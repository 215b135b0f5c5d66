from datetime import date

import pytest

from benchmarks.mixed_tables.errors import (
    Row,
    plant,
    repeat_first_digit,
    repeated_digit,
    shift_years,
    swapped,
    wrong_category,
    wrong_date,
    wrong_unit,
)

ROW: Row = {"a": 4.7, "b": 30, "day": date(2012, 2, 29), "sky": "sun"}


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (wrong_unit("a", lambda x: 1000 * x), {"a": 4700}),
        (swapped("a", "b"), {"a": 30, "b": 4.7}),
        (wrong_category("sky", "snow", lambda row: row["b"] > 20), {"sky": "snow"}),
        (wrong_date("day", 90), {"day": date(2102, 2, 28)}),
        (repeated_digit("a"), {"a": 44.7}),
    ],
)
def test_an_error_changes_its_columns(error: object, changed: Row) -> None:
    assert error.applies(ROW)
    assert error.change(ROW) == pytest.approx(changed)
    assert set(error.columns) == changed.keys()


@pytest.mark.parametrize(
    "error",
    [
        wrong_unit("a", lambda x: x),
        swapped("a", "b", lambda row: row["a"] > row["b"]),
        wrong_category("sky", "sun", lambda row: True),
        repeated_digit("missing"),
    ],
)
def test_an_error_that_cannot_be_recognized_does_not_apply(error: object) -> None:
    assert not error.applies(ROW | {"missing": None})


@pytest.mark.parametrize(
    ("value", "repeated"), [(18, 118), (0.045, 0.0445), (-12.5, -112.5), (0.0, 0.0)]
)
def test_the_first_digit_is_repeated(value: float, repeated: float) -> None:
    assert repeat_first_digit(value) == repeated
    assert type(repeat_first_digit(value)) is type(value)


def test_a_date_keeps_its_day_in_another_year() -> None:
    assert shift_years(date(1970, 3, 5), -100) == date(1870, 3, 5)


def test_kinds_are_planted_equally_often_and_other_rows_are_unchanged() -> None:
    rows: list[Row] = [{"a": float(i + 1), "b": -1.0} for i in range(200)]
    errors = [wrong_unit("a", lambda x: 1000 * x), swapped("a", "b")]
    changed, planted = plant(rows, errors, 10, seed=0)
    assert [error.kind for error in planted.values()].count("swapped columns") == 5
    assert len(planted) == 10
    for index, row in enumerate(rows):
        expected = row | planted[index].change(row) if index in planted else row
        assert changed[index] == expected
        assert (changed[index] != row) == (index in planted)
    assert plant(rows, errors, 10, seed=0)[1].keys() == planted.keys()
    assert plant(rows, errors, 10, seed=1)[1].keys() != planted.keys()


def test_too_few_rows_for_an_error_are_refused() -> None:
    errors = [wrong_category("a", "x", lambda row: False)]
    with pytest.raises(ValueError, match="no row is left for the error 'wrong category'"):
        plant([{"a": "y"}] * 40, errors, 10, seed=0)
