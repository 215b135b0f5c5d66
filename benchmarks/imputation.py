"""Missing cells filled in 20 tables of numbers: `python -m benchmarks imputation`.

A fifth of the cells is deleted, completely at random or more often the larger the value is. Every
method learns from the table with gaps and fills them. Finished results are kept, so the same
command continues an interrupted run. Failed runs are tried again.
"""

import argparse
import csv
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import rankdata, wasserstein_distance
from sklearn import datasets
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.experimental import enable_iterative_imputer  # ruff: ignore[unused-import]
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from fdsm import TableModel
from fdsm.atomic_io import replace_file
from paper.data import DataError, find_file

from .outliers.run import timed
from .outliers.summary import Section
from .outliers.tables import Array, column_scales, read_table

RESULTS = Path(__file__).parent / "results" / "imputation"
SHARE = 0.2
"""The share of cells that are deleted."""
MOST_ROWS = 1000

Mask = NDArray[np.bool_]
Record = dict[str, Any]
Imputer = Callable[[Array, int], Array]
"""From rows with NaN, shape `(N, D)`, and a random seed to rows without."""

INTRODUCTION = """# Missing cells filled

Written by `python -m benchmarks imputation`. {tables} tables with at most 1,000 rows, {seeds}.
20 % of the cells are deleted: at random, or with a probability that grows from 0 for the
smallest value of a column to 40 % for the largest. Cells: root mean squared error of the
deleted cells, in standard deviations of their columns. Columns: Wasserstein distance between
the filled and the true values of the deleted cells, in the same unit, mean over the columns.
Rows: energy distance between the rows with gaps, filled, and the true rows. All are means over
the tables; smaller is better. Difference: from the method with the smallest mean, ± the
standard error over the tables. Methods with one draw fill each gap with a random value instead
of the most likely one. Forest: the iterative imputer with 50 extremely randomized trees.
"""


def bundled(load: Callable[[], Any]) -> Callable[[], Array]:
    """Return a function that reads a table of scikit-learn."""
    return lambda: np.asarray(load().data, dtype=np.float64)


def uci(name: str, delimiter: str, left_out: Sequence[str] = ()) -> Callable[[], Array]:
    """Return a function that reads a table of the UCI repository without some columns."""

    def read() -> Array:
        with find_file(name, ("uci",)).open(encoding="utf8", newline="") as file:
            records = list(csv.DictReader(file, delimiter=delimiter))
        names = [column for column in records[0] if column not in left_out]
        return np.array([[float(record[name]) for name in names] for record in records])

    return read


def normal_rows(name: str) -> Callable[[], Array]:
    """Return a function that reads the training rows of a table of the outlier benchmark."""
    return lambda: read_table(find_file(f"{name}.npz", ("tables",))).train


NPZ = (
    *("Pima", "Stamps", "Waveform", "annthyroid", "fault", "glass", "mammography", "pendigits"),
    *("satellite", "vowels", "yeast"),
)
TABLES: dict[str, Callable[[], Array]] = {
    "iris": bundled(datasets.load_iris),
    "wine": bundled(datasets.load_wine),
    "breast cancer": bundled(datasets.load_breast_cancer),
    "diabetes": bundled(datasets.load_diabetes),
    "red wine": uci("winequality-red.csv", ";"),
    "white wine": uci("winequality-white.csv", ";"),
    "parkinsons": uci("parkinsons_updrs.data", ",", ("subject#",)),
    **{name: normal_rows(f"adbench_{name}") for name in NPZ},
    "HousePriceSales": normal_rows("oddbench_HousePriceSales"),
    "VehicleSpecs": normal_rows("oddbench_VehicleSpecs"),
}


def at_random(rows: Array, random: np.random.Generator) -> Mask:
    """Choose a fifth of the cells, all with the same probability."""
    return random.random(rows.shape) < SHARE


def larger_more_often(rows: Array, random: np.random.Generator) -> Mask:
    """Choose a fifth of the cells, with a probability proportional to their rank in the column."""
    ranks = (rankdata(rows, axis=0) - 0.5) / len(rows)
    chosen: Mask = random.random(rows.shape) < 2 * SHARE * ranks
    return chosen


