"""Reasons in the user's values, for rows whose wrong value is known."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paper.data import Table, TableSchema
from fdsm.tables.outliers import Reason
from paper.runs import SavedModel
from fdsm.tables.explain import MIN_SHARE, as_number, explain, reasons_text
from fdsm.tables.scoring import table_schema

from paper.tests.runs.run_cases import MIXED_HEADER, mixed_row, train_table, write_mixed_table


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    """The default model of a table in which c is about a, and kind is the sign of a."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("mixed")
    return train_table(folder / "run", write_mixed_table(folder / "train.csv", 300))


def schema_of(saved: SavedModel) -> TableSchema:
    schema = table_schema(saved)
    assert schema is not None
    return schema


def encode(saved: SavedModel, rows: list[list[str]], folder: Path) -> Tensor:
    path = folder / "new.csv"
    path.write_text("\n".join([MIXED_HEADER, *map(",".join, rows)]) + "\n", encoding="utf-8")
    codes, problems, _ = replace(Table(path), schema=schema_of(saved)).read_codes()
    assert not problems
    return torch.from_numpy(codes)


def test_planted_errors_are_named_first_with_the_expected_value(
    mixed: SavedModel, tmp_path: Path
) -> None:
    """30 rows with a wrong c, 30 with a wrong a: the other two columns say what it should be."""
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(4)).clamp(-2, 2).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for i, row in enumerate(rows):
        column = 6 if i < 30 else 4
        row[column] = f"{float(row[column]) + (3 if i % 2 else -3):.4f}"
    found = explain(mixed, schema_of(mixed), encode(mixed, rows, tmp_path))
    named = 0
    for i, (reasons, (a, _)) in enumerate(zip(found, x, strict=True)):
        column = "c" if i < 30 else "a"
        if reasons[0].column == column:
            named += 1
            value = float(rows[i][6 if i < 30 else 4])
            assert float(reasons[0].value) == pytest.approx(value, rel=1e-5)  # six digits
            assert float(reasons[0].expected) == pytest.approx(a, abs=1.0)
    assert named >= 54


def test_wrong_category_is_named_with_the_expected_one(mixed: SavedModel, tmp_path: Path) -> None:
    rows = [mixed_row(i, 1.2, 0.0) for i in range(3)]
    rows[1][2] = "down"
    found = explain(mixed, schema_of(mixed), encode(mixed, rows, tmp_path))
    assert found[1][0][:3] == ("kind", "down", "up")
    assert all("kind" not in {one.column for one in found[i]} for i in (0, 2))


def test_dates_are_written_as_dates(mixed: SavedModel, tmp_path: Path) -> None:
    row = mixed_row(0, 0.2, 0.0)
    row[1] = "1995-03-01"
    ((reason, *_),) = explain(mixed, schema_of(mixed), encode(mixed, [row], tmp_path))
    assert (reason.column, reason.value) == ("day", "1995-03-01")
    assert reason.expected.startswith("2024-")


def test_missing_cells_are_no_reasons(mixed: SavedModel, tmp_path: Path) -> None:
    row = mixed_row(0, 0.5, 0.0)
    row[6], row[4] = "", "5.5"
    ((first, *others),) = explain(mixed, schema_of(mixed), encode(mixed, [row], tmp_path))
    assert "c" not in {one.column for one in (first, *others)}


def test_shares_are_parts_of_the_gain_and_small_ones_are_left_out(
    mixed: SavedModel, tmp_path: Path
) -> None:
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(7)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    found = explain(mixed, schema_of(mixed), encode(mixed, rows, tmp_path), count=5)
    for reasons in found:
        shares = [one.share for one in reasons]
        assert shares == sorted(shares, reverse=True)
        assert all(share >= MIN_SHARE for share in shares)
        assert all(one.value != one.expected for one in reasons)
        assert sum(shares) <= 1 + 1e-9
    one = explain(mixed, schema_of(mixed), encode(mixed, rows, tmp_path), count=1)
    assert [reasons[:1] for reasons in found] == one


def test_batches_give_the_same_reasons(
    mixed: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(11, 2, generator=torch.Generator().manual_seed(7)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    for row in rows:
        row[6] = "4.0"
    codes = encode(mixed, rows, tmp_path)
    whole = explain(mixed, schema_of(mixed), codes)
    monkeypatch.setattr("fdsm.runs.explain.BATCH", 10)  # two rows of five columns
    parts = explain(mixed, schema_of(mixed), codes)
    for a, b in zip(whole, parts, strict=True):
        assert [one[:3] for one in a] == [one[:3] for one in b]


def test_row_with_several_unusual_columns_names_them_all(
    mixed: SavedModel, tmp_path: Path
) -> None:
    """If a and c are both far away, no single column makes the row normal."""
    row = mixed_row(0, 1.0, 0.0)
    row[4], row[6] = "9.0", "-9.0"
    (reasons,) = explain(mixed, schema_of(mixed), encode(mixed, [row], tmp_path))
    assert {one.column for one in reasons} == {"a", "c"}
    assert {one.column: one.value for one in reasons} == {"a": "9", "c": "-9"}
    assert all(abs(float(one.expected)) < 4 for one in reasons)  # a value of the training data


def test_new_values_are_named_if_the_values_of_the_column_repeat(tmp_path: Path) -> None:
    """Prices have two digits and end in 9, but for three rows in 300."""
    generator = torch.Generator().manual_seed(0)
    price = 10 * torch.randint(1, 9, (300,), generator=generator) + 9
    price[:3] = torch.tensor([12, 34, 56])
    size = torch.randn(300, generator=generator)
    lines = [f"{p},{s:.4f}" for p, s in zip(price.tolist(), size.tolist(), strict=True)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["price,size", *lines]) + "\n", encoding="utf-8")
    saved = train_table(tmp_path / "run", path)
    rows = torch.tensor([[55.0, 0.0], [59.0, 6.0]])
    (new, *_), (far, *_) = explain(saved, schema_of(saved), rows.double())
    assert new[:2] == ("price", "55")
    assert new.is_new
    assert far[:2] == ("size", "6")
    assert not far.is_new


def test_a_new_date_is_no_surprise(mixed: SavedModel) -> None:
    """The dates of the training rows repeat, but those of new rows are new."""
    assert mixed.detector is not None
    assert mixed.detector.known_values is not None
    names = [column.name for column in schema_of(mixed).used]
    counted = mixed.detector.known_values.columns.tolist()
    assert names[0] == "day"
    assert 0 not in counted
    assert 1 in counted  # the first input of kind


def test_reasons_in_words() -> None:
    assert reasons_text([]) == ""
    assert reasons_text([Reason("a", "2", "1.5", 0.8)]) == "a is 2 (expected about 1.5)"
    assert reasons_text([Reason("kind", "up", "down", 0.8)]) == "kind is up (expected down)"
    assert reasons_text([Reason("unit", "is new", "", 1.0), Reason("a", "2", "1", 0.3)]) == (
        "unit: is new; a is 2 (expected about 1)"
    )


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("-3", -3.0), ("2024-01-01", None), ("", None)]
)
def test_numbers_are_told_from_text(text: str, number: float | None) -> None:
    assert as_number(text) == number
