"""Comparison of measured ratios with committed ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from .record import Case, Record

TOLERANCE = 0.1
"""How much larger a ratio may be than the committed one."""


@dataclass(frozen=True)
class Slower:
    """A ratio that has become worse.

    Attributes:
        problem: Name of the problem.
        case: What was measured.
        before: The committed ratio.
        after: The measured ratio.
    """

    problem: str
    case: Case
    before: float
    after: float


def find_slower(committed: Record, measured: Record, tolerance: float = TOLERANCE) -> list[Slower]:
    """Return the cases of this package whose ratio is worse than the committed one.

    The ratios of the fastest runs are compared, because noise affects them least. Cases that only
    one of the records has are not compared.

    Args:
        committed: The earlier record.
        measured: The new record.
        tolerance: Relative increase that is accepted.

    Returns:
        The cases, in the order of the measurement.
    """
    before = {
        (cost.problem, cost.case): committed.ratio(cost).fastest
        for cost in committed.costs
        if cost.case.by == "fdsm"
    }
    slower = []
    for cost in measured.costs:
        ratio = before.get((cost.problem, cost.case))
        after = measured.ratio(cost).fastest
        if ratio is not None and after > ratio * (1 + tolerance):
            slower.append(Slower(cost.problem, cost.case, ratio, after))
    return slower


def cases_to_repeat(record: Record, slower: Sequence[Slower]) -> dict[str, set[Case]]:
    """Return the cases to measure again, with their references, by problem."""
    repeat: dict[str, set[Case]] = {}
    for slowdown in slower:
        cases = {slowdown.case, record.references[slowdown.case.mode]}
        repeat.setdefault(slowdown.problem, set()).update(cases)
    return repeat
