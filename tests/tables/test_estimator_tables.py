"""The scikit-learn estimator with tables: types, missing cells, reasons and samples."""

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from fdsm import ScoreMatchingDensity, tables
from fdsm.tables.outliers import Reason

from .estimator_cases import gaussian, machine_records, small


@pytest.fixture(autouse=True)
def _float32(_float64: None) -> None:
    torch.set_default_dtype(torch.float32)


def with_cell(column: str, value: object) -> pa.Table:
    """Return new rows of which row 5 has another value in one column."""
    rows = machine_records(30, seed=1, gaps=0.0)
    cells = rows.column(column).to_pylist()
    cells[5] = value
    index = rows.column_names.index(column)
    return rows.set_column(index, column, pa.array(cells, rows.schema.types[index]))


@pytest.fixture(scope="module")
def of_records() -> ScoreMatchingDensity:
    return ScoreMatchingDensity(iterations=120, random_state=0).fit(machine_records())


def test_types_of_columns_are_inferred(of_records: ScoreMatchingDensity) -> None:
    assert list(of_records.feature_names_in_) == machine_records(5).column_names
    assert of_records.n_features_in_ == 8
    types = {name: kind for name, kind, *_ in of_records.schema_.summary()}
    assert types == {
        "temperature": "Numeric", "load": "Numeric", "count": "Numeric", "kind": "Categorical",
        "open": "Categorical", "day": "DateTime", "unit": "Constant", "id": "Identifier",
    }  # fmt: skip


def test_density_of_categories_is_not_called_normalized(of_records: ScoreMatchingDensity) -> None:
    """Over numbers and categories it would have the integral 2.7, not 1."""
    assert any(of_records.schema_.num_levels)
    assert of_records.model_.log_partition is None


def test_fresh_rows_with_missing_cells_are_normal(of_records: ScoreMatchingDensity) -> None:
    fresh = machine_records(600, seed=2)
    assert (of_records.predict(fresh) == -1).mean() == pytest.approx(0.05, abs=0.04)
    assert (of_records.predict(machine_records()) == -1).mean() < 0.09


@pytest.mark.parametrize(("column", "value"), [("load", 40), ("temperature", -9), ("count", 200)])
def test_reasons_name_the_changed_number(
    column: str, value: int, of_records: ScoreMatchingDensity
) -> None:
    rows = with_cell(column, value)
    assert of_records.outlier_scores(rows).argmax() == 5
    reason = of_records.explain(rows)[5][0]
    assert (reason.column, reason.value) == (column, str(value))
    assert reason.share > 0.7
    before = machine_records(30, seed=1, gaps=0.0).column(column)[5].as_py()
    assert abs(float(reason.expected) - before) < 0.2 * abs(value - before)


def test_a_value_that_contradicts_the_category_is_a_reason(
    of_records: ScoreMatchingDensity,
) -> None:
    """Each value occurs, but not together: at kind c the temperature is 6 on average."""
    rows = machine_records(30, seed=1, gaps=0.0)
    row = rows.column("kind").to_pylist().index("a")
    kinds = ["c" if i == row else kind for i, kind in enumerate(rows.column("kind").to_pylist())]
    changed = rows.set_column(3, "kind", pa.array(kinds))
    before, after = (of_records.outlier_scores(table)[row] for table in (rows, changed))
    assert after > before + 1
    first = of_records.explain(changed)[row][0]
    assert first[:3] == ("kind", "c", "a")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("kind", "z", "'z' does not occur in the training data"),
        ("unit", "lb", "'lb' differs from 'kg', the only value in training"),
    ],
)
def test_new_values_are_outliers_and_the_reason(
    column: str, value: str, text: str, of_records: ScoreMatchingDensity
) -> None:
    rows = with_cell(column, value)
    assert of_records.predict(rows)[5] == -1
    assert of_records.p_values(rows)[5] == pytest.approx(1 / 401)
    assert of_records.explain(rows)[5] == [Reason(column, text, "", 1.0)]


def test_a_new_value_adds_to_the_score(of_records: ScoreMatchingDensity) -> None:
    """The model does not see a constant column, so the other rows keep their score."""
    usual, new = (of_records.outlier_scores(with_cell("unit", unit)) for unit in ("kg", "lb"))
    assert new[5] > np.log10(401) > usual[5]
    usual[5] = new[5]
    np.testing.assert_allclose(new, usual, atol=1e-9)