MECHANISMS: dict[str, Callable[[Array, np.random.Generator], Mask]] = {
    "at random": at_random,
    "larger values more often": larger_more_often,
}


def gaps(rows: Array, mechanism: str, seed: int) -> Mask:
    """Return the cells to delete, shape `(N, D)`. Each row and each column keeps a cell."""
    random = np.random.default_rng(seed)
    deleted = MECHANISMS[mechanism](rows, random)
    keep = random.integers(rows.shape[1], size=len(rows))
    deleted[np.arange(len(rows)), keep] &= ~deleted.all(1)
    deleted[0, deleted.all(0)] = False
    return deleted


def iterative(rows: Array, seed: int, *, is_draw: bool = False) -> Array:
    """Fill the gaps by linear regressions of each column on the others, again and again."""
    imputer = IterativeImputer(sample_posterior=is_draw, random_state=seed)
    filled: Array = imputer.fit_transform(rows)
    return filled


def forest(rows: Array, seed: int) -> Array:
    """Fill the gaps by forests of each column on the others, again and again."""
    trees = ExtraTreesRegressor(50, random_state=seed)
    filled: Array = IterativeImputer(trees, max_iter=5, random_state=seed).fit_transform(rows)
    return filled


def score_matching(rows: Array, seed: int, *, draws: int | None = None) -> Array:
    """Fill the gaps by the most likely values of a model, or by its first draw."""
    columns = {f"x{j}": pa.array(column, from_pandas=True) for j, column in enumerate(rows.T)}
    table = pa.table(columns)  # NaN is missing
    model = TableModel.fit(table, numeric=table.column_names, seed=seed)
    first = (
        model.impute(table) if draws is None else model.impute(table, draws=draws, seed=seed)[0]
    )
    return np.stack([first[name].cast(pa.float64()).to_numpy() for name in columns], 1)


METHODS: dict[str, Imputer] = {
    "mean": lambda rows, _: SimpleImputer().fit_transform(rows),
    "KNN": lambda rows, _: KNNImputer().fit_transform(rows),
    "iterative": iterative,
    "iterative, one draw": partial(iterative, is_draw=True),
    "forest": forest,
    "fdsm": score_matching,
    "fdsm, one draw": partial(score_matching, draws=1),
}
"""The methods, by the name that the results use. KNN sees columns as large as they are: it has no
scale of its own, so all methods get standardized columns."""


def compare_cells(true: Array, filled: Array, deleted: Mask) -> dict[str, float]:
    """Return the distances between filled and true cells, columns and rows.

    Args:
        true: The rows without gaps, shape `(N, D)`.
        filled: The rows with filled gaps, shape `(N, D)`.
        deleted: The gaps, shape `(N, D)`.

    Returns:
        `cells`, `columns` and `rows`, all 0 for a perfect method.
    """
    scale = column_scales(true)
    x, y = true / scale, filled / scale
    rows = deleted.any(1)
    distances = [
        wasserstein_distance(a[gap], b[gap])
        for a, b, gap in zip(x.T, y.T, deleted.T, strict=True)
        if gap.any()
    ]
    return {
        "cells": float(np.sqrt(((x - y)[deleted] ** 2).mean())),
        "columns": float(np.mean(distances)),
        "rows": energy_distance(x[rows], y[rows]),
    }


def energy_distance(x: Array, y: Array) -> float:
    r"""Return $\sqrt{2 E|X - Y| - E|X - X'| - E|Y - Y'|}$ of rows.

    Args:
        x: Rows, shape `(N, D)`.
        y: Rows, shape `(M, D)`.

    Returns:
        The distance.

    Example:
        >>> energy_distance(np.zeros((3, 2)), np.full((3, 2), 2**0.5)) ** 2
        4.0
    """
    squared = 2 * cdist(x, y).mean() - cdist(x, x).mean() - cdist(y, y).mean()
    return float(np.sqrt(max(squared, 0.0)))


