"""Filled gaps against closed forms, and samples on conditions."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import stats

from fdsm import ScoreMatchingDensity
from fdsm.tables import DataError, TableModel

RHO, TRAINED, NEW = 0.8, 4000, 2000


def gaussian(rows: int, seed: int) -> pa.Table:
    """Return a Gaussian pair with correlation 0.8, in units of their own."""
    rng = np.random.default_rng(seed)
    a, b = rng.multivariate_normal([0, 0], [[1, RHO], [RHO, 1]], rows).T
    return pa.table({"a": 5 + 2 * a, "b": 10 * b})


def fit(table: pa.Table, **options: object) -> TableModel:
    torch.set_default_dtype(torch.float32)
    return TableModel.fit(table, iterations=30, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pair() -> TableModel:
    return fit(gaussian(TRAINED, 0))


@pytest.fixture(scope="module")
def day() -> TableModel:
    """Hours of sleep, which depend on the age and the group, and hours awake."""
    return fit(day_table(1500, 0))


def day_table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(1, 90, rows)
    group = np.where(age < 20, "young", np.where(age < 65, "adult", "old"))
    group = np.where(rng.random(rows) < 0.1, rng.choice(["young", "adult", "old"], rows), group)
    sleep = (10 - 0.04 * age + 0.3 * rng.normal(size=rows)).round(1)
    return pa.table({"age": age, "group": group, "sleep": sleep, "awake": (24 - sleep).round(1)})


def with_gaps(table: pa.Table, **rows: list[int] | slice) -> pa.Table:
    """Return a table with missing cells in some rows of columns."""
    for name, chosen in rows.items():
        gaps = np.zeros(len(table), bool)
        gaps[chosen] = True
        cells = pa.array(
            [
                None if is_gap else cell
                for cell, is_gap in zip(table[name].to_pylist(), gaps, strict=True)
            ],
            table[name].type,
        )
        table = table.set_column(table.column_names.index(name), name, cells)
    return table


ALL = slice(None)


def test_draws_have_the_conditional_mean_and_variance_of_a_gaussian(pair: TableModel) -> None:
    """The cell b given a is N(10 ρ (a - 5) / 2, 100 (1 - ρ²)).

    Slope and variance of 2,000 draws have errors of 2 and 3 %, and those of 4,000 training rows
    errors of 1 and 2 %. Three times both is allowed, and 4 % for the width of leaves.
    """
    new = gaussian(NEW, 1)
    draws = pair.impute(with_gaps(new, b=ALL), draws=3)
    a, truth = ((new["a"].to_numpy() - 5) / 2), 100 * (1 - RHO**2)
    columns = [table["b"].to_numpy() for table in draws]
    for b in columns:
        slope, constant = np.polyfit(a, b, 1)
        assert slope == pytest.approx(10 * RHO, rel=0.1)
        assert constant == pytest.approx(0, abs=0.6)
        assert np.var(b - slope * a - constant) == pytest.approx(truth, rel=0.15)
    # Two draws of a cell are independent given the 200 donors, whose mean has an error of its own.
    spread = np.var(columns[0] - columns[1]) / 2
    assert 0.8 * truth < spread < 1.1 * truth


def test_most_likely_values_are_better_than_the_mean_and_near_the_best(pair: TableModel) -> None:
    """The best possible error is that of E[b | a]: the deviation sqrt(1 - ρ²) of b."""
    new = gaussian(NEW, 2)
    filled = pair.impute(with_gaps(new, b=ALL))["b"].to_numpy()
    error = np.sqrt(np.mean((filled - new["b"].to_numpy()) ** 2)) / 10
    best = (1 - RHO**2) ** 0.5
    assert best * 0.95 < error < best * 1.1
    assert error < 0.7  # the mean has 1


def test_certainty_is_the_explained_variance(pair: TableModel) -> None:
    """It is ρ² for a Gaussian pair, less the error of forests that keep 50 donors."""
    a, b = pair.certainty().values()
    assert RHO**2 - 0.1 < a < RHO**2 + 0.03 > b > RHO**2 - 0.1


def test_certainty_of_categories_is_the_share_that_is_right(day: TableModel) -> None:
    """A tenth of the groups are random ones, and a third of these are the right ones.

    Ages are integers and counted as numbers, although they have few different values.
    """
    certainty = day.certainty()
    assert certainty["group"] == pytest.approx(14 / 15, abs=0.04)
    assert 0.5 < certainty["age"] < 1
    new = day_table(1000, 5)
    filled = day.impute(with_gaps(new, group=ALL))
    right = np.mean([x == y for x, y in zip(filled["group"], new["group"], strict=True)])
    assert right == pytest.approx(certainty["group"], abs=0.04)


def test_a_gap_that_a_relation_determines_is_exact(day: TableModel) -> None:
    assert day.relations.describe(day.schema) == ["sleep + awake = 24"]
    new = day_table(50, 3)
    for name in ("sleep", "awake"):
        assert day.impute(with_gaps(new, **{name: ALL})).equals(new)


@pytest.mark.parametrize("draws", [None, 2])
def test_relations_hold_between_filled_gaps(draws: int | None, day: TableModel) -> None:
    new = with_gaps(day_table(300, 4), sleep=ALL, awake=ALL, group=slice(0, 100))
    tables = [day.impute(new)] if draws is None else day.impute(new, draws=draws)
    for table in tables:
        assert table.schema == new.schema
        assert not any(column.null_count for column in table.columns)
        sums = table["sleep"].to_numpy() + table["awake"].to_numpy()
        np.testing.assert_allclose(sums, 24, atol=1e-9)
        expected = 10 - 0.04 * new["age"].to_numpy()
        assert np.corrcoef(table["sleep"].to_numpy(), expected)[0, 1] > 0.9
    if draws:
        assert not tables[0].equals(tables[1])


def test_present_cells_stay_and_gaps_do_not_depend_on_other_rows(day: TableModel) -> None:
    new = with_gaps(day_table(200, 6), sleep=slice(0, 50), awake=slice(0, 80), group=[3, 5, 90])
    filled = day.impute(new)
    for name in new.column_names:
        cells = zip(new[name].to_pylist(), filled[name].to_pylist(), strict=True)
        assert all(after == before for before, after in cells if before is not None)
    order = np.random.default_rng(0).permutation(200)
    assert day.impute(new.take(order)).equals(filled.take(order))
    assert day.impute(new.slice(40, 20)).equals(filled.slice(40, 20))


def test_the_same_seed_gives_the_same_draws(pair: TableModel) -> None:
    new = with_gaps(gaussian(100, 7), b=ALL, a=slice(0, 10))
    first, again, other = (pair.impute(new, draws=2, seed=seed) for seed in (0, 0, 1))
    assert first[0].equals(again[0])
    assert first[1].equals(again[1])
    assert not first[0].equals(first[1])
    assert not first[0].equals(other[0])


def test_rows_without_any_cell_have_the_distribution_of_the_table(pair: TableModel) -> None:
    empty = with_gaps(gaussian(2000, 8), a=ALL, b=ALL)
    (drawn,) = pair.impute(empty, draws=1)
    a, b = (drawn[name].to_numpy() for name in "ab")
    # Five sweeps lead from the same start in all rows nearly to the distribution.
    assert [(a.mean() - 5) / 2, b.mean() / 10] == pytest.approx([0, 0], abs=0.12)
    assert [a.std(), b.std()] == pytest.approx([2, 10], rel=0.12)
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(RHO, abs=0.1)


def test_unknown_categories_and_unreadable_numbers_are_no_gaps(day: TableModel) -> None:
    rows = [
        {"age": "30", "group": "robot", "sleep": "8.5", "awake": None},
        {"age": "thirty", "group": None, "sleep": "8.5", "awake": "15.5"},
        {"age": "30", "group": "adult", "sleep": "none", "awake": None},
    ]
    filled = day.impute(rows).to_pylist()
    assert filled[0] == {"age": "30", "group": "robot", "sleep": "8.5", "awake": "15.5"}
    assert filled[1] == {"age": "thirty", "group": "adult", "sleep": "8.5", "awake": "15.5"}
    assert float(filled[2]["sleep"]) + float(filled[2]["awake"]) == pytest.approx(24)


def test_the_number_of_draws_must_be_positive_and_columns_must_exist(pair: TableModel) -> None:
    with pytest.raises(ValueError, match="draws must be at least 1, but is 0"):
        pair.impute(gaussian(3, 0), draws=0)
    with pytest.raises(DataError, match="column 'b' is missing"):
        pair.impute(gaussian(3, 0).select(["a"]))


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> tuple[TableModel, Path]:
    """A csv file with times in a time zone, prices with two decimals and rare categories."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("sales") / "sales.csv"
    lines = ["time,day,price,change,city,record"]
    for i in range(800):
        hour = int(rng.integers(24 * 300))
        moment = datetime.fromtimestamp(1_356_998_400 + 3600 * hour, UTC)
        price = round(rng.gamma(3, 2), 1)
        city = f"city {i % 65}" if i < 130 else "Rome" if price > 6 else "Paris"
        change = f"{rng.normal() / 20:.1f}"
        time, short = moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%d.%m.%Y")
        lines.append(f"{time},{short},${price:.2f},{change},{city},r{i}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return fit(path), path  # type: ignore[arg-type]


def test_samples_and_filled_cells_have_no_merged_category(
    sales: tuple[TableModel, Path],
) -> None:
    """Every category occurs in the training table: also where all similar rows have rare ones."""
    model, path = sales
    cities = {line.split(",")[4] for line in path.read_text().splitlines()[1:]}
    column = model.schema.used[4]
    assert getattr(column, "merged", 0) > 0
    assert "other" in getattr(column, "levels", ())
    assert set(model.sample(1000)["city"].to_pylist()) <= cities
    gaps = [{"price": f"${0.3 * i:.2f}"} for i in range(60)]
    for table in (model.impute(gaps), *model.impute(gaps, draws=2)):
        assert set(table["city"].to_pylist()) <= cities


def test_given_samples_have_exact_categories_and_intervals(
    sales: tuple[TableModel, Path],
) -> None:
    model, _ = sales
    given = ["city=Rome", "price>$7.00", "price<=9", "time>=2013-03-01", "time<2013-05-01"]
    table = model.sample(300, given=given)
    assert set(table["city"].to_pylist()) == {"Rome"}
    prices = [float(text.removeprefix("$")) for text in table["price"].to_pylist()]
    assert 7 < min(prices) <= max(prices) <= 9
    months = {moment.month for moment in table["time"].to_pylist()}
    assert months == {3, 4}


def test_given_interval_has_the_mean_of_a_truncated_gaussian(pair: TableModel) -> None:
    """For a > 6 it is E[b | a > 6] = 10 ρ E[z | z > 0.5]."""
    table = pair.sample(2000, given={"a": (6, None)})
    a, b = (table[name].to_numpy() for name in "ab")
    assert a.min() >= 6
    mean = stats.truncnorm.mean(0.5, np.inf)
    # The mean of 1,200 training rows has an error of 0.2, and that of 2,000 samples 0.15.
    assert b.mean() == pytest.approx(10 * RHO * mean, abs=0.8)
    assert a.mean() == pytest.approx(5 + 2 * mean, abs=0.2)
    assert pair.sample(20, given=["a>6"]).equals(pair.sample(20, given=["a>6"]))


@pytest.mark.parametrize(("text", "least"), [("age>30", 31), ("age>=30", 30)])
def test_strict_limits_leave_out_the_limit(text: str, least: int, day: TableModel) -> None:
    ages = day.sample(1500, given=[text, "age<=33"])["age"].to_numpy()
    assert set(ages) == set(range(least, 34))


def test_relations_hold_in_samples_on_conditions(day: TableModel) -> None:
    table = day.sample(200, given=["sleep>8.5", "group=adult"])
    sleep = table["sleep"].to_numpy()
    assert sleep.min() >= 8.6
    np.testing.assert_allclose(sleep + table["awake"].to_numpy(), 24, atol=1e-9)


def test_estimator_imputes_in_the_type_of_the_input() -> None:
    torch.set_default_dtype(torch.float32)
    truth = day_table(400, 0)
    new = with_gaps(truth.slice(0, 30), awake=slice(0, 10), group=[11, 12])
    frame = truth.to_pandas().astype({"group": "category"})
    model = ScoreMatchingDensity(iterations=10, random_state=0).fit(frame)
    gaps = new.to_pandas().astype({"group": frame["group"].dtype})
    gaps.index = gaps.index + 100
    filled = model.impute(gaps)
    pd.testing.assert_series_equal(filled.dtypes, gaps.dtypes)
    assert filled.index.equals(gaps.index)
    assert not filled.isna().any().any()
    np.testing.assert_allclose(filled["sleep"] + filled["awake"], 24)
    assert gaps["awake"].isna().sum() == 10
    of_polars = model.impute(pl.DataFrame(new))
    assert of_polars.schema == pl.DataFrame(new).schema
    assert of_polars["awake"].to_list() == filled["awake"].to_list()
    assert model.impute(new)["group"].to_pylist() == filled["group"].tolist()
    samples = model.sample(50, random_state=0, given={"group": "old", "sleep": (None, 7)})
    assert set(samples["group"]) == {"old"}
    assert samples["sleep"].max() <= 7


def test_estimator_imputes_arrays() -> None:
    torch.set_default_dtype(torch.float32)
    x = np.stack([column.to_numpy() for column in gaussian(500, 0).columns], 1)
    gaps = x[:40].copy()
    gaps[:20, 1] = np.nan
    model = ScoreMatchingDensity(iterations=10, random_state=0).fit(x)
    filled = model.impute(gaps)
    assert filled.dtype == x.dtype
    assert (filled[~np.isnan(gaps)] == gaps[~np.isnan(gaps)]).all()
    assert np.corrcoef(filled[:20].T)[0, 1] > 0.9
    assert np.isnan(gaps).sum() == 20
