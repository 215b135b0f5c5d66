import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.mixed_tables import planted_errors
from benchmarks.mixed_tables.errors import Error, contradiction, wrong_unit
from benchmarks.mixed_tables.planted_errors import (
    any_right,
    by_kind,
    first_right,
    main,
    measure_baseline,
    measure_model,
    order_of_errors,
    prepare,
    summarize,
)
from benchmarks.mixed_tables.trials import TRIALS, Trial, read_csv, split
from paper.data import DataError

SIZES = {
    "riots": (43, 20, 4),
    "msleep": (63, 20, 3),
    "lung": (168, 60, 5),
    "penguins_raw": (254, 90, 8),
    "cars": (306, 100, 7),
    "planes": (2722, 600, 7),
    "diamonds": (43_940, 10_000, 48),
    "flights": (296_776, 40_000, 64),
}


def numbers() -> pa.Table:
    """Return rows with a number, three times this number, and text with a gap."""
    x = np.random.default_rng(0).integers(1, 50, 300).tolist()
    return pa.table({"a": x, "b": [3.0 * a for a in x], "c": ["u", "v", None] * 100})


ERRORS = (
    wrong_unit("a", lambda a: a / 1000),
    contradiction("product", "b", lambda row: row["b"] + 30, rivals=("a",)),
)


def original_rows(trial: Trial) -> list[dict[str, object]]:
    table = trial.read()
    order = np.random.default_rng(0).permutation(len(table))[: trial.new_rows]
    rows: list[dict[str, object]] = table.take(order).to_pylist()
    return rows


def require_exact_changes(trial: Trial, new: pa.Table, planted: dict[int, Error]) -> None:
    """Planted rows differ from the table in exactly the columns of their error."""
    for i, (before, after) in enumerate(zip(original_rows(trial), new.to_pylist(), strict=True)):
        changed = {name for name in before if before[name] != after[name]}
        assert bool(changed) == (i in planted)
        assert changed == (set(planted[i].columns) if i in planted else set())


