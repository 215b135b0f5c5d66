"""Types with few functions are replaced, all others stay."""

import pyarrow as pa
import pytest

from fdsm.tables.frame.plain_types import plain_types

DAY = pa.array([0, 1, None, 0], pa.date32())
CASES = {
    "views": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "integers": (pa.array([3, None, 1]).dictionary_encode(), ["3", None, "1"]),
    "fractions": (pa.array([0.5, 2.0]).dictionary_encode(), ["0.5", "2"]),
    "dates": (DAY.dictionary_encode(), ["1970-01-01", "1970-01-02", None, "1970-01-01"]),
}


@pytest.mark.parametrize("name", CASES)
def test_text_replaces_types_with_few_functions(name: str) -> None:
    column, expected = CASES[name]
    frame = plain_types(pa.table({"x": [1.5] * len(column), "c": column}))
    assert frame.column_names == ["x", "c"]
    assert frame["c"].to_pylist() == expected
    assert frame.take([1])["c"].to_pylist() == expected[1:2]


def test_other_columns_are_not_copied() -> None:
    kinds = [pa.array([1, 2]), pa.array(["a", "b"]).dictionary_encode(), pa.array([[1], [2]])]
    table = pa.table(kinds, names=["n", "k", "l"])
    assert plain_types(table) is table
    lists = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([b"\xff"]))
    assert plain_types(pa.table({"b": lists}))["b"].type == lists.type


def test_dictionaries_may_differ_between_chunks() -> None:
    chunks = [pa.array(part).dictionary_encode() for part in ([1, 2], [2, 3])]
    frame = plain_types(pa.table({"c": pa.chunked_array(chunks)}))
    assert frame["c"].to_pylist() == ["1", "2", "2", "3"]
