"""Write tables in blocks as csv or parquet files."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .schema import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

WRITTEN_SUFFIXES = (".csv", ".parquet")


def write_frames(path: Path, suffix: str, frames: "Iterable[pa.Table]", mark: str = "") -> None:
    """Write blocks of a table into a file.

    Args:
        path: The file.
        suffix: The format, `".csv"` or `".parquet"`.
        frames: The blocks, with the same columns.
        mark: Metadata of a parquet file, by which `is_marked` recognises it.
    """
    if suffix == ".csv":
        _write_csv(path, frames)
        return
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    try:
        for frame in frames:
            if writer is None:
                writer = parquet.ParquetWriter(path, frame.schema.with_metadata({"fdsm": mark}))
            writer.write_table(pa.Table.from_arrays(frame.columns, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _write_csv(path: Path, frames: "Iterable[pa.Table]") -> None:
    """Write csv with quotes only where they are needed, unlike pyarrow's writer."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, frame in enumerate(frames):
            if number == 0:
                writer.writerow(frame.column_names)
            columns = [_as_text(column) for column in frame.columns]
            writer.writerows(zip(*columns, strict=True))


def _as_text(column: "pa.ChunkedArray") -> list[object]:
    """Return cells as text: missing ones empty, `true` and `false`, whole numbers without `.0`."""
    cells: list[object] = column.to_pylist()
    if str(column.type) == "bool":
        words = {None: "", True: "true", False: "false"}
        return [words[cell] for cell in column.to_pylist()]
    if str(column.type) in {"double", "float", "halffloat"}:
        return ["" if cell is None else repr(cell).removesuffix(".0") for cell in cells]
    return cells


def is_marked(path: Path, mark: str, columns: Iterable[str]) -> bool:
    """Return whether a file was written by `write_frames`.

    Args:
        path: The file.
        mark: The metadata of a parquet file.
        columns: Names of columns that a csv file must have.

    Returns:
        Whether the mark or the columns are there.
    """
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        try:
            metadata = parquet.read_schema(path).metadata or {}
        except (pa.ArrowException, OSError):
            return False
        return metadata.get(b"fdsm") == mark.encode()
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header = next(csv.reader(file), [])
    return {name.removeprefix("fdsm_") for name in header}.issuperset(columns)


def cast_text(frame: "pa.Table", schema: TableSchema, as_text: set[str]) -> "pa.Table":
    """Return a table of text with the types of the training data, where all cells can be read.

    Args:
        frame: The table.
        schema: The columns of the training data.
        as_text: Names of columns that stay text.

    Returns:
        The table.
    """
    import pyarrow as pa

    from .encoding import arrow_type

    for column in schema.columns:
        place = frame.schema.get_field_index(column.name)
        if place < 0 or column.name in as_text:
            continue
        try:
            cells = frame.column(place).cast(arrow_type(column.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        frame = frame.set_column(place, column.name, cells)
    return frame