def test_other_reasons_follow_a_new_value(of_records: ScoreMatchingDensity) -> None:
    rows = with_cell("load", 40.0).set_column(6, "unit", pa.array(["lb"] * 30))
    reasons = of_records.explain(rows)
    assert [reason.column for reason in reasons[5]][:2] == ["unit", "load"]
    normal = of_records.predict(with_cell("load", 40.0)) == 1
    assert normal.sum() > 20
    assert all(len(reasons[i]) == 1 for i in np.flatnonzero(normal))
    assert [reason.column for reason in of_records.explain(rows, count=1)[5]] == ["unit"]


def test_rows_without_a_known_cell_have_no_score(of_records: ScoreMatchingDensity) -> None:
    schema = machine_records(5).schema
    empty = pa.Table.from_pylist([{}], schema)
    rows = pa.concat_tables([machine_records(3, seed=1), empty])
    for method in ("score_samples", "p_values", "outlier_scores", "decision_function"):
        assert np.isnan(getattr(of_records, method)(rows)).tolist() == [False] * 3 + [True]
    assert of_records.predict(rows)[3] == 1
    assert of_records.score(rows) == of_records.score(rows[:3])
    with pytest.raises(ValueError, match="there is no row to score: all cells are missing"):
        of_records.score(empty)
    only_a_new_value = pa.Table.from_pylist([{"unit": "lb"}], schema)
    assert of_records.predict(only_a_new_value) == [-1]
    assert of_records.p_values(only_a_new_value) == pytest.approx(1 / 401)


def require_like_training(samples: pa.Table) -> None:
    """Require shares, ranges and relations of the training data in samples."""
    n, rows = len(samples), samples.to_pydict()
    assert rows["unit"] == ["kg"] * n
    assert rows["id"] == [None] * n
    share = lambda name, value: rows[name].count(value) / n
    assert share("temperature", None) == pytest.approx(0.1, abs=0.05)
    assert share("kind", None) == pytest.approx(0.1, abs=0.05)
    assert share("kind", "a") == pytest.approx(0.45, abs=0.1)
    assert share("open", True) == pytest.approx(0.7, abs=0.1)
    assert np.mean(rows["count"]) == pytest.approx(20, abs=1)
    both = np.array([
        (t, x) for t, x in zip(rows["temperature"], rows["load"], strict=True) if t is not None
    ])
    assert np.corrcoef(both.T)[0, 1] > 0.9


def test_samples_of_an_arrow_table_have_its_types(of_records: ScoreMatchingDensity) -> None:
    samples = of_records.sample(1000, random_state=0)
    assert samples.schema.equals(machine_records(5).schema)
    require_like_training(samples)


def test_pandas_frames_go_in_and_come_out(quick_training: None) -> None:
    pd = pytest.importorskip("pandas")
    frame = machine_records().to_pandas()
    frame["kind"] = frame["kind"].cat.reorder_categories(["c", "b", "a"], ordered=True)
    frame["optional"] = pd.array([None, *range(1, len(frame))], dtype="Int64") % 7
    frame["number"] = range(len(frame))
    model = small(iterations=100).fit(frame)
    assert list(model.feature_names_in_) == list(frame.columns)
    samples = model.sample(500, random_state=0)
    same = frame.columns.drop("number")  # an identifier, whose cells are missing
    pd.testing.assert_series_equal(samples.dtypes[same], frame.dtypes[same])
    assert samples["number"].isna().all()
    require_like_training(pa.Table.from_pandas(samples[machine_records(5).column_names]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"load": "weight"}))
    numbered = pd.DataFrame(gaussian(100, 0))
    samples = small().fit(numbered).sample(3)
    assert list(samples.columns) == [0, 1, 2]


def test_polars_frames_go_in_and_come_out(quick_training: None) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.from_arrow(machine_records())
    frame = frame.with_columns(
        pl.col("kind").cast(pl.Enum(["c", "b", "a"])), pl.col("unit").cast(pl.Categorical)
    )
    model = small(iterations=100).fit(frame)
    assert list(model.feature_names_in_) == frame.columns
    samples = model.sample(500, random_state=0)
    assert samples.schema == frame.schema
    require_like_training(samples.to_arrow())
    arrow = small(iterations=100).fit(machine_records())
    np.testing.assert_allclose(model.outlier_scores(frame), arrow.outlier_scores(frame))


