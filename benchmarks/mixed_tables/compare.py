"""Run the benchmark: `python -m benchmarks mixed-tables`."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from sklearn.metrics import roc_auc_score

from fdsm.atomic_io import replace_file
from paper.data import DataError

from ..outliers.run import timed
from ..outliers.summary import Section
from ..outliers.tables import Array
from .detectors import DETECTORS, Explainer, MixedDetector
from .errors import Error, plant
from .sources import TABLES, MixedTable

RESULTS = Path(__file__).parents[1] / "results" / "outliers"
FRACTION = 0.05
"""The fraction of held-out rows with a planted error."""

INTRODUCTION = """# Planted errors in tables of mixed types

Written by `python -m benchmarks mixed-tables`. Each table is split in half at random. 5 % of the
rows of the second half get an error. Found: share of these rows among as many rows with the
highest scores. Named: share of the found rows whose first reason is a column with the error. Named
of all: the same of all rows with an error, found or not. Means over {seeds} splits. Seconds:
process time of training.
"""


@dataclass(frozen=True)
class Planted:
    """What became of a planted error.

    Attributes:
        kind: The kind of error.
        columns: The wrong columns.
        found: Whether the row is among the top rows.
        reason: The first reason for the row; None if the detector gives no reasons.
    """

    kind: str
    columns: tuple[str, ...]
    found: bool
    reason: str | None

    @property
    def named(self) -> bool:
        """Whether the first reason names a wrong column."""
        return self.reason in self.columns


@dataclass(frozen=True)
class Outcome:
    """The result of a detector on one split of a table."""

    table: str
    detector: str
    seed: int
    auc: float
    fit_seconds: float
    planted: tuple[Planted, ...]


def split(table: MixedTable, seed: int) -> tuple[pa.Table, pa.Table, dict[int, Error]]:
    """Split a table in half and plant errors in the second half.

    Args:
        table: The table.
        seed: Random seed.

    Returns:
        The frame for training, the frame with errors, and the errors by row.
    """
    order = np.random.default_rng(seed).permutation(len(table.rows))
    rows = [table.rows[index] for index in order]
    half = len(rows) // 2
    held_out = rows[half:]
    changed, planted = plant(held_out, table.errors, round(FRACTION * len(held_out)), seed)
    return pa.Table.from_pylist(rows[:half]), pa.Table.from_pylist(changed), planted


def measure(name: str, detector: MixedDetector, table: MixedTable, seed: int) -> Outcome:
    """Train a detector on a split of a table and look for the planted errors.

    Args:
        name: Name of the detector.
        detector: The detector.
        table: The table.
        seed: Random seed of the split and of the errors.

    Returns:
        The result.
    """
    train, test, errors = split(table, seed)
    _, seconds = timed(lambda: detector.fit(train))
    scores = np.asarray(detector.outlier_scores(test))
    rows = sorted(errors)
    reasons = first_reasons(detector, test.take(rows))
    top = set(highest(scores, len(rows)))
    planted = tuple(
        Planted(errors[row].kind, errors[row].columns, row in top, reason)
        for row, reason in zip(rows, reasons, strict=True)
    )
    auc = roc_auc_score(np.isin(np.arange(len(scores)), rows), scores)
    return Outcome(table.name, name, seed, float(auc), round(seconds, 3), planted)


def highest(scores: Array, count: int) -> list[int]:
    """Return the rows with the highest scores; of equal scores, the first rows."""
    rows: list[int] = np.argsort(-scores, kind="stable")[:count].tolist()
    return rows


def first_reasons(detector: MixedDetector, frame: pa.Table) -> Sequence[str | None]:
    """Return the first reason of each row, or None where a detector gives no reason."""
    if not isinstance(detector, Explainer):
        return [None] * len(frame)
    return [reasons[0].column if reasons else None for reasons in detector.explain(frame)]


def summarize(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return one row per table and detector, and one per table and kind of error for fdsm."""
    tables = dict.fromkeys(outcome.table for outcome in outcomes)
    detectors = dict.fromkeys(outcome.detector for outcome in outcomes)
    rows = []
    kinds = []
    for table in tables:
        for detector in detectors:
            some = [o for o in outcomes if (o.table, o.detector) == (table, detector)]
            planted = [planted for outcome in some for planted in outcome.planted]
            rows.append([
                table,
                detector,
                f"{100 * np.mean([outcome.auc for outcome in some]):.1f}",
                *shares(planted),
                f"{np.mean([outcome.fit_seconds for outcome in some]):.1f}",
            ])
            for kind in dict.fromkeys(error.kind for error in planted):
                of_kind = [error for error in planted if error.kind == kind]
                if any(error.reason for error in of_kind):
                    kinds.append([table, detector, kind, str(len(of_kind)), *shares(of_kind)])
    header = ["table", "detector", "AUC-ROC", "found", "named", "named of all", "seconds"]
    by_kind = ["table", "detector", "error", "planted", "found", "named", "named of all"]
    return [
        Section("Detectors", header, rows, labels=2),
        Section("Kinds of errors", by_kind, kinds, labels=3),
    ]


def shares(planted: Sequence[Planted]) -> tuple[str, str, str]:
    """Return the shares of errors found, named if found, and named of all."""
    detected = [error for error in planted if error.found]
    explained = [error for error in planted if error.reason is not None]
    return (
        share([error.found for error in planted]),
        share([error.named for error in detected if explained]),
        share([error.named for error in planted if explained]),
    )


def share(values: Sequence[bool]) -> str:
    """Return the share of true values in percent, or a dash if there are no values."""
    return f"{100 * np.mean(values):.0f} %" if values else "—"


def main(arguments: list[str] | None = None) -> None:
    """Run all detectors on all tables, and print and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mixed-tables")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, default=3, help="Number of random splits.")
    parser.add_argument("--detectors", nargs="+", choices=DETECTORS, default=list(DETECTORS))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console = Console()
    outcomes = []
    for build_table in TABLES:
        try:
            table = build_table()
        except DataError as error:
            console.print(f"{build_table.__name__} is skipped: {error}.", highlight=False)
            continue
        for name in options.detectors:
            for seed in range(options.seeds):
                try:
                    detector = DETECTORS[name](seed)
                except ImportError as error:
                    console.print(f"{name} is skipped: {error}.", highlight=False)
                    break
                outcomes.append(measure(name, detector, table, seed))
    sections = summarize(outcomes)
    for section in sections:
        section.show(console)
    options.out.mkdir(parents=True, exist_ok=True)
    with replace_file(options.out / "mixed_tables.json") as draft:
        lines = [json.dumps(asdict(outcome)) for outcome in outcomes]
        draft.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf8")
    with replace_file(options.out / "mixed_tables.md") as draft:
        parts = [INTRODUCTION.format(seeds=options.seeds)]
        parts += [section.markdown() + "\n" for section in sections]
        draft.write_text("\n".join(parts), encoding="utf8")
