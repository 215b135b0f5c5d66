"""Reasons in the user's values, for rows whose wrong value is known."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from fdsm.tables import Reason, TableModel
from fdsm.tables.explain import MIN_SHARE, as_number, cells_as_written, explain, reasons_text
from fdsm.tables.schema import TableSchema
from fdsm.tables.scoring import table_frames

from .table_cases import mixed_row, mixed_rows, write_rows


def encode(model: TableModel, rows: list[list[str]], folder: Path) -> Tensor:
    (frame,) = table_frames(write_rows(folder / "new.csv", rows))
    codes, problems = model.schema.encode(frame.table)
    assert not problems
    return torch.from_numpy(codes)


def test_planted_errors_are_named_first_with_the_expected_value(
    mixed: TableModel, tmp_path: Path
) -> None:
    """30 rows with a wrong c, 30 with a wrong a: the other two columns say what it should be."""
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(4)).clamp(-2, 2).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for i, row in enumerate(rows):
        column = 6 if i < 30 else 4
        row[column] = f"{float(row[column]) + (3 if i % 2 else -3):.4f}"
    found = explain(mixed, encode(mixed, rows, tmp_path))
    named = 0
    for i, (reasons, (a, _)) in enumerate(zip(found, x, strict=True)):
        column = "c" if i < 30 else "a"
        if reasons[0].column == column:
            named += 1
            value = float(rows[i][6 if i < 30 else 4])
            assert float(reasons[0].value) == pytest.approx(value, rel=1e-5)  # six digits
            assert float(reasons[0].expected) == pytest.approx(a, abs=1.2)
    assert named >= 54


def test_wrong_category_is_named_with_the_expected_one(mixed: TableModel, tmp_path: Path) -> None:
    rows = [mixed_row(i, 1.2, 0.0) for i in range(3)]
    rows[1][2] = "down"
    found = explain(mixed, encode(mixed, rows, tmp_path))
    assert found[1][0][:3] == ("kind", "down", "up")
    assert all("kind" not in {reason.column for reason in found[i]} for i in (0, 2))


def test_dates_are_written_as_dates(mixed: TableModel, tmp_path: Path) -> None:
    row = mixed_row(0, 0.2, 0.0)
    row[1] = "1995-03-01"
    ((reason, *_),) = explain(mixed, encode(mixed, [row], tmp_path))
    assert (reason.column, reason.value) == ("day", "1995-03-01")
    assert reason.expected.startswith("2024-")


def test_cells_that_are_often_missing_are_no_reasons(mixed: TableModel, tmp_path: Path) -> None:
    row = mixed_row(0, 0.5, 0.0)
    row[5], row[4] = "", "5.5"
    ((first, *others),) = explain(mixed, encode(mixed, [row], tmp_path))
    assert "b" not in {reason.column for reason in (first, *others)}


def test_shares_are_parts_of_the_gain_and_small_ones_are_left_out(
    mixed: TableModel, tmp_path: Path
) -> None:
    rows = mixed_rows(40, seed=7)
    found = explain(mixed, encode(mixed, rows, tmp_path), count=5)
    for reasons in found:
        shares = [reason.share for reason in reasons]
        assert shares == sorted(shares, reverse=True)
        assert all(share >= MIN_SHARE for share in shares)
        assert all(reason.value != reason.expected for reason in reasons)
        assert sum(shares) <= 1 + 1e-9
    first = explain(mixed, encode(mixed, rows, tmp_path), count=1)
    assert [reasons[:1] for reasons in found] == first


def test_batches_give_the_same_reasons(
    mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = mixed_rows(11, seed=7)
    for row in rows:
        row[6] = "4.0"
    codes = encode(mixed, rows, tmp_path)
    whole = explain(mixed, codes)
    monkeypatch.setattr("fdsm.tables.explain.BATCH", 10)  # two rows of five columns
    parts = explain(mixed, codes)
    for a, b in zip(whole, parts, strict=True):
        assert [reason[:3] for reason in a] == [reason[:3] for reason in b]


def test_row_with_several_unusual_columns_names_them_all(
    mixed: TableModel, tmp_path: Path
) -> None:
    """If a and c are both far away, no single column makes the row normal."""
    row = mixed_row(0, 1.0, 0.0)
    row[4], row[6] = "9.0", "-9.0"
    (reasons,) = explain(mixed, encode(mixed, [row], tmp_path))
    assert {reason.column for reason in reasons} == {"a", "c"}
    assert {reason.column: reason.value for reason in reasons} == {"a": "9", "c": "-9"}
    assert all(abs(float(one.expected)) < 4 for one in reasons)  # a value of the training data


def test_new_values_are_named_if_the_values_of_the_column_repeat(
    tmp_path: Path, quick_training: None
) -> None:
    """Prices have two digits and end in 9, but for three rows in 300."""
    generator = torch.Generator().manual_seed(0)
    price = 10 * torch.randint(1, 9, (300,), generator=generator) + 9
    price[:3] = torch.tensor([12, 34, 56])
    size = torch.randn(300, generator=generator)
    lines = [f"{p},{s:.4f}" for p, s in zip(price.tolist(), size.tolist(), strict=True)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["price,size", *lines]) + "\n", encoding="utf-8")
    model = TableModel.fit(path, iterations=60)
    rows = torch.tensor([[55.0, 0.0], [59.0, 6.0]])
    (new, *_), (far, *_) = explain(model, rows.double())
    assert new[:2] == ("price", "55")
    assert new.is_new
    assert far[:2] == ("size", "6")
    assert not far.is_new


def test_a_new_date_is_no_surprise_and_a_new_category_is_another_one(mixed: TableModel) -> None:
    """The dates of the training rows repeat, but those of new rows are new."""
    names = [column.name for column in mixed.schema.used]
    assert names[:2] == ["day", "kind"]
    counted = mixed.detector.known_values.columns.tolist()
    assert not {0, 1, 2, 3} & set(counted)  # kind has three inputs
    assert mixed.problem_surprise("kind") == pytest.approx(np.log10(201 / 0.5))


# Relations between columns

FLIGHTS = {"AMS": 230, "BCN": 690, "CPH": 480, "DUB": 290, "EDI": 330, "FCO": 860}
"""Distances of destinations. The duration is about an eighth of it."""


def flights(n: int, seed: int) -> dict[str, list[object]]:
    random = np.random.default_rng(seed)
    destinations = random.choice(list(FLIGHTS), n)
    distances = np.array([FLIGHTS[name] for name in destinations])
    return {
        "dest": destinations.tolist(),
        "distance": distances.tolist(),
        "minutes": np.round(distances / 8 + random.normal(20, 2, n), 1).tolist(),
        "delay": np.round(random.normal(5, 10, n), 1).tolist(),
        "carrier": random.choice(["X", "Y"], n).tolist(),
    }


@pytest.fixture(scope="module")
def of_flights() -> TableModel:
    torch.set_default_dtype(torch.float32)
    return TableModel.fit(flights(600, seed=0), iterations=20)


@pytest.mark.parametrize("wrong", ["dest", "distance"])
def test_the_cell_that_breaks_a_relation_is_the_one_that_the_others_contradict(
    wrong: str, of_flights: TableModel
) -> None:
    """A flight to BCN. The minutes tell which of two cells is wrong, and so does the distance.

    A wrong destination has another distance, but the distance agrees with the minutes.
    """
    row = {"dest": "BCN", "distance": 690, "minutes": 106.2, "delay": 4.0, "carrier": "X"}
    others = {"dest": "CPH", "distance": 480}
    (found,) = of_flights.explain({k: [v] for k, v in {**row, wrong: others[wrong]}.items()})
    first = found[0]
    assert first.column == wrong
    assert (first.value, first.expected) == (str(others[wrong]), str(row[wrong]))
    assert first.relation
    assert "dest" in first.relation
    assert "distance" in first.relation
    assert reasons_text(found[:1]).endswith(f"because {first.relation})")


def test_rows_that_break_a_relation_are_flagged_and_others_are_not(
    of_flights: TableModel,
) -> None:
    """It holds in all training rows, so its p-value is the smallest one."""
    rows = flights(100, seed=1)
    distances = rows["distance"]
    distances[:3] = [distances[i] + 3 for i in range(3)]
    scored = of_flights.score(rows)
    assert scored.p_value[:3].tolist() == pytest.approx([1 / 601] * 3)
    assert scored.flagged[:3].all()
    assert scored.flagged[3:].sum() <= 2
    assert all(scored.reasons[i][0].column == "distance" for i in range(3))


# Several cells, rare categories, and how sure the expected value is


def test_two_swapped_cells_are_named_together(quick_training: None) -> None:
    random = np.random.default_rng(0)
    table = {"low": random.normal(10, 1, 400), "high": random.normal(30, 1, 400)}
    model = TableModel.fit({**table, "other": random.normal(0, 1, 400)}, iterations=20)
    (reasons,) = model.explain({"low": [30.2], "high": [9.8], "other": [0.3]})
    assert {reason.column for reason in reasons} == {"low", "high"}
    for reason, expected in zip(sorted(reasons), (30, 10), strict=True):
        assert float(reason.expected) == pytest.approx(expected, abs=5)  # of the nearest row


def test_a_rare_category_does_not_hide_a_wrong_number(quick_training: None) -> None:
    """Of 500 rows, 10 have the category z. The number is that of the other column, times two."""
    random = np.random.default_rng(0)
    x = random.normal(0, 1, 500)
    kind = np.where(np.arange(500) % 50 == 0, "z", random.choice(["a", "b"], 500))
    table = {"kind": kind, "x": x, "y": 2 * x + random.normal(0, 0.1, 500)}
    model = TableModel.fit(table, iterations=20)
    (right,), (wrong,) = (
        model.explain({"kind": ["z"], "x": [0.5], "y": [y]})[:1] for y in (1.0, 3.5)
    )
    assert wrong[0].column == "y"
    assert float(wrong[0].expected) == pytest.approx(1.0, abs=0.4)
    assert "y" not in {reason.column for reason in right}


def test_certainty_is_the_range_or_the_share_of_similar_rows(of_flights: TableModel) -> None:
    """Four fifths of N(m, 2²) are within 2.6 of m, and all flights of 690 miles go to BCN."""
    row = {"dest": "BCN", "distance": 690, "minutes": 150.0, "delay": 4.0, "carrier": "X"}
    ((first, *_),) = of_flights.explain({name: [cell] for name, cell in row.items()})
    assert first.column == "minutes"
    low, high = map(float, first.certainty.split(" to "))
    assert low == pytest.approx(690 / 8 + 20 - 2.6, abs=1.5)
    assert high == pytest.approx(690 / 8 + 20 + 2.6, abs=1.5)
    text = f"minutes is 150 (expected about {first.expected}, {first.certainty})"
    assert reasons_text([first]) == text


def test_certainty_of_a_category_is_its_share(mixed: TableModel, tmp_path: Path) -> None:
    rows = [mixed_row(0, 1.2, 0.0)]
    rows[0][2] = "down"
    ((first, *_),) = explain(mixed, encode(mixed, rows, tmp_path))
    assert first.column == "kind"
    share = re.fullmatch(r"(\d+) % of similar rows", first.certainty)
    assert share is not None
    conditionals = mixed.detector.conditionals
    x = mixed.inputs(encode(mixed, rows, tmp_path))
    donors = conditionals.cells[conditionals.donor_rows(x, 1), 1]
    up = mixed.schema.used[1].levels.index("up")  # type: ignore[union-attr]
    assert int(share[1]) == round(100 * float((donors == up).double().mean()))


# Cells as they were written


def test_cells_are_never_rounded(quick_training: None, tmp_path: Path) -> None:
    """Cells have two decimals, or are integers, in training. New cells have what is written."""
    random = np.random.default_rng(0)
    x = random.normal(5, 1, 200)
    count = random.integers(0, 50, 200)
    lines = [f"{a:.2f},{b}" for a, b in zip(x, count, strict=True)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["x,count", *lines]) + "\n", encoding="utf-8")
    model = TableModel.fit(path, iterations=10)
    new = tmp_path / "new.csv"
    new.write_text("x,count\n99.95,4\n99.123456,4\n5,999.950\n5,-80.5\n", encoding="utf-8")
    found = [reasons[0][:2] for reasons in model.explain(new)]
    assert found == [("x", "99.95"), ("x", "99.123456"), ("count", "999.950"), ("count", "-80.5")]
    frame = {"x": [99.95, 99.123456, 5.0, 5.0], "count": [4, 4, 999.95, -80.5]}
    decoded = [reasons[0][:2] for reasons in model.explain(frame)]
    assert decoded == [("x", "99.95"), ("x", "99.123456"), ("count", "999.95"), ("count", "-80.5")]


def test_decoded_cells_are_not_rounded_to_the_levels_of_the_column() -> None:
    """Without the table, cells are decoded from their codes, with up to 15 digits."""
    schema = TableSchema.infer(pa.table({"x": [1.0, 2.0] * 20, "y": [0.25, 0.5, 0.75, 1.0] * 10}))
    codes = torch.tensor([[4.95, 0.333], [1e-7, 123456789.125]], dtype=torch.float64)
    expected = [["4.95", "0.333"], ["0.0000001", "123456789.125"]]
    assert cells_as_written(schema, codes) == expected


def test_reasons_as_text() -> None:
    assert reasons_text([]) == ""
    assert reasons_text([Reason("a", "2", "1.5", 0.8)]) == "a is 2 (expected about 1.5)"
    assert reasons_text([Reason("kind", "up", "down", 0.8)]) == "kind is up (expected down)"
    assert reasons_text([Reason("unit", "is new", "", 1.0), Reason("a", "2", "1", 0.3)]) == (
        "unit: is new; a is 2 (expected about 1)"
    )


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("-3", -3.0), ("2024-01-01", None), ("", None)]
)
def test_text_is_a_number_or_not(text: str, number: float | None) -> None:
    assert as_number(text) == number
