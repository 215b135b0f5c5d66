"""Small valid files of images, data sets and runs, from which the fuzzer starts."""

import struct
import zlib
from pathlib import Path

import numpy as np

from paper.runs import Run, evaluate, train
from paper.tests.data.file_cases import (
    encode_png,
    random_bytes,
    write_cifar,
    write_images,
    write_mnist,
    write_tar,
    write_zip,
)
from paper.tests.recipes.recipe_cases import silent
from paper.tests.runs.run_cases import array_recipe, write_array

ROWS = 40


def write_seeds(folder: Path) -> Path:
    """Write all seeds into a folder, one subfolder for each kind. A model is trained for a second.

    Returns:
        The folder.
    """
    for write in (_write_arrays, _write_images, _write_published, _write_run):
        write(folder)
    return folder


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir(parents=True, exist_ok=True)
    return parent / name


def _write_arrays(parent: Path) -> None:
    folder, rng = _folder(parent, "arrays"), np.random.default_rng(0)
    images = random_bytes(ROWS, 4, 5)
    np.save(folder / "images.npy", images)
    np.savez_compressed(folder / "one.npz", x=images)
    np.savez(folder / "two.npz", X=images, y=rng.integers(0, 2, ROWS))


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


def _write_run(parent: Path) -> None:
    """Write the folder of a run with everything that a run can have."""
    folder = _folder(parent, "run")
    run = Run.create(folder / "run", array_recipe(write_array(folder / "images.npy")))
    evaluate(train(run), run.recipe.data.load(), silent)
    axis = np.linspace(-1, 1, 5)
    np.savez_compressed(
        folder / "run" / "density_grid.npz",
        axis=axis,
        model_log_density=np.zeros((5, 5)),
        model_score=np.zeros((5, 5, 2)),
    )
    (folder / "run" / "samples.png").write_bytes(encode_png(random_bytes(40, 40, 3)))
    settings = ("optimizer.lr=1e-3", "plan.iterations=5", "network.widths=4", "name=x")
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
