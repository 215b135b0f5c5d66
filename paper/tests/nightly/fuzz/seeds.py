"""Small valid files of every format that fdsm reads, from which the fuzzer starts."""

import gzip
import struct
import zlib
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from paper.tests.data.file_cases import (
    encode_png,
    random_bytes,
    write_cifar,
    write_images,
    write_mnist,
    write_tar,
    write_zip,
)
from paper.tests.runs.run_cases import train_table, write_mixed_table

ROWS = 40


def write_seeds(folder: Path) -> Path:
    """Write all seeds into a folder, one subfolder for each kind. A model is trained for a second.

    Returns:
        The folder.
    """
    for write in (_write_tables, _write_arrays, _write_images, _write_published, _write_runs):
        write(folder)
    return folder


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir(parents=True, exist_ok=True)
    return parent / name


def _write_tables(parent: Path) -> None:
    folder = _folder(parent, "tables")
    text = write_mixed_table(folder / "t.csv", ROWS).read_bytes()
    (folder / "t.tsv").write_bytes(text.replace(b",", b"\t"))
    (folder / "t.txt").write_bytes(text.replace(b",,", b",NA,").replace(b",", b" "))
    (folder / "semicolon.data").write_bytes(text.replace(b",", b";").replace(b".", b","))
    (folder / "t.csv.gz").write_bytes(gzip.compress(text, mtime=0))
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
    np.save(folder / "images.npy", random_bytes(ROWS, 4, 5))


def _write_images(parent: Path) -> None:
    write_images(parent / "folder" / "photos", 12, 9, 8, 3)
    gray = {f"class{i % 2}/{i:02}.png": encode_png(random_bytes(8, 8, seed=i)) for i in range(12)}
    folder = _folder(parent, "zip")
    write_zip(folder / "photos.zip", gray)
    from PIL import Image

    for suffix in ("jpg", "gif", "bmp", "tiff", "webp", "ppm"):
        with Image.fromarray(random_bytes(9, 8, 3)) as image:
            image.save(parent / "folder" / "photos" / f"other.{suffix}")


def _write_published(parent: Path) -> None:
    write_mnist(parent / "mnist" / "mnist", train=12, test=4)
    names = ["data_batch_1", "test_batch"]
    write_cifar(parent / "cifar" / "cifar-10-batches-py", names, 3)
    contents = {n: (parent / "cifar" / "cifar-10-batches-py" / n).read_bytes() for n in names}
    write_tar(
        _folder(parent, "cifar_tar") / "cifar-10-python.tar.gz",
        {f"cifar-10-batches-py/{name}": content for name, content in contents.items()},
    )
    svhn = _folder(parent, "svhn")
    (svhn / "part.mat").write_bytes(
        mat(random_bytes(32, 32, 3, 12), np.arange(12.0)[:, None] % 10)
    )
    celeba = _folder(parent, "celeba")
    faces = {f"img/{i:06}.jpg": encode_png(random_bytes(20, 20, 3, seed=i)) for i in range(12)}
    write_zip(celeba / "faces.zip", faces)
    lines = [f"{i:06}.jpg {min(i // 4, 2)}" for i in range(12)]
    (celeba / "list.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    uci = _folder(parent, "uci") / "uci"
    uci.mkdir(exist_ok=True)
    wine = np.random.default_rng(0).normal(size=(ROWS, 12))
    header = ";".join(f'"c{i}"' for i in range(12))
    np.savetxt(uci / "winequality-red.csv", wine, "%.3f", ";", header=header, comments="")


def mat(x: np.ndarray, y: np.ndarray) -> bytes:
    """Return a MATLAB file with two compressed arrays."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name: str, array: np.ndarray, klass: int, kind: int) -> bytes:
        shape = np.array(array.shape, "<i4").tobytes()
        parts = (
            element(6, struct.pack("<II", klass, 0))
            + element(5, shape)
            + element(1, name.encode())
            + element(kind, array.tobytes("F"))
        )
        raw = zlib.compress(element(14, parts), 1)
        return struct.pack("<II", 15, len(raw)) + raw

    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    return head + matrix("X", x, 9, 2) + matrix("y", y, 6, 9)


def _write_runs(parent: Path) -> None:
    """Write the folder of a run of a table with everything that a run can have."""
    from fdsm.tables.scoring import score_file
    from paper.runs import evaluate

    folder = _folder(parent, "run")
    table = write_mixed_table(folder / "t.csv", 60)
    saved = train_table(folder / "run", table, iterations=20)
    evaluate(saved, saved.run.recipe.data.load(), lambda steps: steps)
    score_file(saved, table, folder / "t.scores.csv")
    axis = np.linspace(-1, 1, 5)
    np.savez_compressed(
        folder / "run" / "density_grid.npz",
        axis=axis,
        model_log_density=np.zeros((5, 5)),
        model_score=np.zeros((5, 5, 2)),
    )
    (folder / "run" / "samples.png").write_bytes(encode_png(random_bytes(40, 40, 3)))
    settings = ("optimizer.lr=1e-3", "plan.iterations=5", "width=16", "levels.count=3", "name=x")
    (_folder(parent, "settings") / "settings.txt").write_text(
        "\n".join(settings), encoding="utf-8"
    )
    study = _folder(parent, "study") / "study"
    study.mkdir(exist_ok=True)
    (study / "study.json").write_text(STUDY, encoding="utf-8")


STUDY = """{"study": "figure2", "title": "A study", "scale": "cpu", "seed": 0,
"settings": {"a": [1]},
"findings": {"numbers": {"error": {"value": 0.5, "error": 0.1}}, "panels": [{"title": "t",
"x_label": "x", "y_label": "y", "lines": [{"name": "l", "x": [1, 2], "y": [3, 4]}]}]},
"seconds": 3.5}"""
