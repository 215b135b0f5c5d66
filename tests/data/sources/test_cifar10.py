"""CIFAR-10 is read without running what is in its files."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from fdsm.data import CIFAR10, DataError
from fdsm.data.formats.pickles import Call, Global, tree
from fdsm.data.sources.cifar10 import parsed

from .. import made
from ..conftest import Home

FOLDER = "cifar-10-batches-py"
ALL = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def unpickled(content: bytes) -> dict[str, Any]:
    """Return what Python makes of a pickle that we trust."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core is an old name
        value: dict[str, Any] = pickle.loads(content, encoding="latin1")
        return value


def test_a_batch_is_read_as_python_would() -> None:
    content = made.batch(made.random_bytes(7, 3, 32, 32), [0, 9, 1, 2, 3, 4, 5])
    images, labels = parsed(content, "batch")
    expected = unpickled(content)
    assert torch.equal(images.view(7, 3072), torch.from_numpy(expected["data"].copy()))
    assert labels.tolist() == expected["labels"]


@pytest.mark.parametrize("folder", [FOLDER, f"cifar10/{FOLDER}"])
def test_all_batches_are_read(home: Home, folder: str) -> None:
    images = made.cifar(home.data / folder, ALL)
    data = CIFAR10().load()
    assert data.record["rows"] == {"train": 90, "validation": 10, "test": 20}
    assert data.record["parts"] == []
    assert torch.equal(data.test, torch.from_numpy(images["test_batch"]))
    rows = {tuple(row.flatten().tolist()) for row in torch.cat([data.train, data.validation])}
    assert rows == {tuple(row.ravel().tolist()) for name in ALL[:5] for row in images[name]}


def test_a_part_is_read_on_demand_and_recorded(home: Home) -> None:
    made.cifar(home.data / FOLDER, ["data_batch_1", "test_batch"])
    data = CIFAR10(batches=(1,)).load()
    assert len(data.train) == 18
    assert data.record["parts"] == ["training batches [1] without [2, 3, 4, 5]"]
    with pytest.raises(DataError, match=r"cifar-10-python.tar.gz .* CIFAR10\(batches=\(1,\)\)"):
        CIFAR10().load()
    with pytest.raises(ValueError, match="numbered 1 to 5"):
        CIFAR10(batches=(0,))


def test_the_archive_is_read_without_unpacking_it(home: Home, tmp_path: Path) -> None:
    images = made.cifar(tmp_path / "b", ALL)
    members = {f"{FOLDER}/{name}": (tmp_path / "b" / name).read_bytes() for name in ALL}
    made.tar(home.data / "cifar-10-python.tar.gz", members)
    data = CIFAR10().load()
    assert torch.equal(data.test, torch.from_numpy(images["test_batch"]))
    assert [path.name for path in home.data.iterdir()] == ["cifar-10-python.tar.gz"]


HOSTILE_ARCHIVES = {
    "escape": ({"../../evil": b"x"}, "called '../../evil', which lies outside"),
    "absolute": ({"/etc/evil": b"x"}, "lies outside"),
    "bomb": ({f"{FOLDER}/data_batch_1": bytes(2**26 + 1)}, "67,108,865 bytes are too many"),
    "lacking": ({f"{FOLDER}/data_batch_1": b"x"}, "lacks data_batch_2"),
}


@pytest.mark.parametrize("name", HOSTILE_ARCHIVES)
def test_hostile_archives_are_refused(home: Home, name: str) -> None:
    members, message = HOSTILE_ARCHIVES[name]
    made.tar(home.data / "cifar-10-python.tar.gz", members)
    with pytest.raises(DataError, match=message):
        CIFAR10().load()
    assert not list(home.data.parent.rglob("evil"))


def test_a_damaged_archive_is_refused(home: Home) -> None:
    path = home.data / "cifar-10-python.tar.gz"
    made.tar(path, {f"{FOLDER}/data_batch_1": made.random_bytes(5000).tobytes()})
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match="is damaged"):
        CIFAR10().load()


class Shell:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("inside", [False, True])
def test_a_hostile_pickle_is_not_run(
    home: Home, tmp_path: Path, protocol: int, inside: bool
) -> None:
    target = tmp_path / "touched"
    value: Any = {"labels": [0], "data": Shell(target)} if inside else Shell(target)
    content = pickle.dumps(value, protocol)
    made.cifar(home.data / FOLDER, ["data_batch_1", "test_batch"])
    (home.data / FOLDER / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match="data_batch_1 is not an official CIFAR-10 batch"):
        CIFAR10(batches=(1,)).load()
    assert not target.exists()
    unpickled(content)
    assert target.exists(), "the pickle was not hostile after all"


def test_the_error_names_what_the_pickle_would_have_called(tmp_path: Path) -> None:
    content = pickle.dumps(Shell(tmp_path / "x"), 2)
    with pytest.raises(DataError, match=r"a call of '(posix|nt) system'. Nothing in it was run"):
        parsed(content, "batch")
    call = tree(content)
    assert isinstance(call, Call)
    assert isinstance(call.function, Global)


GOOD = made.batch(made.random_bytes(2, 3, 32, 32), [1, 2])
DAMAGED = {
    "empty": b"",
    "cut": GOOD[:-500],
    "text": b"<html>not found</html>",
    "underflow": b"\x80\x02\x87.",
    "no-mark": b"\x80\x02t.",
    "label-too-large": made.batch(made.random_bytes(1, 3, 32, 32), [10]),
    "labels-missing": made.batch(made.random_bytes(2, 3, 32, 32), [1]),
    "no-images": made.batch(made.random_bytes(0, 3, 32, 32), []),
    "pixels-missing": made.batch(made.random_bytes(2, 3, 32, 31), [1, 2]),
    "array-alone": GOOD[GOOD.index(b"cnumpy.core") : -2] + b".",
    "list": pickle.dumps([1, 2, 3], 2),
    "odd-dictionary": b"\x80\x02}(U\x01au.",
    "list-as-key": b"\x80\x02}(]]u.",
    "state-on-list": b"\x80\x02]}b.",
    "memo": b"\x80\x02h\x07.",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_batches_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"my batch is (damaged|not an official)"):
        parsed(DAMAGED[name], "my batch")


def test_every_prefix_of_a_batch_is_refused() -> None:
    small = made.batch(made.random_bytes(1, 3, 32, 32), [3])
    for end in [*range(200), *range(len(small) - 20, len(small))]:
        with pytest.raises(DataError):
            parsed(small[:end], "batch")
