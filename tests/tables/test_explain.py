"""Reasons in the user's values, for rows whose wrong value is known."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fdsm.tables import Reason, TableModel
from fdsm.tables.explain import MIN_SHARE, as_number, explain, reasons_text
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


def test_missing_cells_are_no_reasons(mixed: TableModel, tmp_path: Path) -> None:
    row = mixed_row(0, 0.5, 0.0)
    row[6], row[4] = "", "5.5"
    ((first, *others),) = explain(mixed, encode(mixed, [row], tmp_path))
    assert "c" not in {reason.column for reason in (first, *others)}


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


def test_a_new_date_is_no_surprise(mixed: TableModel) -> None:
    """The dates of the training rows repeat, but those of new rows are new."""
    names = [column.name for column in mixed.schema.used]
    counted = mixed.detector.known_values.columns.tolist()
    assert names[0] == "day"
    assert 0 not in counted
    assert 1 in counted  # the first input of kind


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
