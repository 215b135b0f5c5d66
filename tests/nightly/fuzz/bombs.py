"""Small files that would become large, and what reading them costs.

`python -m tests.nightly.fuzz.bombs` reads each in a process of its own and prints the time, the memory and
the answer. A file of less than 10 MB must cost less than 10 s and 1 GB, or be refused.
"""

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import feather, parquet

from fdsm.untrusted import InputError

from .readers import READERS, Reader

LIMITED = 12 * 10**6
"""Largest number of bytes of a bomb, a little more than the promised 10 MB."""

Make = Callable[[Path], Path]
"""Writes the bomb into a folder and returns its path."""
Bombs = dict[str, tuple[str, Make]]
"""The reader and the maker of each bomb."""


def repeated(name: str, head: bytes, block: bytes, size: int) -> Make:
    """Return a maker of a file of `size` bytes that repeats a block. A name with `.gz` packs it."""

    def make(folder: Path) -> Path:
        many, path = block * (2**20 // len(block) + 1), folder / name
        with gzip.open(path, "wb", 9) if path.suffix == ".gz" else path.open("wb") as file:
            file.write(head)
            for _ in range(size // len(many) + 1):
                file.write(many[: min(len(many), size)])
        return folder / name

    return make


def written(name: str, write: Callable[[Path], object]) -> Make:
    """Return a maker of a file that a function writes."""

    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name)
        return folder / name

    return make


def table_of(columns: int, rows: int, cell: object = 0.5) -> pa.Table:
    """Return a table whose cells are two values."""
    part = pa.array([cell, cell * 2 if isinstance(cell, (float, str)) else cell])
    column = pa.chunked_array([part.take(pa.array(np.arange(rows) >= rows // 2, pa.int8()))])
    return pa.table({f"c{i}": column for i in range(columns)})


def zeros_npz(path: Path, count: int, dtype: str, *, declared: int | None = None) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        shape = (declared or count // 4, 4)
        np.lib.format.write_array_header_1_0(
            file, {"descr": dtype, "fortran_order": False, "shape": shape}
        )
        block = bytes(2**20)
        for _ in range(count * np.dtype(dtype).itemsize // 2**20):
            file.write(block)


def in_model(name: str, content: bytes) -> Make:
    """Return a maker of a folder of a model with one file of a given content."""

    def make(folder: Path) -> Path:
        (folder / "model").mkdir(exist_ok=True)
        (folder / "model" / name).write_bytes(content)
        return folder / "model" / name

    return make


BOMBS: Bombs = {
    "csv.gz of 4 GB": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 2**32)),
    "csv.gz of 130 MB of digits": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 130 * 10**6)),
    "csv.gz of 65 MB of digits": ("text tables", repeated("t.csv.gz", b"a,b\n", b"1,2\n3,4\n", 65 * 10**6)),
    "csv with one line of commas": ("text tables", repeated("t.csv", b"", b",", 10**7)),
    "csv with a second line of commas": ("text tables", repeated("t.csv", b"a,b\n1,2\n", b",", 10**7)),
    "csv with a cell of digits": ("text tables", repeated("t.csv", b"a,b\n1,", b"1", 10**7)),
    "csv with a column of digits": ("text tables", repeated("t.csv", b"a\n", b"1\n2\n", 10**7)),
    "csv of quotes": ("text tables", repeated("t.csv", b"a,b\n", b'"', 10**7)),
    "csv of empty lines": ("text tables", repeated("t.csv", b"a,b\n", b"\n", 10**7)),
    "txt of spaces": ("text tables", repeated("t.txt", b"a b\n1 2\n", b" ", 10**7)),
    "csv of 50,000 columns": ("text tables", written("t.csv", lambda p: p.write_text(",".join(f"c{i}" for i in range(50_000)) + "\n" + (",".join(["1.5", "2.5"] * 25_000) + "\n" + ",".join(["2.5", "1.25"] * 25_000) + "\n") * 12))),
    "csv of texts of 1 MB": ("text tables", written("t.csv", lambda p: p.write_text("a,b\n" + "".join(f"{i},{'x' * 10**6}{i % 2}\n" for i in range(10))))),
    "JSON of 3 million empty objects": ("JSON tables", repeated("t.jsonl", b"", b"{}\n", 10**7)),
    "JSON of 1 million rows": ("JSON tables", repeated("t.jsonl", b"", b'{"a":1}\n{"a":2}\n', 10**7)),
    "JSON array of 1 million rows": ("JSON tables", written("t.json", lambda p: p.write_text("[" + '{"a":1},{"a":2},' * 600_000 + "{}]"))),
    "JSON of 45,000 keys in 2 million rows": ("JSON tables", written("t.jsonl", lambda p: p.write_text("".join(f'{{"{i}":1}}\n' for i in range(45_000)) + "{}\n" * 2_000_000))),
    "JSON of 800,000 keys": ("JSON tables", written("t.jsonl", lambda p: p.write_text("".join(f'{{"{i}":1}}\n' for i in range(800_000))))),
    "JSON of 5 million numbers": ("JSON tables", repeated("t.jsonl", b"", b"1\n", 10**7)),
    "JSON of 5 million lines that are not JSON": ("JSON tables", repeated("t.jsonl", b"", b"x\n", 10**7)),
    "JSON of nested lists": ("JSON tables", repeated("t.jsonl", b"", b'{"a":' + b"[" * 60 + b"]" * 60 + b"}\n", 10**7)),
    "parquet of 1 billion rows": ("binary tables", written("t.parquet", lambda p: big_parquet(p, 10**9))),
    "parquet of 130 million cells": ("binary tables", written("t.parquet", lambda p: big_parquet(p, 130 * 10**6))),
    "parquet of 16 million cells": ("binary tables", written("t.parquet", lambda p: parquet.write_table(table_of(16, 10**6), p))),
    "parquet of a text of 1 MB, 100,000 times": ("binary tables", written("t.parquet", lambda p: parquet.write_table(long_text(), p))),
    "feather of 1 billion rows": ("binary tables", written("t.feather", lambda p: feather.write_feather(pa.table({"a": np.zeros(10**8)}), p, compression="zstd"))),
    "feather of 120 million bytes of int8": ("binary tables", written("t.feather", lambda p: feather.write_feather(pa.table({"a": np.arange(120 * 10**6, dtype=np.int64).astype(np.int8)}), p, compression="zstd"))),
    "npz of 4 GB": ("arrays", written("x.npz", lambda p: zeros_npz(p, 2**29, "<f8"))),
    "npz of 130 MB of bytes": ("arrays", written("x.npz", lambda p: zeros_npz(p, 124 * 2**20, "|u1"))),
    "npz that declares 8 TB": ("arrays", written("x.npz", lambda p: zeros_npz(p, 2**20, "<f8", declared=2**38))),
    "config of 3 million lists": ("settings of models", in_model("config.json", b'{"a": [' + b"[]," * 3_300_000 + b"[]]}")),
    "config of 5 million brackets": ("settings of models", in_model("config.json", b"[" * 5_000_000 + b"]" * 5_000_000)),
    "summary of 3 million lists": ("reports", in_model("summary.json", b'{"metrics": {"a": [' + b"[]," * 3_300_000 + b"[]]}}")),
    "checkpoint with a header of 10 MB": ("checkpoints", written("c.safetensors", lambda p: p.write_bytes((10**7).to_bytes(8, "little") + b'{"a":[' + b"[]," * 3_300_000))),
}  # fmt: skip


def big_parquet(path: Path, rows: int) -> None:
    part = pa.table({"a": np.zeros(10**7), "b": np.ones(10**7)})
    with parquet.ParquetWriter(path, part.schema) as writer:
        for _ in range(rows // 2 // 10**7):
            writer.write_table(part, row_group_size=10**7)


def long_text() -> pa.Table:
    text = pa.array(["x" * 10**6, "y"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(100_000) % 2, pa.int32()), text)
    return (
        pa
        .table({"a": column, "n": np.arange(100_000)})
        .cast(pa.schema([("a", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())]))
        .replace_schema_metadata(None)
    )


def cost(name: str, bombs: Bombs, readers: Sequence[Reader], module: str) -> None:
    """Read a bomb in this process, and print the time, the memory and the answer."""
    read = next(reader.read for reader in readers if reader.name == bombs[name][0])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "case"
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-m", module, "--make", name, str(folder)],
            check=True,
        )
        path = Path((folder / "path").read_text(encoding="utf-8"))
        size = path.stat().st_size
        assert size < LIMITED, f"{name} has {size:,} bytes"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        try:
            list(read(folder, path))
            answer = "accepted"
        except (InputError, OSError) as error:
            answer = str(error).replace(temporary, "")
        seconds = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(
        json.dumps({
            "name": name,
            "bytes": size,
            "seconds": seconds,
            "gigabytes": grown,
            "answer": answer,
        })
    )


def main(
    bombs: Bombs | None = None,
    readers: Sequence[Reader] = READERS,
    module: str = "tests.nightly.fuzz.bombs",
) -> None:
    """Read all bombs, or make or read the one that is named.

    Args:
        bombs: The bombs. Default: those of this module.
        readers: The readers.
        module: The module that calls this function with these arguments.
    """
    bombs = BOMBS if bombs is None else bombs
    arguments = sys.argv[1:]
    if arguments[:1] == ["--make"]:
        folder = Path(arguments[2])
        path = bombs[arguments[1]][1](folder)
        (folder / "path").write_text(str(path), encoding="utf-8")
        return
    if arguments[:1] == ["--cost"]:
        cost(arguments[1], bombs, readers, module)
        return
    for name in bombs:
        if any(text not in name for text in arguments):
            continue
        done = subprocess.run(
            [sys.executable, "-m", module, "--cost", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(
                f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}"
            )
            continue
        found = json.loads(done.stdout)
        print(
            f"{name:45} {found['bytes'] / 1e6:6.2f} MB {found['seconds']:6.1f} s {found['gigabytes']:6.2f} GB  {found['answer'][:110]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
