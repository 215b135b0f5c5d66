"""A few hundred cases of the fuzzer with a fixed seed, and tests of what it notices."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch

from fdsm.tables import DataError

from .cases import Cases, Outcome
from .readers import READERS, Reader
from .seeds import write_seeds

CASES = 14
"""Number of cases for each reader. `make nightly` runs thousands."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cases]:
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("fuzz")
    seeds = write_seeds(folder / "seeds")
    (folder / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        _keep_environment(patch)
        made = Cases(seeds, folder / "work", seed=0)
        made.warm_up(READERS)
        yield made


@pytest.fixture(autouse=True)
def _float32(_float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    _keep_environment(monkeypatch)


def _keep_environment(patch: pytest.MonkeyPatch) -> None:
    """Restore the variables that readers set when the patch ends."""
    for name in ("FDSM_DATA", "FUZZ_SEEDS", "XDG_CACHE_HOME"):
        patch.setenv(name, os.environ.get(name, ""))


@pytest.mark.filterwarnings("ignore:Duplicate name")  # zip files with two members of a name
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_changed_files_are_read_or_refused(
    cases: Cases, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_SEEDS", str(cases.seeds))
    count = CASES if reader.share == 1 else 2
    outcomes = [cases.run(reader, case) for case in range(count)]
    assert [outcome for outcome in outcomes if outcome.is_finding] == []


def test_cases_are_the_same_for_the_same_seed(cases: Cases) -> None:
    again = Cases(cases.seeds, cases.folder, seed=0)
    other = Cases(cases.seeds, cases.folder, seed=1)
    for reader in READERS:
        path, content = cases.content(reader, 3)
        if path.suffix != ".safetensors":  # the order of their metadata is random
            assert (path, content) == again.content(reader, 3)
    assert any(cases.content(r, 3) != other.content(r, 3) for r in READERS)


def misbehave(action: Callable[[Path], object]) -> Reader:
    """Return a reader that does something it must not do."""

    def read(folder: Path, file: Path) -> Iterable[str]:
        action(file)
        return []

    return Reader("bad", "arrays", ("x.npy",), read)


def raise_(error: Exception) -> None:
    raise error


def connect() -> None:
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (lambda file: raise_(TypeError(file.name)), "foreign exception"),
        (lambda file: raise_(DataError("something is wrong")), "file is not named"),
        (lambda file: raise_(MemoryError(file.name)), "too much memory"),
        (lambda file: subprocess.run([sys.executable, "-c", ""], check=True), "forbidden action"),
        (lambda file: connect(), "forbidden action"),
        (lambda file: exec(compile("1", str(file), "exec")), "forbidden action"),
        (lambda file: (file.parents[2] / "outside").write_bytes(b""), "forbidden action"),
        (lambda file: (file.parent / "inside").write_bytes(b""), "accepted"),
    ],
)
def test_what_is_forbidden_is_noticed(
    cases: Cases, action: Callable[[Path], object], kind: str
) -> None:
    outcome: Outcome = cases.run(misbehave(action), 0)
    assert outcome.kind == kind
    assert outcome.is_finding == (kind != "accepted")


def test_control_characters_are_noticed(cases: Cases) -> None:
    reader = Reader("bad", "arrays", ("x.npy",), lambda folder, file: ["\x1b[31m"])
    assert cases.run(reader, 0).kind == "control characters are shown"
