"""Samples of eight tables of mixed types against the tables: `python -m benchmarks synthesis`.

Each table is split in half at random. A method sees one half and draws as many rows as the other
half has. Finished results are kept, so the same command continues an interrupted run. Failed runs
are tried again.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from scipy.special import ndtr
from scipy.stats import norm, rankdata, spearmanr
from scipy.stats.contingency import association
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from fdsm import TableModel
from fdsm.atomic_io import replace_file
from paper.data import DataError

from .mixed_tables.detectors import OneHot, encode
from .mixed_tables.sources import weather, wines
from .mixed_tables.trials import TRIALS
from .outliers.run import timed
from .outliers.summary import Section
from .outliers.tables import Array, column_scales

RESULTS = Path(__file__).parent / "results" / "synthesis"
MOST_ROWS, MOST_LEVELS = 4000, 150

INTRODUCTION = """# Samples of tables

Written by `python -m benchmarks synthesis`. Tables with at most 4,000 rows are split in half; a
method learns from one half, and its samples are compared with the other half. AUC: of gradient
boosting that separates samples from held-out rows, in five folds; 0.5 is perfect. Pairs: mean
absolute difference between the strengths of the relations of all pairs of columns (Spearman
correlation, Cramér's V, correlation ratio). Distance: median distance of a sample to the closest
training row, over that of held-out rows. Closer: the probability that a sample is closer to the
training rows than a held-out row; 0.5 is perfect, and 1 means copies. Copies of training rows show
what is possible in the first two measures and wrong in the others. Columns with one value, and
text with more than 150 values or different values in more than half of the rows, are left out.
"""

Record = dict[str, Any]
Sampler = Callable[[pa.Table, int, int], pa.Table]
"""From training rows, a number of samples and a random seed to samples."""

TABLES: dict[str, Callable[[], pa.Table]] = {
    "weather": lambda: pa.Table.from_pylist(weather().rows),
    "wines": lambda: pa.Table.from_pylist(wines().rows),
    **{
        name: TRIALS[name].read
        for name in ("cars", "penguins_raw", "lung", "planes", "diamonds", "flights")
    },
}


def split(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return random halves of a table, without constants and text with too many values."""
    order = np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]
    chosen = table.take(order)
    most = min(MOST_LEVELS, len(chosen) // 2)
    levels = {name: len(chosen[name].drop_null().unique()) for name in chosen.column_names}
    kept = [
        name
        for name, count in levels.items()
        if count > 1 and not (is_text(chosen[name]) and count > most)
    ]
    half = len(chosen) // 2
    return chosen.select(kept).slice(0, half), chosen.select(kept).slice(half)


def is_text(column: pa.ChunkedArray) -> bool:
    """Whether a column holds categories."""
    return bool(pa.types.is_string(column.type))


def copies(train: pa.Table, count: int, seed: int) -> pa.Table:
    """Return training rows, each once before any is used again."""
    order = np.random.default_rng(seed).permutation(len(train))
    return train.take(np.resize(order, count))


def independent_columns(train: pa.Table, count: int, seed: int) -> pa.Table:
    """Return rows whose cells are drawn from the columns independently."""
    random = np.random.default_rng(seed)
    cells = {
        name: train[name].take(random.integers(len(train), size=count))
        for name in train.column_names
    }
    return pa.table(cells)


def gaussian_copula(train: pa.Table, count: int, seed: int) -> pa.Table:
    r"""Return samples of a Gaussian copula with the columns of the training rows.

    A column is in the order of a standard normal variable: equal cells are an interval, with mean
    score $m$, and missing cells come last. The correlation of two variables is
    $\text{cov}(m, m') / (\text{var}(m) \text{var}(m'))$, exact if one of the columns has no equal
    cells (Olsson, Drasgow and Dorans, 1982). Each drawn number becomes the cell of that rank.

    Args:
        train: The training rows.
        count: The number of samples.
        seed: Random seed.

    Returns:
        The samples.
    """
    random = np.random.default_rng(seed)
    orders = [pc.sort_indices(train[name]).to_numpy() for name in train.column_names]
    z = norm.ppf((np.arange(len(train)) + 0.5) / len(train))
    means = np.empty((len(train), train.num_columns))
    for j, (column, order) in enumerate(zip(train.columns, orders, strict=True)):
        levels = column.combine_chunks().dictionary_encode(null_encoding="encode").indices
        codes = levels.to_numpy()[order]
        means[order, j] = (np.bincount(codes, z) / np.bincount(codes))[codes]
    variance = means.var(0)
    correlation = np.clip(means.T @ means / len(train) / np.outer(variance, variance), -1, 1)
    np.fill_diagonal(correlation, 1)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(values.clip(0))  # the estimate need not be a correlation matrix
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    drawn = random.normal(size=(count, len(root))) @ root.T
    positions = np.minimum(ndtr(drawn) * len(train), len(train) - 1).astype(int)
    return pa.table({
        name: train[name].take(order[position])
        for name, order, position in zip(train.column_names, orders, positions.T, strict=True)
    })


def ctgan(train: pa.Table, count: int, seed: int) -> pa.Table:
    """Return samples of a conditional GAN with the defaults of its package (Xu et al., 2019).

    It takes no missing cells and no dates: gaps are filled by the cells of random rows, dates are
    seconds, and the samples have no gaps.
    """
    from ctgan import CTGAN

    random = np.random.default_rng(seed)
    filled = {}
    for name in train.column_names:
        column = train[name].combine_chunks()
        gaps = column.is_null().to_numpy(zero_copy_only=False)
        drawn = column.drop_null().take(
            random.integers(len(column) - gaps.sum(), size=len(column))
        )
        cells = pc.if_else(gaps, drawn, column)
        filled[name] = (
            cells if is_text(column) else pa.array(encode(pa.chunked_array([cells]), None))
        )
    torch.manual_seed(seed)
    np.random.seed(seed)
    model = CTGAN(enable_gpu=False)
    model.fit(pa.table(filled).to_pandas(), [name for name in filled if is_text(filled[name])])
    samples = model.sample(count)
    columns = {name: pa.array(samples[name]) for name in train.column_names}
    return pa.table({name: decode(columns[name], train[name].type) for name in columns})


def decode(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of numbers as numbers, integers or, from days, dates; text as it is."""
    if pa.types.is_temporal(kind):
        seconds = pc.round(pc.multiply(column, 86_400.0)).cast(pa.int64())
        times = seconds.cast(pa.timestamp("s", getattr(kind, "tz", None)))
        return pc.floor_temporal(times, unit="day").cast(kind) if pa.types.is_date(kind) else times
    if pa.types.is_integer(kind):
        return pc.round(column.cast(pa.float64())).cast(pa.int64())
    return column.cast(kind)


def score_matching(train: pa.Table, count: int, seed: int) -> pa.Table:
    """Return samples of fdsm."""
    return TableModel.fit(train, seed=seed).sample(count, seed=seed)


METHODS: dict[str, Sampler] = {
    "copies": copies,
    "independent columns": independent_columns,
    "Gaussian copula": gaussian_copula,
    "CTGAN": ctgan,
    "fdsm": score_matching,
}
"""The methods, by the name that the results use."""


def numbers_of(table: pa.Table, like: pa.Table) -> Array:
    """Return a table as numbers, shape `(N, D)`: categories as codes, and NaN if missing."""
    columns = []
    for name in like.column_names:
        if is_text(like[name]):
            levels = pa.array(sorted(like[name].drop_null().unique().to_pylist()))
            codes = pc.index_in(table[name], levels).cast(pa.float64()).to_numpy()
            unknown = np.isnan(codes) & table[name].is_valid().to_numpy()
            columns.append(np.where(unknown, len(levels), codes))  # a level of its own
        else:
            columns.append(encode(table[name], None))
    return np.stack(columns, 1)


def classifier_auc(held_out: pa.Table, samples: pa.Table, seed: int) -> float:
    """Return the AUC of gradient boosting that separates samples from held-out rows.

    Args:
        held_out: Rows of the data.
        samples: Samples with the same columns.
        seed: Random seed of the folds.

    Returns:
        The AUC of the predictions for the folds left out; 0.5 if they cannot be separated.
    """
    both = np.concatenate([numbers_of(held_out, held_out), numbers_of(samples, held_out)])
    label = np.repeat([0, 1], [len(held_out), len(samples)])
    categorical = [is_text(column) for column in held_out.columns]
    boosting = HistGradientBoostingClassifier(categorical_features=categorical, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    guess = cross_val_predict(boosting, both, label, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(label, guess))


def strength(x: Array, y: Array, x_is_text: bool, y_is_text: bool) -> float:
    """Return the strength of the relation of two columns, from rows in which both are known.

    Args:
        x: Numbers or codes of categories, shape `(N,)`.
        y: As `x`.
        x_is_text: Whether `x` holds categories.
        y_is_text: Whether `y` does.

    Returns:
        Spearman correlation, Cramér's V, or correlation ratio of ranks; 0 for a constant.
    """
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    if len(x) < 2 or x.min() == x.max() or y.min() == y.max():
        return 0.0
    if x_is_text and y_is_text:
        counts = np.zeros((int(x.max()) + 1, int(y.max()) + 1), dtype=int)
        np.add.at(counts, (x.astype(int), y.astype(int)), 1)
        return float(association(counts[counts.any(1)][:, counts.any(0)], method="cramer"))
    if not x_is_text and not y_is_text:
        return float(spearmanr(x, y).statistic)
    group, ranks = (x, rankdata(y)) if x_is_text else (y, rankdata(x))
    _, codes = np.unique(group, return_inverse=True)
    means = np.bincount(codes, ranks) / np.bincount(codes)
    return float(np.sqrt(means[codes].var() / ranks.var()))


def pair_error(held_out: pa.Table, samples: pa.Table) -> float:
    """Return the mean absolute difference between the strengths of all pairs of columns."""
    x, y = numbers_of(held_out, held_out), numbers_of(samples, held_out)
    text = [is_text(column) for column in held_out.columns]
    differences = [
        strength(x[:, i], x[:, j], text[i], text[j]) - strength(y[:, i], y[:, j], text[i], text[j])
        for i, j in combinations(range(len(text)), 2)
    ]
    return float(np.abs(differences).mean())


def distances(train: pa.Table, held_out: pa.Table, samples: pa.Table) -> Record:
    """Compare the distances of samples and of held-out rows to the closest training row.

    Columns are standardized, and categories with at most 20 levels are indicators.

    Args:
        train: Training rows.
        held_out: Rows of the data.
        samples: Samples.

    Returns:
        `distance`, the ratio of the medians, None if that of held-out rows is 0; and `closer`, the
        probability that a sample is closer than a held-out row, with half of the ties.
    """
    encoding = OneHot().fit(train)
    rows = encoding.transform(train)
    mean, scale = np.nanmean(rows, 0), column_scales(rows)
    standardize = lambda part: np.nan_to_num((encoding.transform(part) - mean) / scale, nan=0.0)
    neighbors = NearestNeighbors(n_neighbors=1).fit(standardize(train))
    near, far = (neighbors.kneighbors(standardize(t))[0][:, 0] for t in (samples, held_out))
    label = np.repeat([0, 1], [len(near), len(far)])
    return {
        "distance": float(np.median(near) / np.median(far)) if np.median(far) > 0 else None,
        "closer": float(roc_auc_score(label, np.concatenate([near, far]))),
    }


def measure(table: pa.Table, method: Sampler, seed: int = 0) -> Record:
    """Draw samples from half of a table and compare them with the other half."""
    train, held_out = split(table)
    with warnings.catch_warnings(action="ignore"):
        samples, seconds = timed(lambda: method(train, len(held_out), seed))
    return {
        "auc": classifier_auc(held_out, samples, seed),
        "pairs": pair_error(held_out, samples),
        **distances(train, held_out, samples),
        "seconds": round(seconds, 2),
    }


def run(name: str, methods: Sequence[str], out: Path) -> None:
    """Run the missing results of a table, and write them."""
    path = out / f"{name}.json"
    results: dict[str, Record] = json.loads(path.read_text("utf8")) if path.exists() else {}
    table = TABLES[name]()
    for method in methods:
        if "error" not in results.get(method, {"error": ""}):
            continue
        try:
            results[method] = measure(table, METHODS[method])
        except ImportError as error:
            print(f"{method} is skipped: {error}.", flush=True)
            continue
        except Exception as error:
            results[method] = {"error": f"{type(error).__name__}: {error}"}
        print(f"{name}, {method}: {results[method]}", flush=True)
        with replace_file(path) as draft:
            draft.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")


def summarize(results: Mapping[str, Mapping[str, Record]]) -> list[Section]:
    """Return one table for each measure, with means over the tables that all methods finished."""
    methods = [m for m in METHODS if any("auc" in table.get(m, {}) for table in results.values())]
    finished = [name for name, t in results.items() if all("auc" in t.get(m, {}) for m in methods)]
    sections = []
    for part in ("auc", "pairs", "distance", "closer", "seconds"):
        rows = []
        for method in methods:
            cells = [results[name].get(method, {}).get(part) for name in results]
            known = [results[name][method][part] for name in finished]
            mean = np.mean(known) if known and None not in known else None
            rows.append([method, *map(three_digits, [mean, *cells])])
        header = ["method", f"mean ({len(finished)})", *results]
        sections.append(
            Section(part.upper() if part == "auc" else part.capitalize(), header, rows)
        )
    return sections


def three_digits(value: float | None) -> str:
    """Return a number, or a dash for a result that does not exist."""
    return "—" if value is None else f"{value:.3f}"


def main(arguments: list[str] | None = None) -> None:
    """Run the methods on the tables and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks synthesis")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        try:
            run(name, options.methods, options.out)
        except DataError as error:
            print(f"{name} is skipped: {error}.")
    paths = {name: options.out / f"{name}.json" for name in TABLES}
    results = {name: json.loads(p.read_text("utf8")) for name, p in paths.items() if p.exists()}
    parts = [INTRODUCTION, *(section.markdown() + "\n" for section in summarize(results))]
    with replace_file(options.out / "README.md") as draft:
        draft.write_text("\n".join(parts), encoding="utf8")
    print("\n".join(parts[1:]))
