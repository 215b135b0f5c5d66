import pytest

from benchmarks.records import Case, Cost
from benchmarks.suite import BENCHMARKS, Benchmark, find_slower_twice, run
from benchmarks.timing import Group

from .benchmark_cases import FD, PLAIN, record

GROUP = Group("tiny", {PLAIN: lambda: lambda: None, FD: lambda: lambda: None}, 1)


def benchmark(*ratios: float) -> Benchmark:
    """Return a benchmark that measures the given ratios one after the other."""
    results = iter(ratios)

    def measure(group: Group) -> list[Cost]:
        costs = {PLAIN: 1.0, FD: next(results)}
        return [Cost(group.problem, case, (costs[case],)) for case in group.cases]

    return Benchmark("step", lambda peers: [GROUP], {"gradient": PLAIN}, measure)


def test_results_have_a_date_and_a_machine() -> None:
    lines = list[str]()
    found = run(benchmark(2.0), [GROUP], lines.append)
    assert found.ratio(found.cost("tiny", FD)).fastest == pytest.approx(2)
    assert found.machine["cores"]
    assert len(found.date) == len("2026-01-01")
    assert lines == ["step: tiny, 2 cases ..."]


@pytest.mark.parametrize(
    ("ratios", "after"), [((2.1,), []), ((3.0, 2.0), []), ((3.0, 2.5), [2.5]), ((2.5, 3.0), [2.5])]
)
def test_a_slower_case_fails_if_it_is_slower_twice(
    ratios: tuple[float, ...], after: list[float]
) -> None:
    one = benchmark(*ratios)
    measured = run(one, [GROUP])
    slower = find_slower_twice(one, [GROUP], record(fd=2.0), measured)
    assert [found.after for found in slower] == after


def test_only_slower_cases_are_measured_again() -> None:
    seen = list[set[Case]]()

    def measure(group: Group) -> list[Cost]:
        seen.append(set(group.cases))
        return [Cost("tiny", case, (9.0 if case == FD else 1.0,)) for case in group.cases]

    other = Case("gradient", "DSM")
    group = Group("tiny", {**GROUP.cases, other: lambda: lambda: None}, 1)
    one = Benchmark("step", lambda peers: [group], {"gradient": PLAIN}, measure)
    find_slower_twice(one, [group], record(), run(one, [group]))
    assert seen == [{PLAIN, FD, other}, {PLAIN, FD}]


@pytest.mark.parametrize("one", BENCHMARKS, ids=lambda one: one.name)
def test_every_problem_has_the_references_of_its_modes(one: Benchmark) -> None:
    for group in one.groups(frozenset()):
        modes = {case.mode for case in group.cases}
        assert modes <= one.references.keys()
        assert all(one.references[mode] in group.cases for mode in modes)
        assert group.repeats > 1


def test_names_are_unique() -> None:
    assert len({one.name for one in BENCHMARKS}) == len(BENCHMARKS)
