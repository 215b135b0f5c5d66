import pytest

from benchmarks.records import Curve

from ..benchmark_cases import trainings

EBM, OURS = "SSM, torchebm", "FD-SSM, fdsm"


@pytest.mark.parametrize(
    ("seconds", "loss"), [(-1.0, 4.0), (0.0, 4.0), (1.0, 3.0), (2.0, 2.0), (3.0, 5.0), (9.0, 8.0)]
)
def test_losses_are_interpolated_between_evaluations(seconds: float, loss: float) -> None:
    curve = Curve("p", "m", 0, 0.0, 1, (0.0, 2.0, 4.0), (4.0, 2.0, 8.0))
    assert curve.loss_at(seconds) == loss


def test_final_losses_are_means_over_seeds_with_standard_errors() -> None:
    """-2 and -4: the standard deviation is √2, the standard error 1."""
    final = trainings().final_loss("wine", EBM, count_compilation=False)
    assert (final.value, final.error) == (-3.0, pytest.approx(1.0))


def test_compilation_with_an_empty_cache_is_counted() -> None:
    """Five of ten seconds remain."""
    final = lambda counted: trainings().final_loss("wine", OURS, count_compilation=counted).value
    assert trainings().compile_seconds("wine", OURS) == pytest.approx(5)
    assert (final(False), final(True)) == (pytest.approx(-8), pytest.approx(-6))


def test_the_time_to_a_loss_is_that_of_the_first_crossing() -> None:
    assert trainings().seconds_to("wine", OURS, -3.0) == pytest.approx(2.5)
    assert trainings().seconds_to("wine", OURS, -7.0) == pytest.approx(7.5)
    assert trainings().seconds_to("wine", OURS, 1.0) == pytest.approx(0)
    assert trainings().seconds_to("wine", EBM, -3.5) is None
