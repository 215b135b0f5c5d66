import pytest

from benchmarks.records.check import Slower, cases_to_repeat, find_slower

from ..benchmark_cases import FD, PLAIN, record


@pytest.mark.parametrize("now", [1.0, 2.0, 2.19])
def test_ratios_within_ten_percent_or_faster_pass(now: float) -> None:
    assert find_slower(record(fd=2.0), record(fd=now)) == []


def test_a_worse_ratio_is_found() -> None:
    assert find_slower(record(fd=2.0), record(fd=2.21)) == [Slower("tiny", FD, 2.0, 2.21)]


def test_other_packages_may_become_slower() -> None:
    assert find_slower(record(peer=3.0), record(peer=30.0)) == []


def test_slower_cases_are_repeated_with_their_reference() -> None:
    assert cases_to_repeat(record(), [Slower("tiny", FD, 2.0, 3.0)]) == {"tiny": {FD, PLAIN}}
