"""Table files that once caused a traceback, a wait without end, or took too much memory."""

import gzip
import os
from datetime import date, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from fdsm import untrusted
from fdsm.tables.errors import DataError
from fdsm.tables.frame import iter_table, read_table, table_file, text_format
from fdsm.tables.frame.reading import MAX_CELL
from fdsm.tables.schema import TableSchema, training_rows

CSV = "a,b\n" + "".join(f"{i}.5,{i % 7}\n" for i in range(30))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "parquet", "feather", "npy", "npz"])
def test_pipes_devices_folders_and_empty_files_are_refused(tmp_path: Path, suffix: str) -> None:
    """Reading a pipe would wait without end."""
    pipe, empty, device, folder = (
        tmp_path / f"{name}.{suffix}" for name in ("pipe", "empty", "device", "folder")
    )
    os.mkfifo(pipe)
    empty.touch()
    device.symlink_to("/dev/zero")
    folder.mkdir()
    reasons = {pipe: "is a pipe", device: "is a device", empty: "", folder: "is a folder"}
    for path, reason in reasons.items():
        for read in (read_table, lambda path: list(iter_table(path, 10))):
            with pytest.raises(DataError, match=rf"{path.name}.*{reason}"):
                read(path)


def test_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    assert read_table(tmp_path / "link.csv").table.num_rows == 30


def test_cells_may_be_long_but_not_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for size in (131_072 + 1, MAX_CELL):
        path.write_text(CSV.replace("3.5", "x" * size, 1))
        assert read_table(path).table.shape == (30, 2)
    path.write_text(CSV.replace("3.5", "x" * (MAX_CELL + 1), 1))
    message = rf"a\.csv: a cell of column 'a' has {MAX_CELL + 1:,} bytes, more than {MAX_CELL:,}"
    for read in (read_table, lambda path: list(iter_table(path, 10))):
        with pytest.raises(DataError, match=message):
            read(path)


def test_long_cells_of_digits_take_linear_time() -> None:
    """A regular expression of numbers took quadratic time: a day for a cell of 1 MB."""
    detected = text_format.detect_format("a,b\n" + f"{'1' * 10**6}x,2\n" * 3)
    assert detected.names == ("a", "b")


def test_columns_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "MAX_COLUMNS", 30)
    wide = pa.table({f"c{i}": np.arange(20.0) for i in range(31)})
    parquet.write_table(wide, tmp_path / "a.parquet")
    feather.write_feather(wide, tmp_path / "a.feather")
    (tmp_path / "a.csv").write_text(
        "\n".join([",".join(wide.column_names), *[",".join("1" * 31)] * 20])
    )
    np.save(tmp_path / "a.npy", np.zeros((20, 31)))
    for name in ("a.parquet", "a.feather", "a.csv", "a.npy"):
        with pytest.raises(DataError, match="has 31 columns, more than 30"):
            read_table(tmp_path / name)


def test_a_quoted_name_is_shortened_and_neutral(tmp_path: Path) -> None:
    name = "\x1b[31m" + "n" * 10_000
    (tmp_path / "a.csv").write_text(f"{name},{name}\n" + "1,2\n" * 20)
    with pytest.raises(DataError, match="more than one column is called") as raised:
        read_table(tmp_path / "a.csv")
    assert len(str(raised.value)) < 400
    assert "\x1b" not in str(raised.value)


def test_dates_times_and_durations_of_parquet_are_read(tmp_path: Path) -> None:
    rows = range(40)
    frame = pa.table({
        "x": [i * 0.37 % 1 for i in rows],
        "day": [date(2024, 1, 1) + timedelta(days=i * i) for i in rows],
        "far": pa.array([date(1, 1, 1), date(9999, 12, 31)] * 20),
        "time": [time(i % 24, i * 7 % 60) for i in rows],
        "duration": pa.array([timedelta(seconds=i * i) for i in rows], pa.duration("ns")),
        "months": pa.array([(i, i, i) for i in rows], pa.month_day_nano_interval()),
        "stamp": pa.array([2**62 + i * i for i in rows], pa.timestamp("ns")),
    })
    feather.write_feather(frame, tmp_path / "a.feather")
    parquet.write_table(frame.drop_columns(["months"]), tmp_path / "a.parquet")
    for name in ("a.parquet", "a.feather"):
        schema = TableSchema.infer(read_table(tmp_path / name).table)
        names = {column.name for column in schema.used}
        assert names == {"x", "day", "far", "time", "duration", "stamp"}


def test_too_many_cells_for_a_file_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that take almost no space in the file would take 50 bytes each in memory."""
    monkeypatch.setattr(table_file, "FEW_CELLS", 4000)
    x = np.tile([0.5, 1.5, 2.5, 4.0], 5000)
    parquet.write_table(pa.table({"a": x, "b": x[::-1]}), tmp_path / "a.parquet")
    feather.write_feather(pa.table({"a": x, "b": x[::-1]}), tmp_path / "a.feather")
    np.savez_compressed(tmp_path / "a.npz", np.stack([x, x[::-1]], 1).astype(np.float16))
    for name in ("a.parquet", "a.feather", "a.npz"):
        sampled_rows = read_table(tmp_path / name).sampled_rows
        assert sampled_rows is not None
        size = max(4000, (tmp_path / name).stat().st_size)
        assert 0.4 * size < 2 * sampled_rows < 1.3 * size


def test_text_that_is_stored_once_and_used_often_is_not_repeated(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50_000), pa.array(["x" * 10**6, "y"]))
    for frame in (pa.table({"a": texts}), pa.table({"a": texts}).slice(0, 1000)):
        parquet.write_table(frame, tmp_path / "a.parquet")
        with pytest.raises(DataError, match=r"a\.parquet cannot be used: its text expands to"):
            read_table(tmp_path / "a.parquet")


def test_gzip_files_expand_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.gz"
    monkeypatch.setattr(untrusted, "MIN_EXPANDED", 2**17)
    path.write_bytes(gzip.compress(CSV.encode() + b"0.5,1\n" * 30_000))
    for read in (read_table, lambda path: list(iter_table(path, 1000))):
        with pytest.raises(DataError, match=r"a\.csv\.gz expands to more than 131,072 bytes"):
            read(path)
    path.write_bytes(gzip.compress(CSV.encode() + b"0.5,1\n" * 2000))
    assert read_table(path).sampled_rows is None
    monkeypatch.setattr(table_file, "SMALL_TEXT", 1000)
    monkeypatch.setattr(table_file, "MAX_TEXT_EXPANSION", 1)
    assert read_table(path).sampled_rows == 2030


@pytest.mark.parametrize("content", ['"', '"\n"', ",\n", '""', "\x0b\n", ";;;\n;", " \t \n "])
def test_text_without_cells_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=r"a\.csv|rows?, but at least 10 are needed"):
        _train_on(tmp_path / "a.csv")


def _train_on(path: Path) -> None:
    table = read_table(path).table
    training_rows(table, TableSchema.infer(table))