def measure(rows: Array, mechanism: str, method: Imputer, seed: int) -> Record:
    """Delete cells, fill them, and compare. A gap that a method leaves gets the column's mean."""
    deleted = gaps(rows, mechanism, seed)
    known = np.where(deleted, np.nan, rows)
    mean, scale = np.nanmean(known, 0), column_scales(known)
    with warnings.catch_warnings(action="ignore"):  # iterations that did not converge
        filled, seconds = timed(lambda: method((known - mean) / scale, seed))
    left = np.isnan(filled)
    complete = np.where(deleted, np.nan_to_num(filled, nan=0.0), (rows - mean) / scale)
    distances = compare_cells((rows - mean) / scale, complete, deleted)
    return {**distances, "left": int(left.sum()), "seconds": round(seconds, 2)}


def choose_rows(rows: Array) -> Array:
    """Return at most 1,000 random rows, without columns that are constant there."""
    order = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    chosen = rows[order]
    return chosen[:, chosen.min(0) < chosen.max(0)]


def run(name: str, methods: Sequence[str], seeds: int, out: Path) -> None:
    """Run the missing results of a table, and write them."""
    path = out / f"{name}.json"
    results: dict[str, Record] = json.loads(path.read_text("utf8")) if path.exists() else {}
    rows = choose_rows(TABLES[name]())
    for mechanism in MECHANISMS:
        for method in methods:
            for seed in range(seeds):
                key = f"{mechanism}, {method}, {seed}"
                if "error" not in results.get(key, {"error": ""}):
                    continue
                try:
                    record = measure(rows, mechanism, METHODS[method], seed)
                except Exception as error:
                    record = {"error": f"{type(error).__name__}: {error}"}
                results[key] = record
                shown = record.get("error") or f"{record['cells']:.3f} ({record['seconds']} s)"
                print(f"{name}, {key}: {shown}", flush=True)
                with replace_file(path) as draft:
                    draft.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")


def summarize(results: Mapping[str, Mapping[str, Record]], seeds: int) -> list[Section]:
    """Compare the methods that have finished every table, the best first."""
    sections = []
    for mechanism in MECHANISMS:
        means: dict[str, Array] = {}  # (T, 4) for each method
        for method in METHODS:
            keys = [f"{mechanism}, {method}, {seed}" for seed in range(seeds)]
            records = [[table.get(key, {}) for key in keys] for table in results.values()]
            if all("cells" in record for some in records for record in some):
                parts = ("cells", "columns", "rows", "seconds")
                values = [[[record[part] for part in parts] for record in r] for r in records]
                means[method] = np.array(values).mean(1)
        if not means:
            continue
        best = [min(means.values(), key=lambda m: m[:, part].mean())[:, part] for part in range(3)]
        ranks = rankdata([table[:, 0] for table in means.values()], axis=0).mean(1)
        rows = []
        for index, (method, table) in enumerate(means.items()):
            cells = [method]
            for part in range(3):
                difference = table[:, part] - best[part]
                error = difference.std(ddof=1) / len(difference) ** 0.5 if len(table) > 1 else 0
                cells += [f"{table[:, part].mean():.3f}"]
                cells += [f"{difference.mean():+.3f} ± {error:.3f}" if difference.any() else "—"]
            rows.append([*cells, f"{ranks[index]:.2f}", f"{np.median(table[:, 3]):.2f}"])
        header = ["method", "cells", "difference", "columns", "difference", "rows", "difference"]
        title = f"{mechanism.capitalize()} ({len(results)} tables)"
        sections.append(Section(title, [*header, "mean rank of cells", "median s"], rows))
    return sections


def main(arguments: list[str] | None = None) -> None:
    """Run the methods on the tables and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks imputation")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=1, help="Number of random seeds.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        try:
            run(name, options.methods, options.seeds, options.out)
        except DataError as error:
            print(f"{name} is skipped: {error}.")
    paths = {name: options.out / f"{name}.json" for name in TABLES}
    results = {name: json.loads(p.read_text("utf8")) for name, p in paths.items() if p.exists()}
    seeds = "1 seed" if options.seeds == 1 else f"{options.seeds} seeds"
    parts = [INTRODUCTION.format(tables=len(results), seeds=seeds)]
    parts += [section.markdown() + "\n" for section in summarize(results, options.seeds)]
    with replace_file(options.out / "README.md") as draft:
        draft.write_text("\n".join(parts), encoding="utf8")
    print("\n".join(parts[1:]))
