"""Tests of tables in memory."""

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.frame import frame_from
from fdsm.tables.schema import Categorical, TableSchema

COLUMNS = {"x": [1.5, None, 3.0], "s": ["a", None, "c"]}


def test_dictionaries_and_arrow_tables_are_taken_as_they_are() -> None:
    table = frame_from(COLUMNS)
    assert table.to_pydict() == COLUMNS
    assert frame_from(table) is table
    assert frame_from({1: [2]}).column_names == ["1"]


def test_objects_with_the_arrow_or_dataframe_interface_are_read() -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return frame_from(COLUMNS).__arrow_c_stream__(requested_schema)

    class Interchange:
        def __dataframe__(self, **options: bool) -> object:
            return frame_from(COLUMNS).__dataframe__(**options)

    for table in (Stream(), Interchange(), pa.RecordBatch.from_pydict(COLUMNS)):
        assert frame_from(table).to_pydict() == COLUMNS


def test_arrays_have_columns_by_position() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    assert frame_from(values).to_pydict() == {"0": [1.0, 3.0], "1": [None, 4.0]}
    assert frame_from(values.tolist()).column("0").to_pylist() == [1.0, 3.0]
    mixed = np.array([[1, "x"], [2.5, None]], dtype=object)
    assert frame_from(mixed).to_pydict() == {"0": [1.0, 2.5], "1": ["x", None]}
    assert frame_from(np.array([["a", "b"]])).to_pydict() == {"0": ["a"], "1": ["b"]}


def test_a_column_of_mixed_types_is_text() -> None:
    class HasColumns:
        columns = ("a", "b")

        def __getitem__(self, name: object) -> list[object]:
            return {"a": [1, "x", None, np.nan], "b": [1, 2, 3, 4]}[str(name)]

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise pa.ArrowInvalid("mixed types")

    expected = {"a": ["1", "x", None, None], "b": [1, 2, 3, 4]}
    assert frame_from(HasColumns()).to_pydict() == expected
    assert frame_from({"a": [1, "x", None, np.nan], "b": [1, 2, 3, 4]}).to_pydict() == expected


def test_numbers_that_arrow_cannot_hold_are_text_or_float64() -> None:
    """Integers beyond 64 bits, and numpy's type of 80 bits."""
    large = [2**70, 2**70 + 10**18, None]
    assert frame_from({"n": large}).column("n").to_pylist() == [str(large[0]), str(large[1]), None]
    assert frame_from(np.full((2, 1), 0.5, np.longdouble)).column("0").to_pylist() == [0.5, 0.5]


def test_pandas_columns_that_arrow_refuses_are_read_or_explained() -> None:
    pd = pytest.importorskip("pandas")
    sparse = pd.DataFrame({"x": pd.arrays.SparseArray([0.0, 1.5]), "m": [1, "a"]})
    assert frame_from(sparse).to_pydict() == {"x": [0.0, 1.5], "m": ["1", "a"]}
    with pytest.raises(DataError, match="column 'z' has complex numbers"):
        frame_from(pd.DataFrame({"z": [1j, 2j]}))
    with pytest.raises(DataError, match="a Series is not a table"):
        frame_from(pd.Series([1.0, 2.0]))


@pytest.mark.parametrize("values", [[3, 1, 3], [True, False, True], [0.5, 1.0, 0.5]])
def test_categories_of_pandas_are_categories_whatever_their_values(values: list[object]) -> None:
    pd = pytest.importorskip("pandas")
    frame = frame_from(pd.DataFrame({"c": pd.Categorical(values * 5)}))
    (column,) = TableSchema.infer(frame).columns
    assert isinstance(column, Categorical)
    texts = [str(v).lower().removesuffix(".0") for v in values]
    assert sorted(column.levels) == sorted(set(texts))
    assert frame.column("c").to_pylist() == texts * 5


def test_other_objects_raise_with_advice() -> None:
    class Lazy:
        def collect(self) -> dict[str, list[object]]:
            return COLUMNS

    with pytest.raises(DataError, match=r"a Lazy has no rows yet.*collect\(\)"):
        frame_from(Lazy())
    with pytest.raises(DataError, match=r"a ndarray of shape \(3,\) and type float64 is not a"):
        frame_from(np.ones(3))
    with pytest.raises(DataError, match="a str of shape"):
        frame_from("table.csv")
    with pytest.raises(DataError, match=r"different numbers of rows: 'a' 1, 'b' 2\. Give"):
        frame_from({"a": [1], "b": [1, 2]})
    for cell in (5, "text", {"x": 1}):
        with pytest.raises(DataError, match=r"^column 'a' has the type \w+, but must be a list"):
            frame_from({"a": cell, "b": cell})
    with pytest.raises(DataError, match=r"rows: 'c0' 1, .*, 'c4' 1 and 195 more\. Give columns"):
        frame_from({f"c{i}": [0] * (1 + i % 2) for i in range(200)})
    with pytest.raises(DataError, match="more than one column is called 'a'"):
        frame_from(pa.table([[1], [2]], names=["a", "a"]))


def test_pandas_tables_are_read_without_the_index() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "x": [1.5, None, 3.0],
            "s": ["a", None, "c"],
            "c": pd.Categorical(["u", "v", "u"]),
            "d": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "m": [1, "two", None],
        },
        index=[10, 20, 40],
    )
    table = frame_from(frame)
    assert table.column_names == ["x", "s", "c", "d", "m"]
    assert table.column("x").to_pylist() == [1.5, None, 3.0]
    assert table.column("s").to_pylist() == ["a", None, "c"]
    assert table.column("c").to_pylist() == ["u", "v", "u"]
    assert table.column("d").null_count == 1
    assert table.column("m").to_pylist() == ["1", "two", None]
    clean = frame_from(frame[["x", "c"]])
    assert clean.column_names == ["x", "c"]
    repeated = pd.DataFrame([[1, "a"], [2, 3]], columns=["a", "a"])
    with pytest.raises(DataError, match="more than one column is called 'a'"):
        frame_from(repeated)


@pytest.mark.parametrize("text", [pa.string_view(), pa.dictionary(pa.int8(), pa.string_view())])
def test_string_views_are_read_as_strings(text: pa.DataType) -> None:
    """Arrow cannot take rows of string views, which polars and newer databases return."""
    words = pa.array(["a", "b", None, "a"])
    if pa.types.is_dictionary(text):
        encoded = words.dictionary_encode()
        views = encoded.dictionary.cast(pa.string_view())
        words = pa.DictionaryArray.from_arrays(encoded.indices, views)
    frame = frame_from(pa.table({"s": words.cast(text) if text == pa.string_view() else words}))
    assert frame.take([3, 2, 1]).to_pydict() == {"s": ["a", None, "b"]}


def test_polars_tables_are_read_and_lazy_ones_raise() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(COLUMNS | {"c": pl.Series(["u", "v", "u"], dtype=pl.Categorical)})
    assert frame_from(frame).select(["x", "s"]).to_pydict() == COLUMNS
    assert frame_from(frame).column("c").to_pylist() == ["u", "v", "u"]
    with pytest.raises(DataError, match=r"a LazyFrame has no rows yet.*collect\(\)"):
        frame_from(frame.lazy())


def test_a_series_raises_without_its_values() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match=r"^a Series is not a table\. Give a pandas, [^\n]*$"):
        frame_from(pd.Series(["secret"] * 100))