@pytest.mark.parametrize("name", TRIALS)
def test_a_trial_has_its_sizes_and_differs_in_the_recorded_columns(name: str) -> None:
    trial = TRIALS[name]
    try:
        train, new, planted = split(trial)
    except DataError as error:
        pytest.skip(str(error))
    assert (len(train), len(new), len(planted)) == SIZES[name]
    counts = [list(planted.values()).count(error) for error in trial.errors]
    assert set(counts) == {len(planted) // len(trial.errors)}
    if name != "flights":  # 760,000 cells
        require_exact_changes(trial, new, planted)


def test_integers_become_decimals_where_an_error_needs_them() -> None:
    trial = Trial(numbers, 100, 10, ERRORS)
    train, new, planted = split(trial)
    require_exact_changes(trial, new, planted)
    assert train["a"].type == pa.int64()
    assert new["a"].type == pa.float64()
    small = sorted(i for i, a in enumerate(new["a"].to_pylist()) if a < 1)
    assert small == sorted(i for i, error in planted.items() if error.kind == "wrong unit")


def test_files_of_packages_have_gaps_and_no_row_numbers() -> None:
    table = read_csv(b'"",a,b\n1,NA,x\n2,3,NA\n')
    assert table.to_pylist() == [{"a": None, "b": "x"}, {"a": 3, "b": None}]


def test_ranks_count_higher_scores_and_half_of_the_ties() -> None:
    scores = np.array([3.0, 1.0, 2.0, 2.0, 2.0])
    order = order_of_errors(scores, [{"row": 0}, {"row": 3}])
    assert [error["rank"] for error in order["planted"]] == [1, 3]
    assert order["auc"] == pytest.approx((3 + 1 + 0.5 + 0.5) / 6)


def test_the_model_finds_names_and_flags_a_wrong_unit() -> None:
    random = np.random.default_rng(0)
    train, new = random.normal(size=(200, 2)), random.normal(size=(60, 2))
    new[7, 1] = 1000.0
    error = {"row": 7, "kind": "wrong unit", "columns": ["b"], "rivals": []}
    frames = [pa.table({"a": x[:, 0], "b": x[:, 1]}) for x in (train, new)]
    record = measure_model(*frames, [error])
    [planted] = record["planted"]
    assert (record["auc"], planted["rank"]) == (1, 1)
    assert planted["reasons"][0] == "b"
    assert first_right(planted)
    assert record["largest_score"] > 3
    assert record["fit_seconds"] > 0
    assert record["peak_bytes"] >= record["peak_bytes_of_fit"] >= record["peak_bytes_before"]
    baseline = measure_baseline("1-NN", *frames, [error])
    assert baseline["planted"][0]["rank"] == 1


def test_of_rivals_either_is_right() -> None:
    error = {"columns": ["b"], "rivals": ["a"], "reasons": ["a", "c"]}
    assert first_right(error)
    assert not first_right(error | {"reasons": ["c", "b"]})
    assert any_right(error | {"reasons": ["c", "b"]})
    assert not any_right(error | {"reasons": []})


def test_the_summary_counts_errors_flags_and_reasons() -> None:
    base = {"kind": "k", "columns": ["b"], "rivals": []}
    planted = [
        base | {"row": 0, "rank": 1.0, "flagged": True, "reasons": ["b"], "p_value": 0.01},
        base | {"row": 1, "rank": 2.0, "flagged": True, "reasons": ["a", "b"], "p_value": 0.01},
        base | {"row": 2, "rank": 300.0, "flagged": False, "reasons": [], "p_value": 0.6},
    ]
    model = {
        "auc": 0.9, "planted": planted, "flagged": 4, "largest_score": 5.5, "p_below_0.05": 0.05,
        "fit_seconds": 10.0, "score_seconds": 1.0, "peak_bytes": 2**30,
    }  # fmt: skip
    forest = {"auc": 0.5, "planted": [base | {"rank": 30.0}] * 3, "seconds": 1.0}
    sizes = {"table": "t", "train_rows": 1000, "new_rows": 20_000, "planted": 3}
    table = sizes | {"detectors": {"fdsm": model, "iForest": forest}}
    orders, flags, kinds = summarize([table])
    assert orders.rows == [["t", "1,000 / 20,000 / 3", "0.900 / 0.500", "2 / 0", "3 / 3"]]
    assert flags.rows == [
        ["t", "2 / 4", "50 %", "5.5", "1 / 2", "2 / 2", "5.0 %", "10.0", "1.0", "1.00 GB"]
    ]
    assert kinds.rows == [["t", "k: b", "3", "2 / 30", "1 / 3"]]
    assert by_kind(table) == [row[1:] for row in kinds.rows]


def test_a_table_whose_package_is_missing_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str, folder: Path) -> None:
        raise DataError(f"{name} is part of a package. Install it")

    monkeypatch.setattr(planted_errors, "prepare", absent)
    monkeypatch.setattr(planted_errors, "in_new_process", lambda function, *args: function(*args))
    main(["--only", "riots", "--out", str(tmp_path)])
    assert "riots is skipped: riots is part of a package. Install it." in capsys.readouterr().out


def test_results_of_other_detectors_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRIALS, "riots", Trial(numbers, 100, 10, ERRORS))
    monkeypatch.setattr(planted_errors, "in_new_process", lambda function, *args: function(*args))
    for name in ("1-NN", "iForest"):
        main(["--only", "riots", "--detectors", name, "--out", str(tmp_path)])
    written = json.loads((tmp_path / "riots.json").read_text())
    assert set(written["detectors"]) == {"1-NN", "iForest"}
    assert [written[key] for key in ("train_rows", "new_rows", "planted")] == [200, 100, 10]
    assert "| riots | 200 / 100 / 10 |" in (tmp_path / "README.md").read_text()


def test_prepared_files_hold_the_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRIALS, "riots", Trial(numbers, 100, 4, ERRORS))
    prepare("riots", tmp_path)
    errors = json.loads((tmp_path / "errors.json").read_text())
    assert sorted(error["kind"] for error in errors) == ["product"] * 2 + ["wrong unit"] * 2
    assert {tuple(error["rivals"]) for error in errors} == {(), ("a",)}