def test_samples_have_no_merged_categories(quick_training: None) -> None:
    """So types of polars and pandas with these 60 categories hold them."""
    pl = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    levels = [f"k{i}" for i in range(60)]
    frame = pl.DataFrame({"k": levels * 10, "x": gaussian(600, 0)[:, 0]})
    frame = frame.with_columns(pl.col("k").cast(pl.Enum(levels)))
    of_polars = small().fit(frame).sample(500, random_state=0)
    assert of_polars.schema == frame.schema
    of_pandas = small().fit(frame.to_pandas()).sample(500, random_state=0)
    assert of_pandas.dtypes.equals(frame.to_pandas().dtypes)
    assert not of_pandas["k"].isna().any()
    assert of_pandas["k"].tolist() == of_polars["k"].to_list()


def test_arrays_of_objects_may_have_categories(quick_training: None) -> None:
    rows = machine_records().select(["load", "kind"])
    x = np.array([list(row.values()) for row in rows.to_pylist()], object)
    model = small().fit(x)
    types = [kind for _, kind, *_ in model.schema_.summary()]
    assert types == ["Numeric", "Categorical"]
    samples = model.sample(200, random_state=0)
    assert samples.dtype == object
    assert set(samples[:, 1]) == {"a", "b", "c", None}
    assert model.explain(np.array([[1.0, "z"]], object))[0][0].column == "1"


def test_columns_of_arrays_of_numbers_are_numeric_unless_named(quick_training: None) -> None:
    rng = np.random.default_rng(0)
    x = np.stack([np.arange(60), rng.integers(0, 3, 60), rng.integers(0, 50, 60)], 1)
    kinds = lambda model: [kind for _, kind, *_ in model.fit(x).schema_.summary()]
    assert kinds(small(iterations=1)) == ["Numeric"] * 3
    model = small(iterations=1, categorical=[1], ignore=["2"])
    assert kinds(model) == ["Numeric", "Categorical", "Ignored"]
    samples = model.sample(20, random_state=0)
    assert set(samples[:, 1]) <= {0, 1, 2}
    assert np.isnan(samples[:, 2]).all()
    assert small(iterations=1).fit(x).sample(3).dtype == x.dtype


def test_columns_are_found_by_name_in_any_order(of_records: ScoreMatchingDensity) -> None:
    rows = machine_records(30, seed=1)
    other = rows.select(rows.column_names[::-1])
    frames = [other]
    if importlib.util.find_spec("pandas"):
        frames.append(other.to_pandas())
    for frame in frames:
        np.testing.assert_array_equal(
            of_records.outlier_scores(frame), of_records.outlier_scores(rows)
        )
    with pytest.raises(ValueError, match="yet now missing:\n- load"):
        of_records.predict(other.drop_columns(["load"]))


def test_a_saved_model_is_opened_as_an_estimator(
    of_records: ScoreMatchingDensity, tmp_path: Path
) -> None:
    of_records.model_.save(tmp_path / "model")
    opened = ScoreMatchingDensity.load(tmp_path / "model")
    rows = machine_records(30, seed=1)
    for method in ("outlier_scores", "p_values", "score_samples", "predict"):
        np.testing.assert_array_equal(
            getattr(opened, method)(rows), getattr(of_records, method)(rows)
        )
    for name in ("offset_", "n_iter_", "n_features_in_"):
        assert getattr(opened, name) == getattr(of_records, name)
    assert list(opened.feature_names_in_) == list(of_records.feature_names_in_)
    samples = [model.sample(20, random_state=0).to_pydict() for model in (opened, of_records)]
    assert samples[0] == samples[1]
    stricter = ScoreMatchingDensity.load(tmp_path / "model", alpha=0.01)
    assert stricter.offset_ > opened.offset_
    x = gaussian(100, 0)
    small().fit(x).model_.save(tmp_path / "array")
    array = ScoreMatchingDensity.load(tmp_path / "array")
    assert array.sample(3, random_state=0).shape == (3, 3)
    assert array.predict(x).shape == (100,)
    assert tables.load(tmp_path / "array").schema == array.schema_
