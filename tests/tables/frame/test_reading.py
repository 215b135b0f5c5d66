"""Tests of table files of all formats."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from fdsm.tables.errors import DataError
from fdsm.tables.frame import iter_table, read_table
from fdsm.tables.frame.reading import count_cells, parse_frame
from fdsm.tables.frame.table_file import sample_table
from fdsm.tables.schema import Numeric, TableSchema

TABLE = pa.table({
    "x": pa.array([1.5, None, 3.0, -2.0, 0.25]),
    "n": pa.array([1, 2, None, 4, 5], pa.int16()),
    "s": ["a", "b", "a", None, "c"],
    "day": pa.array([0, 1, 2, 3, None], pa.date32()),
})


def write(path: Path) -> Path:
    """Write the table in the format of the suffix."""
    match path.suffix:
        case ".parquet" | ".pq":
            parquet.write_table(TABLE, path, row_group_size=2)
        case ".feather":
            feather.write_feather(TABLE, path)
        case ".arrow":
            with ipc.new_stream(path, TABLE.schema) as stream:
                stream.write_table(TABLE)
    return path


BINARY = ["a.parquet", "a.pq", "a.feather", "a.arrow"]


@pytest.mark.parametrize("name", BINARY)
def test_binary_formats_keep_values_and_types(tmp_path: Path, name: str) -> None:
    table = read_table(write(tmp_path / name)).table
    assert table.schema.types == TABLE.schema.types
    assert table.to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_binary_formats_are_read_in_blocks(tmp_path: Path, name: str, rows: int) -> None:
    blocks = [frame.table for frame in iter_table(write(tmp_path / name), rows)]
    assert all(0 < block.num_rows <= rows for block in blocks)
    assert pa.concat_tables(blocks).to_pydict() == TABLE.to_pydict()


def test_version_1_of_feather_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    path.write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    for read in (read_table, lambda path: list(iter_table(path, 10))):
        with pytest.raises(DataError, match=r"a\.feather is not .* version 1 .* Write or"):
            read(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow"])
def test_types_with_few_functions_are_plain_and_the_original_is_kept(
    tmp_path: Path, name: str
) -> None:
    """String views and dictionaries of numbers can be encoded and are written as they were."""
    views = pa.array(["u", "v", "u"], pa.string_view())
    table = pa.table({"s": views, "k": pa.array([3, 1, 3]).dictionary_encode()})
    match name:
        case "a.parquet":
            parquet.write_table(table, tmp_path / name)
        case "a.feather":
            feather.write_feather(table, tmp_path / name)
        case _:
            with ipc.new_stream(tmp_path / name, table.schema) as stream:
                stream.write_table(table)
    (block,) = iter_table(tmp_path / name, 10)
    assert block.original.schema.field("s").type == pa.string_view()
    for found in (read_table(tmp_path / name).table, block.table):
        assert found.take([2, 1])["s"].to_pylist() == ["u", "v"]
        codes, _ = TableSchema((Numeric("k"),)).encode(found)
        assert codes.tolist() == [[3.0], [1.0], [3.0]]


@pytest.mark.parametrize("name", ["a.csv", "a.CSV.gz", "a.tsv", "a.txt", "a.data.gz"])
def test_text_may_be_compressed(tmp_path: Path, name: str) -> None:
    content = b"a,b\n1,x\n2,y\n3,z\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_table(path).table.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    blocks = [frame.table.to_pydict() for frame in iter_table(path, 2)]
    assert blocks == [{"a": ["1", "2"], "b": ["x", "y"]}, {"a": ["3"], "b": ["z"]}]


def test_rows_of_another_length_raise_one_error_that_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 20 + "3\n" * 7 + "1,2,3\n")
    with pytest.raises(
        DataError,
        match=r"a\.csv cannot be used as it is: 8 of 28 rows have a wrong number of cells: row 21 "
        r"has 1 cells instead of 2, row 22 .*, row 25 has 1 cells instead of 2 and 3 more\.",
    ):
        read_table(path)


def test_damaged_files_raise(tmp_path: Path) -> None:
    for name in BINARY:
        path = write(tmp_path / name)
        whole = path.read_bytes()
        for content in (b"x", whole[:50], whole[: len(whole) // 2]):
            path.write_bytes(content)
            with pytest.raises(DataError, match=r"is not a readable (parquet|arrow) file"):
                read_table(path)
            with pytest.raises(DataError, match=r"is not a readable (parquet|arrow) file"):
                list(iter_table(path, 10))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-12])
    with pytest.raises(DataError, match=r"a\.csv\.gz is damaged"):
        read_table(path)
    with pytest.raises(DataError, match=r"a\.csv\.gz is damaged"):
        list(iter_table(path, 10))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather"])
def test_empty_files_and_tables_raise(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="is empty"):
        parse_frame(b"", Path(name))
    if name == "a.parquet":
        path = tmp_path / name
        parquet.write_table(TABLE.slice(0, 0), path)
        with pytest.raises(DataError, match="has 4 columns but no rows"):
            read_table(path)


def test_columns_of_the_same_name_raise(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    table = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    for read in (read_table, lambda p: list(iter_table(p, 1))):
        with pytest.raises(DataError, match="more than one column is called 'a'"):
            read(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sample_of_a_small_file_is_the_whole_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    table = pa.table({"x": list(range(100))})
    (csv.write_csv if suffix == ".csv" else parquet.write_table)(table, path)
    found = sample_table(path, 100, seed=0, block=30)
    assert [int(x) for x in found["x"].to_pylist()] == list(range(100))


def test_every_row_is_sampled_with_the_same_probability(tmp_path: Path) -> None:
    """At most 20 of 64 rows: a quarter of them on average, in the order of the file."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": list(range(64))}), path)
    counts = np.zeros(64)
    sizes = []
    for seed in range(400):
        found = sample_table(path, 20, seed, block=10)["x"].to_pylist()
        assert found == sorted(found)
        assert len(found) <= 20
        counts[found] += 1
        sizes.append(len(found))
    share = np.mean(sizes) / 64
    assert 0.2 < share < 0.3
    deviation = np.sqrt(share * (1 - share) / 400)
    assert np.abs(counts / 400 - share).max() < 4 * deviation
    thirds = counts.reshape(4, 16).mean(1) / 400
    assert np.abs(thirds - share).max() < 0.03
    again, other = (sample_table(path, 20, seed, block=10) for seed in (7, 8))
    assert again.equals(sample_table(path, 20, 7, block=10))
    assert not again.equals(other)


def test_large_file_without_rows_and_with_ragged_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    with pytest.raises(DataError, match="rows"):
        sample_table(path, 10, seed=0)
    ragged = tmp_path / "a.csv"
    ragged.write_text("a,b\n1,2\n3\n4,5\n")
    with pytest.raises(DataError, match="wrong number of cells"):
        sample_table(ragged, 10, seed=0)


def test_the_cells_of_a_parquet_file_are_counted(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": range(5), "b": range(5)}), tmp_path / "a.parquet")
    assert count_cells(tmp_path / "a.parquet") == 10
    assert count_cells(tmp_path / "a.csv") is None
    (tmp_path / "b.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match="is not a readable parquet file"):
        count_cells(tmp_path / "b.parquet")
