"""A few cases of the fuzzer for each reader, with a fixed seed."""

import os
from collections.abc import Iterator

import pytest
import torch

from tests.nightly.fuzz.cases import Cases
from tests.nightly.fuzz.readers import Reader

from .readers import READERS
from .seeds import write_seeds

CASES = 14
"""Number of cases for each reader. `make nightly` runs thousands."""


@pytest.fixture(autouse=True)
def _float32(_float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    _keep_environment(monkeypatch)


def _keep_environment(patch: pytest.MonkeyPatch) -> None:
    """Restore the variables that readers set when the patch ends."""
    for name in ("FDSM_DATA", "FUZZ_SEEDS", "XDG_CACHE_HOME"):
        patch.setenv(name, os.environ.get(name, ""))


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


@pytest.mark.filterwarnings("ignore:Duplicate name")  # zip files with two members of a name
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_changed_files_are_read_or_refused(
    cases: Cases, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_SEEDS", str(cases.seeds))
    count = CASES if reader.share == 1 else 2
    outcomes = [cases.run(reader, case) for case in range(count)]
    assert [outcome for outcome in outcomes if outcome.is_finding] == []
