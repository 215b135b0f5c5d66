"""Test in float64: a finite difference in float32 hides the error it should measure."""

from collections.abc import Iterator

import pytest
import torch

from fdsm.derivatives import precision

torch.set_num_threads(1)  # the tensors are small, and threads that wait for a shared core are slow


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(default)


@pytest.fixture(autouse=True)
def _nothing_seen_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision._Watch, "seen", 0)
    monkeypatch.setattr(precision._Watch, "warned", False)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
