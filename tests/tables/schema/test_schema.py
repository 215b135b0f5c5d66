"""Tests of TableSchema."""

import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.frame import frame_from
from fdsm.tables.schema import Categorical, Constant, DateTime, Ignored, Numeric, TableSchema

FRAME = frame_from({
    "id": list(range(12)),
    "height": [1.5, None, 1.25, 1.0, 0.5, 2.5, 3.0, 4.5, 5.25, 6.5, 7.5, 8.25],
    "plz": [10, 20, 30, 10] * 3,
    "kind": ["a", "b", "a", "a"] * 3,
    "unit": ["kg"] * 12,
    "gap": [None] * 12,
    "note": ["x", "y", "z", "x"] * 3,
})


def test_the_user_overrules_columns() -> None:
    schema = TableSchema.infer(FRAME, categorical=["plz"], numeric=["id"], ignore=["note", "kind"])
    assert schema.names == tuple(FRAME.column_names)
    assert schema.columns[-1] == Ignored("note", "string")
    assert [column.name for column in schema.used] == ["id", "height", "plz"]
    assert schema.num_levels == (0, 0, 3)
    assert schema.encode(FRAME)[0][2].tolist() == [2.0, 1.25, 2.0]


def test_unknown_and_contradicting_names_raise_one_error() -> None:
    with pytest.raises(DataError, match="the columns cannot be selected") as caught:
        TableSchema.infer(
            FRAME,
            categorical=["kind"],
            numeric=["kind", "qqq"],
            ignore=["heigth", "id", "id"],
        )
    lines = str(caught.value).splitlines()[1:]
    assert lines == [
        "- numeric: there is no column 'qqq'",
        "- ignore: there is no column 'heigth'. Did you mean 'height'?",
        "- ignore: column 'id' is given more than once",
        "- column 'kind' is given as categorical and as numeric",
        "The table has 'id', 'height', 'plz', 'kind', 'unit', 'gap', 'note'",
    ]
    assert caught.value.setting == "columns"


def test_the_description_counts_each_type() -> None:
    assert TableSchema.infer(FRAME).describe() == (
        "2 numeric (height, plz), 2 categorical (kind, note), 1 constant (unit), 1 empty (gap), "
        "1 ignored (id: running number)"
    )
    names = [f"x{i}" for i in range(13)]
    numbers = tuple(map(Numeric, names))
    assert TableSchema(numbers[:12]).describe() == f"12 numeric ({', '.join(names[:12])})"
    assert TableSchema(numbers).describe() == "13 numeric columns"
    many = TableSchema(tuple(Categorical(f"c{i}", "string", ("a", "b")) for i in range(7)))
    assert many.describe() == "7 categorical (c0, c1, c2, c3, c4 and 2 more)"


def test_the_summary_has_the_details_of_each_column() -> None:
    assert TableSchema.infer(FRAME).summary() == [
        ("id", "Identifier", "running number", 0),
        ("height", "Numeric", "", 1),
        ("plz", "Numeric", "integer, 3 levels", 0),
        ("kind", "Categorical", "2 categories: a, b", 0),
        ("unit", "Constant", "always kg", 0),
        ("gap", "Empty", "all cells are missing", 12),
        ("note", "Categorical", "3 categories: x, y, z", 0),
    ]
    others = TableSchema((
        Numeric("n", "string", unreadable=1200, missing=1300),
        Categorical("c", "string", tuple("abcdefg"), merged=11),
        DateTime("d", "string", "%d.%m.%Y", unreadable=2),
        DateTime("e", "date32[day]", resolution="day"),
        Ignored("f", "string", "free text"),
    ))
    assert [row[2] for row in others.summary()] == [
        "1,200 cells are not numbers",
        "7 categories (11 rare ones merged): a, b, c, d, e, …",
        "%d.%m.%Y, 2 cells are not dates",
        "to the day",
        "free text",
    ]


def test_details_have_the_unit_and_the_share_of_gaps() -> None:
    schema = TableSchema((
        Numeric("w", "string", integer=True, suffix=" kg", levels=(1.0, 2.0)),
        Constant("k", "string", "kg", missing=3, rows=24),
    ))
    assert [text for _, _, text, _ in schema.summary()] == [
        "integer, unit kg, 2 levels", "always kg, 12.5 % missing",
    ]  # fmt: skip
