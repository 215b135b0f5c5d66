import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.mixed_tables import compare as program
from benchmarks.mixed_tables.compare import Outcome, Planted, main, measure, split, summarize
from benchmarks.mixed_tables.detectors import LargestDeviation, NamedColumn
from benchmarks.mixed_tables.errors import swapped, wrong_unit
from benchmarks.mixed_tables.sources import MixedTable
from benchmarks.outliers.tables import Array
from paper.data import DataError


@pytest.fixture
def table() -> MixedTable:
    """Small numbers in `a`, negative ones in `b`; an error in `a` is a large number."""
    random = np.random.default_rng(0)
    rows = [{"a": 1 + u, "b": -5.0 - u} for u in random.random(400).tolist()]
    return MixedTable("numbers", rows, [wrong_unit("a", lambda x: 1000 * x), swapped("a", "b")])


class Perfect:
    """A detector that knows the errors, and names a column that is right for half of them."""

    def fit(self, X: pa.Table) -> None:
        self.rows = len(X)

    def outlier_scores(self, X: pa.Table) -> Array:
        a = X["a"].to_numpy()
        return ((a > 500) | (a < 0)).astype(float)

    def explain(self, X: pa.Table) -> list[Sequence[NamedColumn]]:
        return [[NamedColumn("a" if a > 500 else "c")] for a in X["a"].to_pylist()]


def test_half_of_the_rows_train_and_the_other_half_has_the_errors(table: MixedTable) -> None:
    train, test, planted = split(table, seed=0)
    assert (len(train), len(test), len(planted)) == (200, 200, 10)
    wrong = [i for i, a in enumerate(test["a"].to_pylist()) if a > 500 or a < 0]
    assert wrong == sorted(planted)
    assert max(train["a"].to_pylist()) < 2


def test_found_and_named_errors_are_counted(table: MixedTable) -> None:
    outcome = measure("perfect", Perfect(), table, seed=0)
    assert outcome.auc == 1
    assert all(error.found for error in outcome.planted)
    assert [error.named for error in outcome.planted] == [
        error.kind == "wrong unit" for error in outcome.planted
    ]
    assert sum(error.named for error in outcome.planted) == 5


def test_the_largest_deviation_finds_and_names_all_of_these_errors(table: MixedTable) -> None:
    outcome = measure("z-score", LargestDeviation(), table, seed=1)
    assert outcome.auc == 1
    assert all(error.found and error.named for error in outcome.planted)


def test_shares_are_over_all_splits() -> None:
    digits = Planted("digit", ("a",), found=True, reason="a")
    swapped_columns = Planted("swap", ("a", "b"), found=True, reason="b")
    wrong = Planted("digit", ("a",), found=True, reason="b")
    lost = Planted("digit", ("a",), found=False, reason="a")
    silent = Planted("digit", ("a",), found=True, reason=None)
    outcomes = [
        Outcome("t", "fdsm", 0, 0.9, 1.0, (digits, swapped_columns)),
        Outcome("t", "fdsm", 1, 0.7, 2.0, (wrong, lost)),
        Outcome("t", "1-NN", 0, 0.6, 0.0, (silent,)),
    ]
    detectors, kinds = summarize(outcomes)
    assert detectors.rows == [
        ["t", "fdsm", "80.0", "75 %", "67 %", "75 %", "1.5"],
        ["t", "1-NN", "60.0", "100 %", "—", "—", "0.0"],
    ]
    assert kinds.rows == [
        ["t", "fdsm", "digit", "3", "67 %", "50 %", "67 %"],
        ["t", "fdsm", "swap", "1", "100 %", "100 %", "100 %"],
    ]


def test_results_are_written_and_missing_tables_are_skipped(
    table: MixedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def absent() -> MixedTable:
        raise DataError("it is not here")

    monkeypatch.setattr(program, "TABLES", (absent, lambda: table))
    main(["--out", str(tmp_path), "--seeds", "2", "--detectors", "z-score", "1-NN"])
    assert "absent is skipped: it is not here." in capsys.readouterr().out
    outcomes = json.loads((tmp_path / "mixed_tables.json").read_text())
    assert [(o["detector"], o["seed"]) for o in outcomes] == [
        ("z-score", 0), ("z-score", 1), ("1-NN", 0), ("1-NN", 1),
    ]  # fmt: skip
    text = (tmp_path / "mixed_tables.md").read_text(encoding="utf8")
    assert "| numbers | z-score | 100.0 | 100 % | 100 % | 100 % |" in text
    assert "Means over 2 splits" in text
