"""Costs of steps, derivatives and operators as ratios within one run: `python -m benchmarks step`.

Runs are interleaved on one core with one thread, and measured in CPU time. Ratios are those of the
fastest runs, with the quartiles of the ratios of neighboring runs.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fdsm.cli.printing import console, log, print_json, report_files
from fdsm.serialize import Json, to_json

from . import suite, time_to_loss, timing
from .peers.packages import installed, missing_message
from .records import Record, Slower, Trainings
from .records.files import write_results
from .records.record import read_record
from .records.tables import slower_table, tables_of
from .suite import NAMES, TRAINING, Benchmark, find_slower_twice, run
from .timing import Group

COMMITTED = Path(__file__).parent / "results" / "costs"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print tables, write files, and fail if a ratio is worse than the committed one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    option = parser.add_argument
    option("name", choices=[*NAMES, "all"], metavar="NAME", help=", ".join([*NAMES, "all"]))
    option(
        "--peers",
        action="store_true",
        help="Compare with torchebm, JAX, folx and torch-jet, where they are installed.",
    )
    option(
        "--check",
        action="store_true",
        help="Fail if a ratio is more than 10 %% worse than the committed one, measured twice. "
        "Trainings are not checked.",
    )
    option("--out", type=Path, help="Folder for NAME.json and NAME.svg. Default: none is written.")
    option("--committed", type=Path, default=COMMITTED, help="Folder that --check compares with.")
    option("--repeats", type=int, help="Number of runs of each case. Default: by problem.")
    option("--seconds", type=float, default=20.0, help="CPU time of a training of time-to-loss.")
    option("--seeds", type=int, default=5, help="Number of trainings of each method there.")
    option("--json", action="store_true", help="Print JSON instead of tables.")
    given = parser.parse_args(arguments)
    positive = (given.seconds, given.seeds, 1 if given.repeats is None else given.repeats)
    if min(positive) <= 0:
        parser.error("--repeats, --seconds and --seeds must be positive")
    packages = installed() if given.peers else frozenset[str]()
    if given.peers and (message := missing_message(packages)):
        log(message)
    timing.pin_to_one_core()
    printed: dict[str, Json] = {}
    slower: list[Slower] = []
    for benchmark in suite.BENCHMARKS:
        if given.name in {benchmark.name, "all"}:
            groups = [_repeated(group, given.repeats) for group in benchmark.groups(packages)]
            record, worse = _run(benchmark, groups, given.committed if given.check else None)
            slower += worse
            printed[record.name] = _show(record, given.out, as_json=given.json)
    if given.name in {TRAINING, "all"} and not given.check:
        trainings = time_to_loss.run(packages, seconds=given.seconds, seeds=given.seeds, log=log)
        printed[trainings.name] = _show(trainings, given.out, as_json=given.json)
    if given.json:
        print_json(printed)
    if slower:
        console().print(slower_table(slower).terminal())
        sys.exit(1)


def _repeated(group: Group, repeats: int | None) -> Group:
    return group if repeats is None else replace(group, repeats=repeats)


def _run(
    benchmark: Benchmark, groups: list[Group], committed: Path | None
) -> tuple[Record, list[Slower]]:
    """Measure a benchmark and compare it with committed results, if there is a folder of them."""
    if committed is None:
        return run(benchmark, groups, log), []
    before = read_record(committed / f"{benchmark.name}.json", Record)
    record = run(benchmark, groups, log)
    return record, find_slower_twice(benchmark, groups, before, record, log)


def _show(results: Record | Trainings, out: Path | None, *, as_json: bool) -> Json:
    """Print tables unless JSON is wanted, write files, and return the results as JSON."""
    if not as_json:
        for table in tables_of(results):
            console(stderr=False).print(table.terminal())
    if out is not None:
        report_files(write_results(results, out), json=False)
    return to_json(results)
