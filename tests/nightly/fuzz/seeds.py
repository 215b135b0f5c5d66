"""Small valid files of every format that fdsm reads, from which the fuzzer starts."""

import csv
import gzip
import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from fdsm.tables import TableModel
from fdsm.tables.scoring import score_file

from ...cli.cli_cases import write_messy

ROWS = 40


def write_seeds(folder: Path) -> Path:
    """Write all seeds into a folder, one subfolder for each kind. A model is trained for a second.

    Returns:
        The folder.
    """
    for write in (_write_tables, _write_arrays, _write_model):
        write(folder)
    return folder


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir(parents=True, exist_ok=True)
    return parent / name


def _write_tables(parent: Path) -> None:
    folder = _folder(parent, "tables")
    text = write_messy(folder / "t.csv", ROWS).read_bytes()
    text = text.replace(b" ", b"-").replace(b",\n", b",NA\n")
    (folder / "t.csv").write_bytes(text)
    (folder / "t.tsv").write_bytes(text.replace(b",", b"\t"))
    (folder / "t.txt").write_bytes(text.replace(b",,", b",NA,").replace(b",", b" "))
    (folder / "semicolon.data").write_bytes(text.replace(b",", b";").replace(b".", b","))
    (folder / "t.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    rows = [
        {name: cell for name, cell in row.items() if cell} | {"length": float(row["length"])}
        for row in csv.DictReader(text.decode().split())
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "t.json").write_text(json.dumps(rows, indent=1))
    (folder / "t.jsonl").write_bytes(lines)
    (folder / "t.ndjson.gz").write_bytes(gzip.compress(lines, mtime=0))
    table = typed_table()
    parquet.write_table(table, folder / "t.parquet")
    mixed = arrow_csv.read_csv(folder / "t.csv")
    parquet.write_table(mixed, folder / "mixed.parquet", compression="zstd")
    feather.write_feather(mixed, folder / "mixed.feather", compression="zstd")
    feather.write_feather(table, folder / "t.feather", compression="lz4")
    feather.write_feather(table, folder / "plain.feather", compression="uncompressed")
    with pa.ipc.new_stream(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table)


def typed_table(rows: int = ROWS) -> pa.Table:
    """Return a table with a column of each type that files can have."""
    x = np.random.default_rng(0).normal(size=rows)
    day, moment = date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)
    return pa.table({
        "x": x,
        "half": pa.array(x.astype(np.float16)),
        "n": pa.array(range(rows), pa.int32()),
        "kind": pa.array(["a", "b", None, "c"] * (rows // 4)).dictionary_encode(),
        "text": [f"text {i % 7}" for i in range(rows)],
        "flag": [i % 3 == 0 for i in range(rows)],
        "day": [day + timedelta(days=i * i) for i in range(rows)],
        "moment": [moment + timedelta(hours=i * i) for i in range(rows)],
        "time": [time(i % 24, i % 60) for i in range(rows)],
        "duration": pa.array([timedelta(minutes=i * i) for i in range(rows)], pa.duration("us")),
        "price": pa.array([i * i for i in range(rows)], pa.decimal128(12, 2)),
        "list": [[i] * (i % 3) for i in range(rows)],
        "struct": [{"a": i, "b": str(i)} for i in range(rows)],
        "binary": [bytes([i]) for i in range(rows)],
        "none": pa.nulls(rows),
    })


def _write_arrays(parent: Path) -> None:
    folder, rng = _folder(parent, "arrays"), np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3))
    np.save(folder / "x.npy", x)
    np.savez_compressed(folder / "one.npz", x=x.astype(np.float32))
    np.savez(folder / "two.npz", X=x, y=rng.integers(0, 2, ROWS))


def _write_model(parent: Path) -> None:
    """Write a model of a table, and scores of the table."""
    folder = _folder(parent, "model")
    table = write_messy(folder / "t.csv", 60)
    model = TableModel.fit(table, iterations=20)
    model.save(folder / "model", model.summarize(table, model.sample_codes(50)))
    score_file(model, table, folder / "t.scores.csv")
