"""Run one method on one table and keep the result in a file."""

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from fdsm.atomic_io import replace_file

from .methods import METHODS, Detector, Sampler
from .samples import choose_rows, classifier_auc, round_like
from .tables import Table, delete_cells

Result = dict[str, Any]
LEVEL = 0.05
"""The level at which the p-values of normal test rows are checked."""


@dataclass(frozen=True)
class Job:
    """One method on one table with one random seed.

    Attributes:
        table: The table, without missing cells.
        method: A name of `METHODS`.
        seed: Random seed of the method and of the deleted cells.
        missing: The fraction of cells to delete.
        samples: Whether to test the samples of the method too.
    """

    table: Table
    method: str
    seed: int
    missing: float = 0.0
    samples: bool = False

    @property
    def key(self) -> str:
        """The name of the result in the file of the table."""
        return result_key(self.method, self.seed)

    def is_done(self, out: Path) -> bool:
        """Whether there is a result of the same table, without an error and with all parts."""
        result = read_results(out, self.table.name).get(self.key)
        return (
            result is not None
            and "error" not in result
            and result["digest"] == self.table.digest
            and not (self.samples and "sample_auc" not in result and self.has_samples())
        )

    def has_samples(self) -> bool:
        """Whether the method can be sampled."""
        return isinstance(METHODS[self.method].build(self.seed), Sampler)

    def run(self, out: Path) -> Result:
        """Run the method, write the result and return it. An error becomes part of the result."""
        method = METHODS[self.method]
        result: Result = {
            "table": self.table.name,
            "method": self.method,
            "seed": self.seed,
            "missing": self.missing,
            "version": method.version(),
            **self.table.facts(),
        }
        table = delete_cells(self.table, self.missing, self.seed) if self.missing else self.table
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                detector = method.build(self.seed)
                result |= evaluate(detector, table)
                if self.samples and isinstance(detector, Sampler):
                    result |= evaluate_samples(detector, table, self.seed)
            except Exception as error:
                result["error"] = f"{type(error).__name__}: {error}"
        if caught:
            result["warnings"] = sorted({str(warning.message) for warning in caught})
        results = read_results(out, self.table.name) | {self.key: result}
        out.mkdir(parents=True, exist_ok=True)
        with replace_file(out / f"{self.table.name}.json") as draft:
            draft.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")
        return result


def evaluate(detector: Detector, table: Table) -> Result:
    """Fit a detector and measure its scores and, if it has them, its p-values.

    Args:
        detector: An unfitted detector.
        table: The table.

    Returns:
        AUC-ROC, AUC-PR, the process seconds of fitting and scoring, and the share of p-values of
        normal test rows below 0.05.
    """
    _, fit_seconds = timed(lambda: detector.fit(table.train))
    scores, score_seconds = timed(lambda: detector.outlier_scores(table.test))
    # A row without a usable cell has no score. It is neither normal nor an outlier.
    scores = np.where(np.isnan(scores), np.nanmedian(scores), scores)
    result = {
        "auc_roc": float(roc_auc_score(table.label, scores)),
        "auc_pr": float(average_precision_score(table.label, scores)),
        "fit_seconds": round(fit_seconds, 4),
        "score_seconds": round(score_seconds, 4),
    }
    if hasattr(detector, "p_values"):
        p_values = np.asarray(detector.p_values(table.held_out))
        result["p_below_level"] = float((p_values[~np.isnan(p_values)] < LEVEL).mean())
    return result


def evaluate_samples(detector: Sampler, table: Table, seed: int) -> Result:
    """Compare as many samples as there are held-out normal rows, at most 1,000, with these."""
    rows = choose_rows(table.held_out, seed)
    drawn, seconds = timed(lambda: detector.sample(len(rows)))
    samples = round_like(table.train, np.asarray(drawn, dtype=np.float64))
    return {
        "sample_auc": classifier_auc(rows, samples, seed),
        "sample_seconds": round(seconds, 4),
    }


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function and return its value and the process time in seconds."""
    start = time.process_time()
    value = function()
    return value, time.process_time() - start


def result_key(method: str, seed: int) -> str:
    """Return the name of a result in the file of its table."""
    return f"{method}-{seed}"


def read_results(out: Path, table: str) -> dict[str, Result]:
    """Return the results of a table by their names. Empty if there are none."""
    path = out / f"{table}.json"
    if not path.exists():
        return {}
    results: dict[str, Result] = json.loads(path.read_text(encoding="utf8"))
    return results
