"""Test in float64: a finite difference in float32 hides the error it should measure."""

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import torch
from filelock import FileLock

from fdsm.tables import normalization

from .parameters import SHORT_ESTIMATES

Result = TypeVar("Result")

torch.set_num_threads(1)  # the tensors are small, and threads that wait for a shared core are slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "by_rank" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.nightly)


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
        for name, value in SHORT_ESTIMATES.items():
            patch.setattr(normalization, name, value)
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def by_rank(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What two processes computed in each case, by rank."""
    from .training.distributed.process_cases import results

    return _once(tmp_path_factory, "processes", partial(results, 2))


class Launched(NamedTuple):
    """The folder of runs that several processes trained, and what commands printed, by rank."""

    folder: Path
    printed: list[dict[str, Any]]


def _once(factory: pytest.TempPathFactory, name: str, compute: Callable[[Path], Result]) -> Result:
    """Compute something in one of the workers of pytest-xdist, and read it in the others."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        kept = Path(f"{folder}.pickle")
        if not kept.exists():
            folder.mkdir()
            kept.write_bytes(pickle.dumps(compute(folder)))
        return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]
