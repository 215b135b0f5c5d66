import pytest

from benchmarks.peers import packages
from benchmarks.peers.packages import installed, missing_message


def test_missing_packages_are_named_with_a_command() -> None:
    message = missing_message(frozenset({"torchebm"}))
    assert "left out: jax, folx, jet." in message
    assert message.endswith("pip install jax jaxlib folx torchebm jet-for-pytorch")
    assert "\n" not in message
    assert missing_message(frozenset({"torchebm", "jax", "folx", "jet"})) == ""


@pytest.mark.parametrize(
    ("there", "found"),
    [({"jax", "folx"}, {"jax", "folx"}), ({"folx", "torchebm"}, {"torchebm"}), (set(), set())],
)
def test_folx_needs_jax(there: set[str], found: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: object() if name in there else None)
    assert installed() == found
