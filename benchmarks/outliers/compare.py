"""Run the benchmark: `python -m benchmarks outliers FOLDER`.

Every table has a file of results. Finished results are kept, so the same command continues an
interrupted run. Several processes may share a folder if they run different tables. Failed runs are
tried again. To run a method again, delete its entries, or the files.
"""

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatch
from pathlib import Path

import torch
from rich.console import Console

from fdsm.atomic_io import replace_file

from .methods import METHODS
from .run import Job, Result
from .summary import Results, Section, sections
from .tables import Table, read_table

RESULTS = Path(__file__).parents[1] / "results" / "outliers"
WIDTH_OF_FILES = 160
"""The width of the tables if the output is not a terminal."""

INTRODUCTION = """# Outlier scores of tables

Written by `python -m benchmarks outliers`. Training rows are normal rows; no method sees a label.
AUC-ROC and AUC-PR are means over the tables, in percent. Methods with a random seed: mean over
{seeds} ± standard deviation over the seeds of the mean over the tables. Wins: tables with
the highest AUC-ROC; ties count for each. Seconds: process time of training on one thread.

5-NN is the distance to the fifth neighbor. GMM-8 has 8 components, or one for each 50 rows if
there are fewer than 400. GMM-BIC has the number of components that minimizes BIC, up to 32. All
other parameters are defaults. Columns are standardized, except for fdsm.
{missing}"""
MISSING = """
{percent:.0f} % of the cells of training and test rows were deleted at random. fdsm sees that they
are missing; for the other methods the mean of the column replaces them. Change: difference of the
AUC-ROC from that without missing cells.
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the methods on the tables and print and write the comparison."""
    options = parse(arguments)
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_FILES)
    tables = [read_table(path) for path in sorted(options.folder.glob("*.npz"))]
    chosen = choose(tables, options.only)
    methods = available(options.methods, console)
    out = options.out / f"missing-{options.missing:g}" if options.missing else options.out
    with one_thread():
        for table in chosen:
            for method in methods:
                for seed in range(options.seeds if METHODS[method].seeded else 1):
                    job = Job(table, method, seed, options.missing, options.samples)
                    if not job.is_done(out):
                        console.print(line(job.run(out)), markup=False, highlight=False)
    for section in compare(options, out, chosen):
        section.show(console)
    if not options.only:
        write(options, out, tables)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options, or end with a message if they are not valid."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks outliers")
    parser.add_argument("folder", type=Path, help="Folder of .npz files.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, default=3, help="Number of random seeds.")
    parser.add_argument("--only", nargs="+", default=[], help="Names or patterns of tables.")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--missing", type=float, default=0.0, help="Fraction of cells to delete.")
    parser.add_argument("--samples", action="store_true", help="Test the samples too.")
    options = parser.parse_args(arguments)
    if not any(options.folder.glob("*.npz")):
        parser.error(f"{options.folder} contains no .npz file")
    if not 0 <= options.missing < 1:
        parser.error(f"--missing must be from 0 to below 1, but is {options.missing}")
    if options.missing and options.samples:
        parser.error("--samples compares complete rows. Use it without --missing")
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, but is {options.seeds}")
    return options


def choose(tables: list[Table], patterns: list[str]) -> list[Table]:
    """Return the tables whose name matches a pattern, or all if there is no pattern.

    Args:
        tables: All tables.
        patterns: Names, or patterns with `*`.

    Returns:
        The tables.

    Raises:
        SystemExit: If a pattern matches no table.
    """
    unused = [p for p in patterns if not any(fnmatch(table.name, p) for table in tables)]
    if unused:
        names = ", ".join(table.name for table in tables)
        raise SystemExit(f"No table is called {' or '.join(unused)}. There are: {names}")
    return [t for t in tables if not patterns or any(fnmatch(t.name, p) for p in patterns)]


def available(methods: list[str], console: Console) -> list[str]:
    """Return the methods whose package is installed, and print why the others are skipped."""
    installed = []
    for method in methods:
        try:
            METHODS[method].build(0)
            installed.append(method)
        except ImportError as error:
            console.print(f"{METHODS[method].title} is skipped: {error}.", highlight=False)
    return installed


def one_thread() -> AbstractContextManager[object]:
    """Limit linear algebra to one thread, if threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def line(result: Result) -> str:
    """Return one line about a result."""
    name = f"{result['table']}  {METHODS[result['method']].title}, seed {result['seed']}"
    if "error" in result:
        return f"{name}: failed ({result['error']})"
    samples = f", samples {result['sample_auc']:.3f}" if "sample_auc" in result else ""
    return f"{name}: {100 * result['auc_roc']:.1f}{samples} ({result['fit_seconds']:.1f} s)"


def compare(options: argparse.Namespace, out: Path, tables: list[Table]) -> list[Section]:
    """Return the comparison of the results in a folder."""
    names = [table.name for table in tables]
    results = Results.read(out, names, list(METHODS), options.seeds)
    if not options.missing:
        return sections(results)
    return sections(results, Results.read(options.out, names, list(METHODS), options.seeds))


def write(options: argparse.Namespace, out: Path, tables: list[Table]) -> None:
    """Write the comparison of all tables as `README.md` of the results."""
    missing = MISSING.format(percent=100 * options.missing) if options.missing else ""
    seeds = "1 seed" if options.seeds == 1 else f"{options.seeds} seeds"
    parts = [INTRODUCTION.format(seeds=seeds, missing=missing)]
    parts += [section.markdown() + "\n" for section in compare(options, out, tables)]
    results = Results.read(out, [table.name for table in tables], list(METHODS), options.seeds)
    unfinished = [
        f"{METHODS[method].title} ({results.unfinished(method)} of {len(tables)} tables missing)"
        for method in METHODS
        if method not in results.methods and results.has_any(method)
    ]
    if unfinished:
        parts.append(f"Not finished, and left out: {', '.join(unfinished)}.\n")
    with replace_file(out / "README.md") as draft:
        draft.write_text("\n".join(parts), encoding="utf8")
