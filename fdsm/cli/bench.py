"""`fdsm bench`: measure costs as ratios within one run."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from .options import Flag, IntOption, PathOption, UsageError
from .printing import console, log, print_json, report_files

if TYPE_CHECKING:
    from ..benchmarks.results import Record, Slower, Trainings
    from ..benchmarks.suite import Benchmark
    from ..benchmarks.timing import Group
    from ..serialize import Json

Name = Literal[
    "step", "exact", "orders", "directions", "memory", "operators", "time-to-loss", "all"
]
TRAINING = "time-to-loss"


def bench(
    name: Annotated[Positional[Name], arg(help_behavior_hint="")] = "step",
    /,
    *,
    peers: Flag = False,
    check: Flag = False,
    out: PathOption = None,
    committed: Path = Path("results/bench"),
    repeats: IntOption = None,
    seconds: float = 20.0,
    seeds: int = 5,
    json: Flag = False,
) -> None:
    """Measure the costs of steps, derivatives and operators as ratios within one run.

    Runs are interleaved on one core with one thread, and measured in CPU time. Ratios are those of
    the fastest runs, with the quartiles of the ratios of neighbouring runs.

    Args:
        name: What to measure. Default: step.
        peers: Compare with torchebm, JAX and folx, where they are installed.
        check: Fail if a ratio is more than 10 % worse than the committed one, measured twice.
            Trainings are not checked.
        out: Folder for NAME.json and NAME.svg. Default: nothing is written.
        committed: Folder of the results that --check compares with.
        repeats: Number of runs of each case. Default: depends on the problem.
        seconds: CPU time of each training in time-to-loss.
        seeds: Number of trainings of each method in time-to-loss.
        json: Print JSON instead of tables.

    Raises:
        UsageError: If an option is out of range.
    """
    from ..benchmarks.suite import BENCHMARKS
    from ..benchmarks.timing import pin_to_one_core

    if (repeats is not None and repeats < 1) or seconds <= 0 or seeds < 1:
        raise UsageError("--repeats, --seconds and --seeds must be positive")
    found = _find_peers() if peers else frozenset[str]()
    pin_to_one_core()
    printed: dict[str, Json] = {}
    slower: list[Slower] = []
    for benchmark in (one for one in BENCHMARKS if name in {one.name, "all"}):
        groups = [_repeated(group, repeats) for group in benchmark.groups(found)]
        record, worse = _run(benchmark, groups, committed if check else None)
        slower += worse
        printed[record.name] = _show(record, out, json=json)
    if name in {TRAINING, "all"} and not check:
        from ..benchmarks import time_to_loss

        trainings = time_to_loss.run(found, seconds=seconds, seeds=seeds, log=log)
        printed[trainings.name] = _show(trainings, out, json=json)
    if json:
        print_json(printed)
    if slower:
        from ..benchmarks.results.tables import slower_table

        console().print(slower_table(slower).terminal())
        sys.exit(1)


def _find_peers() -> frozenset[str]:
    """Return the installed packages to compare with, and say which are missing."""
    from ..benchmarks.peers.packages import installed, missing_message

    found = installed()
    if message := missing_message(found):
        log(message)
    return found


def _repeated(group: "Group", repeats: int | None) -> "Group":
    return group if repeats is None else replace(group, repeats=repeats)


def _run(
    benchmark: "Benchmark", groups: "list[Group]", committed: Path | None
) -> "tuple[Record, list[Slower]]":
    """Measure a benchmark and compare it with committed results, if there is a folder of them."""
    from ..benchmarks.results.record import Record, read_record
    from ..benchmarks.suite import find_slower_twice, run

    if committed is None:
        return run(benchmark, groups, log), []
    known = read_record(committed / f"{benchmark.name}.json", Record)
    record = run(benchmark, groups, log)
    return record, find_slower_twice(benchmark, groups, known, record, log)


def _show(results: "Record | Trainings", out: Path | None, *, json: bool) -> "Json":
    """Print tables unless JSON is wanted, write files, and return the results as JSON."""
    from ..benchmarks.results.tables import tables_of
    from ..serialize import to_json

    if not json:
        for table in tables_of(results):
            console(stderr=False).print(table.terminal())
    if out is not None:
        from ..benchmarks.results.files import write_results

        report_files(write_results(results, out), json=False)
    return to_json(results)
