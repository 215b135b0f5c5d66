from benchmarks.peers.packages import installed
from benchmarks.records import Case, Cost, Record
from benchmarks.records.goals import GOALS, Goal, goal_table
from benchmarks.suite import BENCHMARKS

from ..benchmark_cases import FD, PEER, PLAIN, record


def test_the_fastest_of_several_cases_counts() -> None:
    slow = Case("Adam", "FD-SSM")
    costs = (*record().costs, Cost("tiny", slow, (5.0, 5.0, 5.0)))
    both = Record("step", "seconds", {}, costs)
    goal = Goal("FD / JAX", "step", "tiny", (slow, FD), (PEER,), 0.5)
    assert goal.ratio({"step": both}) == record().costs[1].ratio_to(record().costs[2])
    assert goal.ratio({}) is None
    assert Goal("", "step", "other", (FD,), (PEER,), 1.0).ratio({"step": both}) is None


def test_the_table_says_how_far_a_goal_is_missed(monkeypatch: object) -> None:
    missed = Goal("FD / plain", "step", "tiny", (FD,), (PLAIN,), 1.6)
    reached = Goal("FD / JAX", "step", "tiny", (FD,), (PEER,), 1.0)
    unknown = Goal("?", "memory", "tiny", (FD,), (PEER,), 1.0)
    monkeypatch.setattr("benchmarks.records.goals.GOALS", (missed, reached, unknown))
    assert goal_table({"step": record()}).rows == (
        ("FD / plain", "tiny", "1.6", "2.00 (2.00-3.00)", "no, 25% above"),
        ("FD / JAX", "tiny", "1", "0.67 (0.67-1.00)", "yes"),
    )


def test_every_goal_compares_cases_that_are_measured() -> None:
    """Cases of packages that are not installed cannot be found."""
    peers = installed()
    cases = {
        (one.name, group.problem, case)
        for one in BENCHMARKS
        for group in one.groups(peers)
        for case in group.cases
    }
    for goal in GOALS:
        for side in (goal.ours, goal.theirs):
            wanted = [case for case in side if case.by in {"fdsm", "torch", "by hand"} or peers]
            assert all((goal.benchmark, goal.problem, case) in cases for case in wanted), goal
