import pytest

from fdsm.training.compiled import graph

from .cases import traced_only


@pytest.fixture
def _traced_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run traced graphs operation by operation, without waiting for the compiler."""
    monkeypatch.setattr(graph, "_compiled", traced_only)
