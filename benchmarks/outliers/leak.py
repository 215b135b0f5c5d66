"""How much resampling before the split helps: `python -m benchmarks leak FOLDER`.

The common protocol of ADBench resamples a table of fewer than 1,000 rows with replacement to
1,000 rows, and then splits it into training and test rows. Rows of the test set are then copies
of training rows. This compares the protocol with a split of the rows themselves.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from .methods import METHODS
from .run import evaluate
from .summary import Section
from .tables import Table, read_table

ROWS = 1000
METHOD_NAMES = ("knn1", "knn5", "iforest", "gmm8")


def split(table: Table, order: NDArray[np.int64]) -> Table:
    """Return a table whose training rows are half of the normal rows, in a given order.

    Args:
        table: A table.
        order: Indices of its rows, training and test rows together. Indices may repeat.

    Returns:
        The table with the first half of the normal rows for training and all others for testing.
    """
    rows = np.concatenate([table.train, table.test])[order]
    label = np.concatenate([np.zeros(len(table.train), np.uint8), table.label])[order]
    normal = np.flatnonzero(label == 0)
    train = normal[: len(normal) // 2]
    test = np.setdiff1d(np.arange(len(rows)), train)
    return replace(table, train=rows[train], test=rows[test], label=label[test])


def copies(table: Table) -> float:
    """Return the share of normal test rows that are also training rows."""
    train = {row.tobytes() for row in table.train}
    return float(np.mean([row.tobytes() in train for row in table.held_out]))


def compare(tables: Sequence[Table], seeds: int) -> Section:
    """Return the share of copies and the mean AUC-ROC of both protocols.

    Args:
        tables: Tables of fewer than 1,000 rows.
        seeds: Number of random splits of each table.

    Returns:
        One row for the copies and one for each method.
    """
    split_tables: list[Table] = []
    resampled: list[Table] = []
    for table in tables:
        for seed in range(seeds):
            random = np.random.default_rng(seed)
            n = len(table.train) + len(table.test)
            split_tables.append(split(table, random.permutation(n)))
            resampled.append(split(table, random.integers(n, size=ROWS)))
    protocols = (split_tables, resampled)
    rows = [
        ["normal test rows that are training rows, %", *(percent(copies, p) for p in protocols)]
    ]
    for method in METHOD_NAMES:
        auc = lambda table, build=METHODS[method].build: evaluate(build(0), table)["auc_roc"]
        rows.append([f"AUC-ROC of {METHODS[method].title}", *(percent(auc, p) for p in protocols)])
    title = f"{len(tables)} tables of fewer than {ROWS} rows, {seeds} splits"
    return Section(title, ["", "split", "resample, then split"], rows)


def percent(measure: Callable[[Table], float], tables: Sequence[Table]) -> str:
    """Return the mean of a measure over tables, in percent."""
    return f"{100 * np.mean([measure(table) for table in tables]):.1f}"


def main(arguments: list[str] | None = None) -> None:
    """Compare the two protocols on the small tables of a folder, and print the means."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks leak")
    parser.add_argument("folder", type=Path, help="Folder of .npz files.")
    parser.add_argument("--seeds", type=int, default=3, help="Number of random splits.")
    options = parser.parse_args(arguments)
    tables = [read_table(path) for path in sorted(options.folder.glob("*.npz"))]
    small = [table for table in tables if len(table.train) + len(table.test) < ROWS]
    compare(small, options.seeds).show(Console())
