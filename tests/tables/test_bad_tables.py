"""Tables that cannot be used, and tables that look as if they could not."""

from pathlib import Path

import pytest
import torch

from fdsm.tables import DataError, TableModel
from fdsm.tables.schema import Categorical, Constant, Empty, Numeric
from fdsm.tables.scoring import score_file

from .table_cases import normal_model, write_table

VALUES = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)).tolist()
NUMBERS = [f"{a:.3f},{b:.3f}" for a, b in VALUES]
"""Rows of two numeric columns."""


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)) * 20, "is not a text file but binary"),
        (b"", "is empty. Add rows"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,b\n1,2\n", "1 row, but at least 10 are needed"),
        (b"a,b\n1,2\n2,3\n", "2 rows, but at least 10 are needed"),
        (b"a,b\n" + b",\n" * 40, "no column can be used: 2 empty"),
        (b"a,a\n" + b"1,2\n3,4\n" * 20, "more than one column is called 'a'"),
    ],
    ids=["binary", "no bytes", "no rows", "one row", "two rows", "no cells", "duplicate names"],
)
def test_files_that_are_no_tables_are_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        TableModel.fit(path)
    assert path.name in str(error.value)
    assert list(tmp_path.iterdir()) == [path]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises((DataError, FileNotFoundError), match=r"nothing\.csv"):
        TableModel.fit(tmp_path / "nothing.csv")


def test_column_without_cells_is_left_out_and_comes_back_empty(
    tmp_path: Path, quick_training: None
) -> None:
    rows = [row.replace(",", ",,") for row in NUMBERS]
    path = write(tmp_path / "table.csv", "a,gone,b", rows)
    model = TableModel.fit(path, iterations=20)
    assert isinstance(model.schema.columns[1], Empty)
    table = model.sample(5)
    assert table.column_names == ["a", "gone", "b"]
    assert table["gone"].null_count == 5
    assert table["a"].null_count == table["b"].null_count == 0


def test_a_few_words_among_numbers_are_missing_cells(tmp_path: Path, quick_training: None) -> None:
    """One cell of 40 is no number: the column stays numeric."""
    path = write(tmp_path / "table.csv", "a,b", [*NUMBERS[:39], "unknown,1.5"])
    first = TableModel.fit(path, iterations=2).schema.columns[0]
    assert isinstance(first, Numeric)
    assert (first.missing, first.unreadable) == (1, 1)


def test_column_of_numbers_and_words_in_equal_parts_is_categorical(
    tmp_path: Path, quick_training: None
) -> None:
    rows = [f"{'high' if i % 2 else '1.5'},{row.split(',')[1]}" for i, row in enumerate(NUMBERS)]
    path = write(tmp_path / "table.csv", "level,b", rows)
    first = TableModel.fit(path, iterations=2).schema.columns[0]
    assert isinstance(first, Categorical)
    assert set(first.levels) == {"high", "1.5"}


def test_constant_column_is_repeated_in_samples(tmp_path: Path, quick_training: None) -> None:
    path = write(tmp_path / "table.csv", "a,b,unit", [f"{row},7" for row in NUMBERS])
    model = TableModel.fit(path, iterations=20)
    assert isinstance(model.schema.columns[2], Constant)
    table = model.sample(4)
    assert table["unit"].to_pylist() == [7, 7, 7, 7]


def test_ten_rows_are_enough(tmp_path: Path, quick_training: None) -> None:
    """The smallest table: a far row has the smallest p-value, 1/11."""
    path = write(tmp_path / "table.csv", "a,b", NUMBERS[:10])
    model = TableModel.fit(path, iterations=20)
    scores = model.score_codes(torch.tensor([[50.0, -50.0], [0.0, 0.0]]))
    assert scores.p_value[0].item() == pytest.approx(1 / 11)
    assert scores.p_value[1] > scores.p_value[0]
    assert scores.score[0] > scores.score[1]
    assert model.sample_codes(3).isfinite().all()


def test_almost_constant_column_finds_the_other_value(
    tmp_path: Path, quick_training: None
) -> None:
    """39 of 40 rows are equal: the score of a different row is larger, and all are finite."""
    path = write(tmp_path / "table.csv", "a,b", [*["1,2.5"] * 39, "1,3.5"])
    model = TableModel.fit(path, iterations=20)
    scores = model.score_codes(torch.tensor([[2.5], [3.5], [9.0]]))
    assert scores.score.isfinite().all()
    assert scores.score[2] > scores.score[1] > scores.score[0]


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    return normal_model(write_table(tmp_path_factory.mktemp("normal") / "train.csv", 40))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)) * 20, "is not a text file but binary"),
        (b"", "is empty. Add rows"),
        (b"a,b\n", "there are no rows"),
        (b"a,c\n1,2\n", "'b'"),
        (b"a,b,b\n1,2,3\n", "more than one column is called 'b'"),
        (b"a,b\n,\n,\n", "no row can be scored. First problem: all cells are missing"),
        (b"a,b\n1\n2\n", "no row can be scored. First problem: has 1 cells instead of 2"),
    ],
    ids=["binary", "no bytes", "no rows", "other columns", "duplicate", "no cells", "ragged"],
)
def test_files_that_cannot_be_scored_leave_nothing_behind(
    content: bytes, message: str, normal: TableModel, tmp_path: Path
) -> None:
    path = tmp_path / "new.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        score_file(normal, path, tmp_path / "out" / "scores.csv")
    assert list(tmp_path.iterdir()) == [path]


def test_one_row_is_scored(normal: TableModel, tmp_path: Path) -> None:
    path = write(tmp_path / "new.csv", "a,b", ["0.1,0.2"])
    assert score_file(normal, path, tmp_path / "scores.csv").score.shape == (1,)
