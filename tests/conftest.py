"""Test in float64: a finite difference in float32 hides the error it should measure."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from fdsm.samplers import importance

torch.set_num_threads(1)  # the tensors are small, and threads that wait for a shared core are slow


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collections, which take half a second otherwise."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(default)


@pytest.fixture(scope="session", autouse=True)
def _short_estimates() -> Iterator[None]:
    """Spend less on the normalizing constants of tables, which are most of a short training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importance, "PARTITION_SAMPLES", 5_000)
        patch.setattr(importance, "PARTITION_CHAINS", 100)
        patch.setattr(importance, "PARTITION_MOVES", 2)
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def by_rank(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What two processes computed in each case, by rank."""
    from .training.distributed.process_cases import results

    return results(2, tmp_path_factory.mktemp("processes"))


class Launched(NamedTuple):
    """The folder of runs that several processes trained, and what commands printed, by rank."""

    folder: Path
    printed: list[dict[str, Any]]


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """What two or three processes did with runs."""
    from .runs.distributed.launch_cases import results

    folder = tmp_path_factory.mktemp("launched")
    return Launched(folder, results(folder))
