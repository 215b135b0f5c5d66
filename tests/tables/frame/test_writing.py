"""Tables are written in blocks, as csv or parquet, and recognized again."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from fdsm.tables.errors import DataError
from fdsm.tables.frame import frame_from
from fdsm.tables.frame.writing import cast_text, is_marked, uncastable, write_frames
from fdsm.tables.schema import TableSchema

BLOCKS = [
    pa.table({"x": [1, 2], "kind": ["a", 'say "b", c']}),
    pa.table({"x": [3], "kind": [None]}, schema=pa.schema([("x", "int64"), ("kind", "string")])),
]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_blocks_are_one_table(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_frames(path, suffix, BLOCKS, "scores")
    read = csv.read_csv(path) if suffix == ".csv" else parquet.read_table(path)
    assert read["x"].to_pylist() == [1, 2, 3]
    assert [value or None for value in read["kind"].to_pylist()] == ["a", 'say "b", c', None]


def test_only_cells_that_need_quotes_have_them(tmp_path: Path) -> None:
    write_frames(tmp_path / "t.csv", ".csv", BLOCKS)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "x,kind"
    assert lines[1:] == ["1,a", '2,"say ""b"", c"', "3,"]


def test_dates_and_durations_that_python_cannot_represent_are_written(tmp_path: Path) -> None:
    days = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    seconds = pa.array([2**62, None]).cast(pa.duration("s"))
    write_frames(tmp_path / "t.csv", ".csv", [pa.table({"day": days, "time": seconds})])
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[1:] == [f"<value out of range: {2**31 - 1}>,{2**62}", "1970-01-01,"]


def test_files_are_recognized_by_mark_or_columns(tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        write_frames(tmp_path / f"t{suffix}", suffix, BLOCKS, "scores")
    assert is_marked(tmp_path / "t.parquet", "scores", ["anything"])
    assert not is_marked(tmp_path / "t.parquet", "other", ["x"])
    assert is_marked(tmp_path / "t.csv", "scores", ["kind"])
    assert not is_marked(tmp_path / "t.csv", "scores", ["kind", "p_value"])
    (tmp_path / "f.parquet").write_bytes(b"no table")
    assert not is_marked(tmp_path / "f.parquet", "scores", [])


def test_text_gets_the_types_of_the_training_data() -> None:
    schema = TableSchema.infer(
        frame_from({"n": [1, 2, 4, 3], "x": [0.5, 1.0, 2.0, 2.5], "k": ["a", "b", "a", "b"]})
    )
    text = pa.table({"n": ["7", None], "x": ["0.25", "1e3"], "k": ["a", "c"], "other": ["u", "v"]})
    read = cast_text(text, schema, as_text=set())
    assert [str(field.type) for field in read.schema] == ["int64", "double", "string", "string"]
    assert read.to_pydict() == {
        "n": [7, None],
        "x": [0.25, 1000.0],
        "k": ["a", "c"],
        "other": ["u", "v"],
    }


def test_columns_with_unreadable_cells_stay_text() -> None:
    """Missing markers do not make a column text, but unreadable cells and types do."""
    columns = {"n": [1, 2, 4, 3], "m": [1, 2, 4, 3], "gone": [None] * 4}
    schema = TableSchema.infer(frame_from(columns))
    text = pa.table({"n": [" 7", "NA"], "m": ["12 kg", "3"], "gone": ["x", None]})
    assert uncastable(text, schema) == {"m", "gone"}
    read = cast_text(text, schema, as_text={"m", "gone"})
    assert read.to_pydict() == {"n": [7, None], "m": ["12 kg", "3"], "gone": ["x", None]}
    assert [str(kind) for kind in read.schema.types] == ["int64", "string", "string"]


def test_types_that_parquet_cannot_hold_raise(tmp_path: Path) -> None:
    interval = pa.array([pa.MonthDayNano([1, 2, 3])])
    with pytest.raises(DataError, match=r"cannot be written as \.parquet: .*month.*Use \.csv"):
        write_frames(tmp_path / "t.parquet", ".parquet", [pa.table({"i": interval})])


def test_a_header_of_any_length_is_not_mistaken_for_scores(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x" * 200_000)
    assert not is_marked(path, "scores", ["p_value"])
