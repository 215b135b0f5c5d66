from benchmarks import directions
from benchmarks.timing import time_group

from .benchmark_cases import TINY


def test_every_engine_is_timed_with_each_number_of_directions() -> None:
    (group,) = directions.groups(problems=[TINY], counts=[1, 2])
    assert [case.method for case in group.cases] == [
        "plain",
        "FD-SSM, V = 1", "Taylor-SSM, V = 1", "SSM, V = 1",
        "FD-SSM, V = 2", "Taylor-SSM, V = 2", "SSM, V = 2",
    ]  # fmt: skip
    assert group.repeats >= 1
    assert len(time_group(group)) == len(group.cases)
    assert directions.COUNTS == (1, 2, 4, 8, 16)
