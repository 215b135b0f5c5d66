"""Each error in the documentation of data is raised by its cause."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fdsm
from paper.data import (
    CIFAR10,
    MNIST,
    SVHN,
    CelebA,
    ImageArray,
    ImageFolder,
    RedWine,
    builtin_source,
    from_path,
)

from .. import file_cases
from ..conftest import Home

PAGE = Path(fdsm.__file__).parents[1] / "docs" / "troubleshooting.md"


def write_text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def write_npy(path: Path, value: np.ndarray) -> Path:
    np.save(path, value, allow_pickle=True)
    return path


def write_npz(path: Path) -> Path:
    np.savez(path, x=np.ones((20, 2, 2)), y=np.ones((20, 2, 2)))
    return path


def write_images(folder: Path, n: int) -> Path:
    file_cases.write_images(folder, n)
    return folder


def missing_file(data: Path) -> None:
    MNIST().load()


def truncated_gzip(data: Path) -> None:
    file_cases.write_mnist(data / "mnist")
    path = data / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:500])
    MNIST().load()


def html_page(data: Path) -> None:
    file_cases.write_mnist(data / "mnist")
    (data / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"<html>")
    MNIST().load()


def hostile_pickle(data: Path) -> None:
    file_cases.write_cifar(data / "cifar-10-batches-py", ["data_batch_1", "test_batch"])
    (data / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\nU\x02ls\x85R.")
    CIFAR10(batches=(1,)).load()


def missing_batches(data: Path) -> None:
    file_cases.write_cifar(data / "cifar-10-batches-py", ["data_batch_1", "test_batch"])
    CIFAR10().load()


def damaged_mat(data: Path) -> None:
    (data / "svhn").mkdir()
    (data / "svhn" / "part.mat").write_bytes(b"<html>")
    SVHN(part="part.mat").load()


def damaged_image(data: Path) -> None:
    (write_images(data / "set", 12) / "05.png").write_bytes(b"")
    ImageFolder(data / "set").load()


def hostile_zip(data: Path) -> None:
    from_path(file_cases.write_zip(data / "a.zip", {"../a.png": b""})).load()


def other_table(data: Path) -> None:
    (data / "uci").mkdir()
    write_text(data / "uci" / "winequality-red.csv", "a;b\n1;2\n")
    RedWine().load()


def missing_directory(data: Path) -> None:
    data.rmdir()
    MNIST().load()


def unknown_name(data: Path) -> None:
    builtin_source("mnits")


def load_array(value: np.ndarray) -> Callable[[Path], object]:
    return lambda data: ImageArray(write_npy(data / "a.npy", value)).load()


ROWS: dict[str, Callable[[Path], object]] = {
    "is not in … and could not be downloaded": missing_file,
    "FDSM_DATA=… is not a directory": missing_directory,
    "does not exist. Give an absolute path": lambda data: from_path("nothing.csv"),
    "was not found. Put it at": lambda data: CelebA(part="part.zip").load(),
    "There is no built-in data set": unknown_name,
    "is damaged": truncated_gzip,
    "is not the expected idx file": html_page,
    "is not an official CIFAR-10 batch": hostile_pickle,
    "Or read only the batches that exist": missing_batches,
    "is not a readable MATLAB file": damaged_mat,
    "columns, expected": other_table,
    "is not a readable zip file": lambda data: from_path(write_text(data / "a.zip", "x")).load(),
    "leads out of the archive": hostile_zip,
    "contains no images": lambda data: from_path(data).load(),
    "is not a readable image": damaged_image,
    "images, but at least 10 are needed": lambda data: from_path(
        write_images(data / "set", 9)
    ).load(),
    "has the arrays": lambda data: from_path(write_npz(data / "a.npz")).load(),
    "cannot be read as a numpy array": lambda data: ImageArray(
        write_text(data / "a.npy", "x")
    ).load(),
    "but real numbers are needed": load_array(np.array(["a"])),
    "but ImageArray needs (N, H, W)": load_array(np.ones((9, 8, 8, 5))),
    "but images need integers": load_array(np.full((20, 8, 8), 7.0)),
    "Save images of 0 and 1": load_array(np.ones((20, 8, 8), np.uint8)),
    "has an unsupported format": lambda data: from_path(write_text(data / "a.xlsx", "x")),
}


def documented() -> list[str]:
    return re.findall(r"^\| `([^`]+)`", PAGE.read_text(encoding="utf8"), re.MULTILINE)


def test_the_documentation_lists_these_errors() -> None:
    assert set(ROWS) <= set(documented())


@pytest.mark.parametrize("message", ROWS)
def test_the_error_is_raised(home: Home, message: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, message.split("…")))):
        ROWS[message](home.data)
