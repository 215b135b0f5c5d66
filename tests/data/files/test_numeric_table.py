"""Tests of the errors of tables, and of splitting them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fdsm.data import DataError
from fdsm.data.files.csv import parse_csv
from fdsm.data.files.numeric_table import NumericTable

PATH = Path("a.csv")
SPLIT = {"validation": 0.1, "test": 0.1, "seed": 0}


def test_all_problems_are_in_one_error() -> None:
    lines = [f"{i},n/a,7,{i}" for i in range(20)]
    lines[3], lines[5] = "3,1,7", "x,1,7,nan"
    table = parse_csv("\n".join(["a,note,c,d", *lines]).encode(), PATH, ("a", "note", "z", "d"))
    with pytest.raises(DataError) as caught:
        table.split(PATH, **SPLIT)
    message = str(caught.value)
    assert message.splitlines() == [
        "a.csv cannot be used as it is:",
        "- no column 'z'; the file has columns 'a', 'note', 'c', 'd'",
        "- column 'note': 18 of 20 cells are not numbers, first in row 1: 'n/a'",
        "- 1 of 20 rows has a wrong number of cells, first row 4: 3 instead of 4",
        "- column 'a': 1 of 20 cells is not a number, first in row 6: 'x'",
        "- column 'd': 1 of 20 cells is not a finite float32 number, first in row 6: 'nan'",
        "Correct the file, or select other columns with columns=(...)",
    ]


def test_constant_columns_and_bad_cells_are_in_one_error() -> None:
    lines = [f"{1_700_000_000 + i},7,{i},8" for i in range(20)]
    lines[0] = "1700000000,7,x,8"
    with pytest.raises(DataError) as caught:
        parse_csv("\n".join(["time,b,c,d", *lines]).encode(), PATH).split(PATH, **SPLIT)
    message = str(caught.value)
    assert "column 'c': 1 of 20 cells is not a number" in message
    assert "columns 'b', 'd' are constant in the training rows" in message
    assert "column 'time': values near 1.7e+09 vary by only" in message


def test_an_error_has_at_most_ten_problems() -> None:
    content = ",".join(f"c{i}" for i in range(50)) + "\n" + ",".join("x" * 50) + "\n"
    with pytest.raises(DataError) as caught:
        parse_csv(content.encode(), PATH).require_valid(PATH)
    lines = str(caught.value).splitlines()
    assert len([line for line in lines if line.startswith("- ")]) == 10
    assert lines[10] == "- and 41 more problems"


def test_too_few_rows_raise() -> None:
    with pytest.raises(DataError, match="9 rows, but at least 10 are needed"):
        NumericTable(("a",), np.arange(9.0)[:, None]).split(PATH, **SPLIT)


def test_a_split_has_the_rows_of_the_table() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    train, validation, test = NumericTable(("a", "b", "c"), values.astype(float)).split(
        PATH, **SPLIT
    )
    order = np.random.RandomState(0).permutation(40)
    assert torch.equal(torch.cat([train, validation, test]), torch.from_numpy(values[order]))
    assert [len(train), len(validation), len(test)] == [32, 4, 4]


def test_rows_with_problems_have_nan_and_a_reason() -> None:
    content = b"a,b\n1,2\nx,y\n3\n4,1e39\n5,6\n"
    rows, problems = parse_csv(content, PATH).rows_with_problems(PATH)
    assert rows[[0, 4]].tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert rows[3, 0] == 4
    assert rows.isnan().tolist() == [
        [False, False],
        [True, True],
        [True, True],
        [False, True],
        [False, False],
    ]
    assert problems == {
        1: "column 'a': 'x' is not a number; column 'b': 'y' is not a number",
        2: "has a wrong number of cells (1 instead of 2)",
        3: "column 'b': '1e+39' is not a finite float32 number",
    }


def test_rows_with_problems_raise_for_missing_columns() -> None:
    with pytest.raises(DataError, match="no column 'c'"):
        parse_csv(b"a,b\n1,2\n", PATH, ("a", "c")).rows_with_problems(PATH)
