import os

import pytest

from benchmarks.records import Case
from benchmarks.timing import WARM_UP, Group, Unsupported, pin_to_one_core, time_group


def test_every_case_is_built_once_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [0.0], list[str]()

    def build(name: str, seconds: float) -> object:
        def call() -> None:
            calls.append(name)
            now[0] += seconds

        calls.append(f"build {name}")
        return call

    monkeypatch.setattr("time.process_time", lambda: now[0])
    a, b = Case("gradient", "a"), Case("gradient", "b")
    group = Group("p", {a: lambda: build("a", 1.0), b: lambda: build("b", 3.0)}, 2)
    first, second = time_group(group)
    assert (first.problem, first.case, first.samples) == ("p", a, (1.0, 1.0))
    assert second.samples == (3.0, 3.0)
    assert calls.count("build a") == 1
    assert calls.count("a") == WARM_UP + 2
    assert list(group.only([b]).cases) == [b]


def test_a_case_that_cannot_be_measured_is_left_out_with_its_reason() -> None:
    def fail() -> object:
        raise Unsupported("torch cannot compile it")

    good, bad = Case("graph", "good"), Case("graph", "bad")
    with pytest.warns(UserWarning, match="bad, fdsm, graph on p is left out: torch cannot"):
        costs = time_group(Group("p", {bad: fail, good: lambda: lambda: None}, 1))
    assert [cost.case for cost in costs] == [good]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux pins processes")
def test_the_process_is_pinned_to_one_of_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    allowed = os.sched_getaffinity(0)
    try:
        pin_to_one_core()
        assert os.sched_getaffinity(0) == {max(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)
