import pytest

from benchmarks import exact
from benchmarks.step import GRAPH
from benchmarks.timing import time_group
from fdsm.evaluation import exact_sm_loss

from .benchmark_cases import TINY


def test_all_eager_cases_are_timed() -> None:
    (group,) = exact.groups(problems=[TINY])
    eager = [case for case in group.cases if case.mode != GRAPH]
    assert {cost.case for cost in time_group(group.only(eager))} == set(eager)
    assert {case.mode for case in group.cases} == set(exact.REFERENCES)


def test_the_dimensions_of_the_goal_are_measured() -> None:
    assert [problem.shape[1] for problem in exact.PROBLEMS] == [16, 64, 196]


def test_the_value_is_that_of_the_objective() -> None:
    """`SM` divides by the dimension."""
    model, x = TINY.build()
    value = exact.exact_value(TINY)().value
    assert value == pytest.approx(exact_sm_loss(model, x).value)
    assert exact.OBJECTIVE(model, x).mean().item() * 3 == pytest.approx(value, rel=1e-4)
