"""Tests of the declared sizes of arrow messages against the sizes that pyarrow allocates."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import feather

from fdsm.tables.errors import DataError
from fdsm.tables.frame import read_table
from fdsm.tables.frame.arrow_messages import decompressed_size


def messages(path: Path) -> list["pa.ipc.Message"]:
    source, found = pa.memory_map(str(path)), []
    source.seek(8)
    try:
        while True:
            found.append(pa.ipc.read_message(source))
    except EOFError:
        return found


@pytest.mark.parametrize("compression", ["zstd", "lz4", "uncompressed"])
def test_the_size_is_that_of_the_table_in_memory(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.feather"
    kinds = pa.array(["a", "b"] * 50_000).dictionary_encode()
    table = pa.table({"x": np.zeros(100_000), "kind": kinds, "text": ["xyz"] * 100_000})
    feather.write_feather(table, path, compression=compression)
    size = sum(map(decompressed_size, messages(path)))
    assert size == pytest.approx(feather.read_table(path).nbytes, rel=0.01)
    assert compression == "uncompressed" or path.stat().st_size < size / 4


def test_an_arrow_file_that_expands_too_much_is_refused_without_decompression(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.feather"
    feather.write_feather(pa.table({"x": np.zeros(2**25)}), path, compression="zstd")
    allocated = pa.total_allocated_bytes()
    with pytest.raises(DataError, match=r"bomb\.feather cannot be used: it expands to more than"):
        read_table(path)
    assert pa.total_allocated_bytes() - allocated < 2**20


def test_damaged_metadata_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    feather.write_feather(pa.table({"x": np.arange(100.0)}), path, compression="zstd")
    content = path.read_bytes()
    for place in range(8, 400):
        path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        with suppress(DataError):  # no other error, and no crash
            read_table(path)
