"""The benchmarks by name, and how one is run and checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from . import directions, exact, memory, operators, orders, step
from .records.check import Slower, cases_to_repeat, find_slower
from .records.machine import describe_machine
from .records.record import Case, Cost, Record
from .timing import Group, Measure, time_group

TRAINING = "time-to-loss"
"""Name of the comparison of losses after the same time."""


@dataclass(frozen=True)
class Benchmark:
    """A comparison of costs.

    Attributes:
        name: Name on the command line.
        groups: Returns what to compare, given the other packages to compare with.
        references: The case that ratios are relative to, for each mode.
        measure: Measures a group.
        unit: Unit of the costs.
    """

    name: str
    groups: Callable[[frozenset[str]], Sequence[Group]]
    references: Mapping[str, Case]
    measure: Measure = time_group
    unit: str = "seconds"


BENCHMARKS = (
    Benchmark("step", step.groups, step.REFERENCES),
    Benchmark("exact", exact.groups, exact.REFERENCES),
    Benchmark("orders", orders.groups, orders.REFERENCES),
    Benchmark("directions", directions.groups, directions.REFERENCES),
    Benchmark("operators", operators.groups, operators.REFERENCES),
    Benchmark("fields", operators.field_groups, operators.REFERENCES),
    Benchmark("memory", memory.groups, memory.REFERENCES, memory.measure_memory, "bytes"),
)

NAMES = (*(benchmark.name for benchmark in BENCHMARKS), TRAINING)
"""All names on the command line."""


def run(
    benchmark: Benchmark,
    groups: Sequence[Group],
    log: Callable[[str], None] = lambda line: None,
) -> Record:
    """Measure groups of a benchmark.

    Args:
        benchmark: The benchmark.
        groups: Some or all of its groups.
        log: Called with a line before each group.

    Returns:
        The results, with the date and the machine.
    """
    costs: list[Cost] = []
    for group in groups:
        log(f"{benchmark.name}: {group.problem}, {len(group.cases)} cases ...")
        costs += benchmark.measure(group)
    return Record(
        benchmark.name,
        benchmark.unit,
        benchmark.references,
        tuple(costs),
        datetime.now(UTC).date().isoformat(),
        describe_machine(),
    )


def find_slower_twice(
    benchmark: Benchmark,
    groups: Sequence[Group],
    committed: Record,
    measured: Record,
    log: Callable[[str], None] = lambda line: None,
) -> list[Slower]:
    """Return the cases that are slower than committed, twice.

    Cases that are slower in the first measurement are measured once more, with their references.

    Args:
        benchmark: The benchmark.
        groups: Its groups.
        committed: The committed results.
        measured: The first measurement.
        log: Called with a line before each group that is measured again.

    Returns:
        The cases, with the smaller of both ratios.
    """
    first = find_slower(committed, measured)
    again = cases_to_repeat(measured, first)
    repeated = [group.only(again[group.problem]) for group in groups if group.problem in again]
    second = find_slower(committed, run(benchmark, repeated, log)) if repeated else []
    ratios = {(slowdown.problem, slowdown.case): slowdown.after for slowdown in first}
    return [
        replace(slowdown, after=min(slowdown.after, ratios[slowdown.problem, slowdown.case]))
        for slowdown in second
        if (slowdown.problem, slowdown.case) in ratios
    ]
