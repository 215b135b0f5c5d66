"""Tests of CIFAR-10, with hostile and damaged files."""

import hashlib
import os
import pickle
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from paper.data import CIFAR10, DataError
from paper.data.sources import cifar10
from paper.data.sources.cifar10 import parse_batch
from tests.parameters import at_night

from .. import file_cases
from ..conftest import Home

FOLDER = "cifar-10-batches-py"
ALL = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def unpickle(content: bytes) -> dict[str, Any]:
    """Unpickle content that is trusted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core is an old name
        value: dict[str, Any] = pickle.loads(content, encoding="latin1")
        return value


def test_a_batch_is_read_as_by_pickle() -> None:
    content = file_cases.cifar_batch(file_cases.random_bytes(7, 3, 32, 32), [0, 9, 1, 2, 3, 4, 5])
    images, labels = parse_batch(content, "batch")
    expected = unpickle(content)
    assert torch.equal(images.view(7, 3072), torch.from_numpy(expected["data"].copy()))
    assert labels.tolist() == expected["labels"]


@pytest.mark.parametrize("folder", [FOLDER, f"cifar10/{FOLDER}"])
def test_all_batches_are_read(home: Home, folder: str) -> None:
    images = file_cases.write_cifar(home.data / folder, ALL)
    data = CIFAR10().load()
    assert data.record["rows"] == {"train": 90, "validation": 10, "test": 20}
    assert data.record["parts"] == []
    assert torch.equal(data.test, torch.from_numpy(images["test_batch"]))
    rows = {tuple(row.flatten().tolist()) for row in torch.cat([data.train, data.validation])}
    assert rows == {tuple(row.ravel().tolist()) for name in ALL[:5] for row in images[name]}


def test_selected_batches_are_read_and_recorded(home: Home) -> None:
    file_cases.write_cifar(home.data / FOLDER, ["data_batch_1", "test_batch"])
    data = CIFAR10(batches=(1,)).load()
    assert len(data.train) == 18
    assert data.record["parts"] == ["training batches [1] without [2, 3, 4, 5]"]
    with pytest.raises(DataError, match=r"cifar-10-python.tar.gz .* CIFAR10\(batches=\(1,\)\)"):
        CIFAR10().load()
    with pytest.raises(ValueError, match="numbers from 1 to 5"):
        CIFAR10(batches=(0,))


def test_the_archive_is_read_without_writing_files(home: Home, tmp_path: Path) -> None:
    images = file_cases.write_cifar(tmp_path / "b", ALL)
    members = {f"{FOLDER}/{name}": (tmp_path / "b" / name).read_bytes() for name in ALL}
    file_cases.write_tar(home.data / "cifar-10-python.tar.gz", members)
    data = CIFAR10().load()
    assert torch.equal(data.test, torch.from_numpy(images["test_batch"]))
    assert [path.name for path in home.data.iterdir()] == ["cifar-10-python.tar.gz"]


HOSTILE_ARCHIVES = {
    "escape": ({"../../evil": b"x"}, "'../../evil' with a path that leads out"),
    "absolute": ({"/etc/evil": b"x"}, "leads out of the archive"),
    "bomb": (
        {f"{FOLDER}/data_batch_1": bytes(2**26 + 1)},
        "has 67,108,865 bytes, more than 67,108,864",
    ),
    "lacking": ({f"{FOLDER}/data_batch_1": b"x"}, "lacks data_batch_2"),
}


@pytest.mark.parametrize("name", HOSTILE_ARCHIVES)
def test_hostile_archives_raise(home: Home, name: str) -> None:
    members, message = HOSTILE_ARCHIVES[name]
    file_cases.write_tar(home.data / "cifar-10-python.tar.gz", members)
    with pytest.raises(DataError, match=message):
        CIFAR10().load()
    assert not list(home.data.parent.rglob("evil"))


def test_a_damaged_archive_raises(home: Home) -> None:
    path = home.data / "cifar-10-python.tar.gz"
    file_cases.write_tar(path, {f"{FOLDER}/data_batch_1": file_cases.random_bytes(5000).tobytes()})
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match="is damaged"):
        CIFAR10().load()


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


def touch(path: Path) -> dict[str, Call]:
    """Return calls that create a file if they are run."""
    return {
        "system": Call(os.system, f"touch {path}"),
        "eval": Call(eval, f"__import__('pathlib').Path({str(path)!r}).touch()"),
        "nested": Call(os.system, Call("touch {}".format, str(path))),
    }


@pytest.mark.parametrize("protocol", at_night(range(pickle.HIGHEST_PROTOCOL + 1), but={2}))
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["system", "eval", "nested"])
def test_a_hostile_pickle_is_not_run(
    home: Home, tmp_path: Path, name: str, protocol: int, inside: bool
) -> None:
    target = tmp_path / "touched"
    call = touch(target)[name]
    content = pickle.dumps({"labels": [0], "data": call} if inside else call, protocol)
    file_cases.write_cifar(home.data / FOLDER, ["data_batch_1", "test_batch"])
    (home.data / FOLDER / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_1 is not an official CIFAR-10 batch"):
        CIFAR10(batches=(1,)).load()
    assert not target.exists()
    unpickle(content)
    assert target.exists(), "the pickle is not hostile"


def test_the_error_names_the_function_that_a_pickle_would_call() -> None:
    content = pickle.dumps(Call(os.system, "true"), 2)
    with pytest.raises(DataError, match=r"refers to (posix|nt)\.system\. Nothing was run"):
        parse_batch(content, "batch")


HOSTILE = {
    "dotted-global": b"\x80\x04\x8c\x05numpy\x8c\x17ndarray.__class__.mro\x93.",
    "numpy-function": b"\x80\x02cnumpy\nload\n.",
    "object-array-from-a-buffer": b"\x80\x02cnumpy\nndarray\n(K\x01\x85U\x01OU\x0812345678tR.",
    "state-on-a-class": b"\x80\x02cnumpy\nndarray\n}(U\x01aK\x01ub.",
    "extension-registry": b"\x80\x02\x82\x01.",
    "persistent-id": b"P0\n.",
    "huge-memo-index": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "huge-text-memo-index": b"Np99999999999\n.",
    "huge-string": b"\x80\x02T\xff\xff\xff\x7fa.",
    "huge-bytearray": b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
    "exponential-key": b"\x80\x02)" + b"q\x00h\x00\x86" * 60 + b"}\x86.",
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_opcodes_raise_without_crash_or_large_memory(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="is not an official CIFAR-10 batch"):
        parse_batch(HOSTILE[name], "batch")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # kilobytes on Linux


def test_an_oversized_batch_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "MAX_BYTES", len(GOOD) - 1)
    with pytest.raises(DataError, match="bytes are more than"):
        parse_batch(GOOD, "batch")


GOOD = file_cases.cifar_batch(file_cases.random_bytes(2, 3, 32, 32), [1, 2])
DAMAGED = {
    "empty": b"",
    "cut": GOOD[:-500],
    "text": b"<html>not found</html>",
    "underflow": b"\x80\x02\x87.",
    "no-mark": b"\x80\x02t.",
    "label-too-large": file_cases.cifar_batch(file_cases.random_bytes(1, 3, 32, 32), [10]),
    "labels-missing": file_cases.cifar_batch(file_cases.random_bytes(2, 3, 32, 32), [1]),
    "no-images": file_cases.cifar_batch(file_cases.random_bytes(0, 3, 32, 32), []),
    "pixels-missing": file_cases.cifar_batch(file_cases.random_bytes(2, 3, 32, 31), [1, 2]),
    "array-alone": GOOD[GOOD.index(b"cnumpy.core") : -2] + b".",
    "list": pickle.dumps([1, 2, 3], 2),
    "odd-dictionary": b"\x80\x02}(U\x01au.",
    "list-as-key": b"\x80\x02}(]]u.",
    "state-on-list": b"\x80\x02]}b.",
    "memo": b"\x80\x02h\x07.",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_batches_raise(name: str) -> None:
    with pytest.raises(DataError, match="my batch is not an official CIFAR-10 batch"):
        parse_batch(DAMAGED[name], "my batch")


def test_every_truncated_batch_raises() -> None:
    small = file_cases.cifar_batch(file_cases.random_bytes(1, 3, 32, 32), [3])
    for end in [*range(200), *range(len(small) - 20, len(small))]:
        with pytest.raises(DataError):
            parse_batch(small[:end], "batch")


def test_the_real_batch_is_read_as_by_pickle(real: Path) -> None:
    file_cases.require_real(real, "cifar-10-batches-py/test_batch")
    content = (real / "cifar-10-batches-py" / "test_batch").read_bytes()
    assert hashlib.md5(content).hexdigest() == "40351d587109b95175f43aff81a1287e"
    expected = unpickle(content)
    images, labels = parse_batch(content, "test_batch")
    assert torch.equal(images.flatten(1), torch.from_numpy(expected["data"].copy()))
    assert labels.tolist() == expected["labels"]
    data = CIFAR10(batches=(1,)).load()
    assert data.record["rows"] == {"train": 9_000, "validation": 1_000, "test": 10_000}
