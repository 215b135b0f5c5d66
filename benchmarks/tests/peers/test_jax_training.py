import pytest

pytest.importorskip("jax")

from benchmarks.peers.jax_training import JaxTrainer

from ..benchmark_cases import assert_learns


def test_a_training_in_jax_learns_two_modes() -> None:
    assert_learns(JaxTrainer)
