"""Every message that the page on data promises is really produced."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fdsm
from fdsm.data import (
    CIFAR10,
    MNIST,
    SVHN,
    Array,
    CelebA,
    ImageArray,
    ImageFolder,
    RedWine,
    Table,
    Whiten,
    own,
)

from .. import file_cases
from ..conftest import Home

PAGE = Path(fdsm.__file__).parents[1] / "docs" / "data.md"


def csv(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def npy(path: Path, value: np.ndarray) -> Path:
    np.save(path, value, allow_pickle=True)
    return path


def npz(path: Path) -> Path:
    np.savez(path, x=np.ones((20, 2)), y=np.ones((20, 2)))
    return path


def images(folder: Path, n: int) -> Path:
    file_cases.write_images(folder, n)
    return folder


def missing(data: Path) -> None:
    MNIST().load()


def damaged(data: Path) -> None:
    file_cases.write_mnist(data / "mnist")
    path = data / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:500])
    MNIST().load()


def short(data: Path) -> None:
    file_cases.write_mnist(data / "mnist")
    content = file_cases.idx(file_cases.random_bytes(5, 28, 28))[:-1]
    (data / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
    MNIST().load()


def other(data: Path) -> None:
    file_cases.write_mnist(data / "mnist")
    (data / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"<html>")
    MNIST().load()


def pickled(data: Path) -> None:
    file_cases.write_cifar(data / "cifar-10-batches-py", ["data_batch_1", "test_batch"])
    (data / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\nU\x02ls\x85R.")
    CIFAR10(batches=(1,)).load()


def batches(data: Path) -> None:
    file_cases.write_cifar(data / "cifar-10-batches-py", ["data_batch_1", "test_batch"])
    CIFAR10().load()


def mat(data: Path) -> None:
    (data / "svhn").mkdir()
    (data / "svhn" / "part.mat").write_bytes(b"<html>")
    SVHN(part="part.mat").load()


def broken_image(data: Path) -> None:
    (images(data / "set", 12) / "05.png").write_bytes(b"")
    ImageFolder(data / "set").load()


def escaping(data: Path) -> None:
    own(file_cases.write_zip(data / "a.zip", {"../a.png": b""})).load()


def columns(data: Path) -> None:
    (data / "uci").mkdir()
    csv(data / "uci" / "winequality-red.csv", "a;b\n1;2\n")
    RedWine().load()


def binary(data: Path) -> None:
    own(npy(data / "a.npy", np.ones(9)).rename(data / "a.csv")).load()


def dependent(data: Path) -> None:
    lines = "".join(f"{i % 7},{i % 5},{i % 7 + i % 5}\n" for i in range(40))
    Table(csv(data / "a.csv", lines), transform=Whiten()).load()


def unset(data: Path) -> None:
    data.rmdir()
    MNIST().load()


TWENTY = "".join(f"{i},{i % 3}\n" for i in range(20))
ROWS: dict[str, Callable[[Path], object]] = {
    "is not in … and could not be downloaded": missing,
    "FDSM_DATA=… is not a folder": unset,
    "there is no …: give the path": lambda data: own("nothing.csv"),
    "there is no file …: put it at": lambda data: CelebA(part="part.zip").load(),
    "is damaged": damaged,
    "announces … bytes of data but has": short,
    "is not the idx file it should be": other,
    "is not an official CIFAR-10 batch": pickled,
    "Or read the batches that are there": batches,
    "is not a whole .mat file": mat,
    "has … columns instead of": columns,
    "is not a whole zip file": lambda data: own(csv(data / "a.zip", "x")).load(),
    "which lies outside of it": escaping,
    "contains no images": lambda data: own(data).load(),
    "not a readable image": broken_image,
    "images: at least 10 are needed": lambda data: own(images(data / "set", 9)).load(),
    "rows: at least 10 are needed": lambda data: own(csv(data / "a.csv", "1,2\n3,4\n")).load(),
    "is not a number": lambda data: own(csv(data / "a.csv", "a,b\n1,x\n")).load(),
    "is not a finite float32 number": lambda data: own(csv(data / "a.csv", "a\nnan\n")).load(),
    "cells instead of": lambda data: own(csv(data / "a.csv", "1,2\n1\n")).load(),
    "more than one column called": lambda data: own(csv(data / "a.csv", "a,a\n1,2\n")).load(),
    "holds the arrays": lambda data: own(npz(data / "a.npz")).load(),
    "the same number in all rows to train on": lambda data: own(
        csv(data / "a.csv", "1,2\n" * 20)
    ).load(),
    "too little for float32": lambda data: own(
        csv(data / "a.csv", "".join(f"{10**10 + i}\n" for i in range(20)))
    ).load(),
    "has no column": lambda data: Table(csv(data / "a.csv", TWENTY), columns=("z",)).load(),
    "is not a text file in UTF-8": lambda data: own(npy(data / "a.npy", np.ones(9)).rename(
        data / "a.csv"
    )).load(),
    "span only … dimensions": dependent,
    "cannot be read as a numpy array": lambda data: Array(csv(data / "a.npy", "x")).load(),
    "not real numbers": lambda data: Array(npy(data / "a.npy", np.array(["a"]))).load(),
    "but Array takes (N, D)": lambda data: Array(npy(data / "a.npy", np.ones(20))).load(),
    "but images are (N, H, W)": lambda data: own(
        npy(data / "a.npy", np.ones((9, 8, 8, 5)))
    ).load(),
    "but images are integers": lambda data: ImageArray(
        npy(data / "a.npy", np.full((20, 8, 8), 7.0))
    ).load(),
    "save images of 0 and 1": lambda data: own(
        npy(data / "a.npy", np.ones((20, 8, 8), np.uint8))
    ).load(),
    "is neither a folder nor": lambda data: own(csv(data / "a.xlsx", "x")),
}  # fmt: skip


def promised() -> list[str]:
    section = PAGE.read_text(encoding="utf8").split("## Troubleshooting")[1]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


def test_the_table_has_these_messages() -> None:
    assert promised() == list(ROWS)


@pytest.mark.parametrize("message", ROWS)
def test_the_message_is_produced(home: Home, message: str) -> None:
    with pytest.raises(ValueError, match=".*".join(map(re.escape, message.split("…")))):
        ROWS[message](home.data)
