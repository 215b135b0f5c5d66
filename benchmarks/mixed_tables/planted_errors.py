"""Errors planted in the new rows of eight real tables: `python -m benchmarks planted-errors`.

Every table has a file of results. Each is measured in a process of its own. To measure fdsm again
and keep the results of the baselines, use `--detectors fdsm`.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import feather
from rich.console import Console
from sklearn.metrics import roc_auc_score

import fdsm
from fdsm.atomic_io import replace_file
from paper.data import DataError

from ..outliers.summary import Section
from ..outliers.tables import Array
from ..process_costs import ProcessCosts, in_new_process
from ..records.machine import describe_machine
from .detectors import DETECTORS
from .trials import TRIALS, split

RESULTS = Path(__file__).parents[1] / "results" / "planted_errors"
NAMES = ("fdsm", "iForest", "1-NN")
LEVEL = 0.1
"""The false discovery rate of the flags."""
LARGE_TABLE, MANY = 10_000, 400
"""If there are more new rows, the errors among so many rows with the highest scores count too."""

INTRODUCTION = """# Errors planted in real tables

Written by `python -m benchmarks planted-errors`. Errors are planted in new rows: wrong units,
swapped cells, impossible combinations, wrong categories. Top k: planted errors among the k rows
with the highest scores, where k is the number of planted errors. Flags: at a false discovery rate
of 10 %. Reasons: of the planted errors in the top k, how many have a wrong column as first reason,
and as any reason; of two cells that contradict each other, either is right if nobody can tell
which one is wrong. p <= 0.05: share of the rows without an error. Seconds: CPU time of fdsm for
training and scoring. Memory: peak of the process, with libraries and table.
"""

Record = dict[str, Any]


def prepare(name: str, folder: Path) -> Record:
    """Write the training rows, the new rows and the planted errors of a table to a folder.

    Args:
        name: Name of the table.
        folder: The folder.

    Returns:
        The name and the numbers of rows and errors.
    """
    train, new, planted = split(TRIALS[name])
    feather.write_feather(train, folder / "train.feather")
    feather.write_feather(new, folder / "new.feather")
    errors = [
        {"row": row, "kind": e.kind, "columns": e.columns, "rivals": e.rivals}
        for row, e in sorted(planted.items())
    ]
    (folder / "errors.json").write_text(json.dumps(errors), encoding="utf8")
    sizes = {"train_rows": len(train), "new_rows": len(new), "planted": len(errors)}
    return {"table": name, **sizes}


def measure(folder: Path, detector: str) -> Record:
    """Train a detector, score the new rows, and return its results.

    Args:
        folder: A folder that `prepare` has written.
        detector: A name of `NAMES`.

    Returns:
        The results, with one entry for each planted error.
    """
    torch.set_num_threads(1)
    train, new = (feather.read_table(folder / f"{part}.feather") for part in ("train", "new"))
    errors = json.loads((folder / "errors.json").read_text(encoding="utf8"))
    if detector == "fdsm":
        return measure_model(train, new, errors)
    return measure_baseline(detector, train, new, errors)


def measure_baseline(name: str, train: pa.Table, new: pa.Table, errors: list[Record]) -> Record:
    """Return the results of a detector that has scores only."""
    begun = ProcessCosts.now()
    detector = DETECTORS[name](0)
    detector.fit(train)
    scores = detector.outlier_scores(new)
    return {
        **order_of_errors(scores, errors),
        "seconds": round(ProcessCosts.now().cpu_seconds - begun.cpu_seconds, 2),
    }


def measure_model(train: pa.Table, new: pa.Table, errors: list[Record]) -> Record:
    """Return the results of fdsm."""
    begun = ProcessCosts.now()
    model = fdsm.TableModel.fit(train)
    fitted = ProcessCosts.now()
    scored = model.score(new, fdr=LEVEL)
    done = ProcessCosts.now()
    in_order = np.ones(len(scored.score), dtype=bool)
    in_order[[error["row"] for error in errors]] = False
    p_values = scored.p_value[in_order]
    order = order_of_errors(np.nan_to_num(scored.score, nan=-np.inf), errors)
    details = [
        {
            "p_value": float(scored.p_value[error["row"]]),
            "flagged": bool(scored.flagged[error["row"]]),
            "reasons": [reason.column for reason in scored.reasons.get(error["row"], [])],
        }
        for error in errors
    ]
    return {
        **order,
        "planted": [a | b for a, b in zip(order["planted"], details, strict=True)],
        "flagged": int(scored.flagged.sum()),
        "largest_score": float(np.nanmax(scored.score)),
        "p_below_0.05": float((p_values[~np.isnan(p_values)] <= 0.05).mean()),
        "fit_seconds": round(fitted.cpu_seconds - begun.cpu_seconds, 2),
        "score_seconds": round(done.cpu_seconds - fitted.cpu_seconds, 2),
        "peak_bytes_before": begun.peak_bytes,
        "peak_bytes_of_fit": fitted.peak_bytes,
        "peak_bytes": done.peak_bytes,
    }


def order_of_errors(scores: Array, errors: list[Record]) -> Record:
    """Return the AUC of scores, and the rank of each error from 1 on, ties in their mean.

    Example:
        >>> order_of_errors(np.array([0.1, 0.9, 0.5, 0.5]), [{"row": 1}, {"row": 2}])
        {'auc': 0.875, 'planted': [{'row': 1, 'rank': 1.0}, {'row': 2, 'rank': 2.5}]}
    """
    label = np.isin(np.arange(len(scores)), [error["row"] for error in errors])
    higher = len(scores) - np.searchsorted(np.sort(scores), scores, side="right")
    equal = len(scores) - np.searchsorted(np.sort(scores), scores, side="left") - higher
    ranks = higher + (equal + 1) / 2
    return {
        "auc": float(roc_auc_score(label, scores)),
        "planted": [error | {"rank": float(ranks[error["row"]])} for error in errors],
    }


def among(record: Record, count: int) -> list[Record]:
    """Return the planted errors among the rows with the highest scores."""
    return [error for error in record["planted"] if error["rank"] <= count]


def is_right(error: Record, column: str) -> bool:
    """Whether a reason that names this column is right."""
    return column in (*error["columns"], *error["rivals"])


def first_right(error: Record) -> bool:
    """Whether the first reason of an error is right."""
    return any(is_right(error, column) for column in error["reasons"][:1])


def any_right(error: Record) -> bool:
    """Whether any reason of an error is right."""
    return any(is_right(error, column) for column in error["reasons"])


def summarize(tables: Sequence[Record]) -> list[Section]:
    """Return the comparison of detectors, the flags and reasons of fdsm, and kinds of errors."""
    orders, flags, kinds = [], [], []
    for table in tables:
        size = f"{table['train_rows']:,} / {table['new_rows']:,} / {table['planted']}"
        detectors, count = table["detectors"], table["planted"]
        given = [detectors[name] for name in NAMES if name in detectors]
        many = table["new_rows"] > LARGE_TABLE
        orders.append([
            table["table"],
            size,
            " / ".join(f"{record['auc']:.3f}" for record in given),
            " / ".join(str(len(among(record, count))) for record in given),
            " / ".join(str(len(among(record, MANY))) for record in given) if many else "—",
        ])
        if "fdsm" not in detectors:
            continue
        model = detectors["fdsm"]
        top = among(model, count)
        right = sum(error["flagged"] for error in model["planted"])
        wrong = (model["flagged"] - right) / max(model["flagged"], 1)
        flags.append([
            table["table"],
            f"{right} / {model['flagged']}",
            f"{100 * wrong:.0f} %",
            f"{model['largest_score']:,.1f}",
            f"{sum(map(first_right, top))} / {len(top)}",
            f"{sum(map(any_right, top))} / {len(top)}",
            f"{100 * model['p_below_0.05']:.1f} %",
            f"{model['fit_seconds']:,.1f}",
            f"{model['score_seconds']:,.1f}",
            f"{model['peak_bytes'] / 2**30:.2f} GB",
        ])
        kinds += [[table["table"], *row] for row in by_kind(table)]
    names = " / ".join(NAMES)
    header = ["table", "train / new / planted", f"AUC of {names}", "top k", f"top {MANY}"]
    found = ["table", "flags right / all", "wrong flags", "largest score", "first reason right"]
    found += ["any reason right", "p <= 0.05", "fit s", "score s", "memory"]
    ranks = ["table", "error", "planted", f"median rank of {names}", "first reason right"]
    return [
        Section("Order of the rows", header, orders, labels=1),
        Section("Flags, reasons and costs of fdsm", found, flags, labels=1),
        Section("Kinds of errors", ranks, kinds, labels=2),
    ]


def by_kind(table: Record) -> list[list[str]]:
    """Return a row for each kind of error: number, median ranks, and first reasons right."""
    key = lambda error: (error["kind"], tuple(error["columns"]))
    rows = []
    for kind in dict.fromkeys(map(key, table["detectors"]["fdsm"]["planted"])):
        errors = {
            name: [error for error in table["detectors"][name]["planted"] if key(error) == kind]
            for name in NAMES
            if name in table["detectors"]
        }
        medians = [np.median([error["rank"] for error in some]) for some in errors.values()]
        right = sum(map(first_right, errors["fdsm"]))
        rows.append([
            f"{kind[0]}: {', '.join(kind[1])}",
            str(len(errors["fdsm"])),
            " / ".join(f"{median:,.0f}" for median in medians),
            f"{right} / {len(errors['fdsm'])}",
        ])
    return rows


def run(name: str, detectors: Sequence[str], out: Path) -> Record:
    """Measure detectors on a table, and write the results beside those of other detectors."""
    path = out / f"{name}.json"
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table = {**in_new_process(prepare, name, folder), "detectors": {}}
        if path.exists():
            table["detectors"] = json.loads(path.read_text(encoding="utf8"))["detectors"]
        for detector in detectors:
            record = in_new_process(measure, folder, detector)
            table["detectors"][detector] = record | {"machine": describe_machine()}
    with replace_file(path) as draft:
        draft.write_text(json.dumps(table, indent=1) + "\n", encoding="utf8")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure the detectors on the tables, and print and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks planted-errors")
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--detectors", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console(width=160)
    for name in options.only:
        try:
            run(name, options.detectors, options.out)
        except DataError as error:
            console.print(f"{name} is skipped: {error}.", highlight=False)
    paths = [options.out / f"{name}.json" for name in TRIALS]
    tables = [json.loads(path.read_text(encoding="utf8")) for path in paths if path.exists()]
    sections = summarize(tables)
    for section in sections:
        section.show(console)
    with replace_file(options.out / "README.md") as draft:
        parts = [INTRODUCTION, *(section.markdown() + "\n" for section in sections)]
        draft.write_text("\n".join(parts), encoding="utf8")
