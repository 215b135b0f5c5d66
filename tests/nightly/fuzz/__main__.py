"""Run cases in worker processes with limits on time and memory.

`python -m tests.nightly.fuzz --cases 2000 --seed 0` runs 2,000 cases for each reader and prints
counts and findings. `--reader NAME --only CASE` runs a single case in this process and shows its
error. Exits with status 1 if there is a finding.
"""

import argparse
import math
import os
import signal
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path

from .cases import Cases
from .readers import Reader
from .workers import Summary, run_all

CHUNK = 25
"""Number of cases that a worker is given at once."""


def main(package: str = "tests.nightly.fuzz") -> None:
    """Parse the command line, run the cases and print the findings.

    Args:
        package: A package with the modules `readers` and `seeds`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="cases for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", help="only the reader of this name")
    parser.add_argument("--only", type=int, help="run a single case of the reader")
    parser.add_argument("--save", type=Path, help="with --only, write the changed file here")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
    module = f"{package}.readers"
    readers = [r for r in import_module(module).READERS if options.reader in {None, r.name}]
    with tempfile.TemporaryDirectory() as name:
        seeds = import_module(f"{package}.seeds").write_seeds(Path(name) / "seeds")
        if options.only is not None:
            _run_one(readers[0], seeds, Path(name), options)
            return
        jobs = [
            (reader.name, first, min(CHUNK, math.ceil(reader.share * options.cases) - first))
            for first in range(0, options.cases, CHUNK)
            for reader in readers
            if first < reader.share * options.cases
        ]
        summary = run_all(module, seeds, options.seed, jobs, options.workers)
    sys.exit(_print(summary, options.seed, package))


def _run_one(reader: Reader, seeds: Path, folder: Path, options: argparse.Namespace) -> None:
    cases = Cases(seeds, folder / "work", options.seed)
    cases.folder.mkdir()
    file, content = cases.content(reader, options.only)
    if options.save is not None:
        options.save.write_bytes(content)
    print(file.name, len(content), cases.run(reader, options.only))


def _print(summary: Summary, seed: int, package: str) -> int:
    """Print counts by reader and all findings. Returns the exit code."""
    for outcome in summary.findings:
        print(
            f"{outcome.kind}: {outcome.details!r}\n    python -m {package} --seed {seed} "
            f"--reader {outcome.reader!r} --only {outcome.case}"
        )
    print(
        f"{'reader':22} {'cases':>7} {'accepted':>9} {'refused':>8} {'findings':>9} {'slowest':>8}"
    )
    for name, counts in summary.counts.items():
        found = counts.total() - counts["accepted"] - counts["refused"]
        print(
            f"{name:22} {counts.total():7,} {counts['accepted']:9,} {counts['refused']:8,} "
            f"{found:9,} {summary.slowest[name]:6.1f} s"
        )
    kinds = Counter(outcome.kind for outcome in summary.findings)
    total = sum(counts.total() for counts in summary.counts.values())
    print(f"{total:,} cases with seed {seed}, {kinds.total():,} findings {dict(kinds) or ''}")
    return 1 if summary.findings else 0


if __name__ == "__main__":
    main()
