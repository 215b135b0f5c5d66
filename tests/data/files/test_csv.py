"""Tests of text files of numbers."""

import time
from pathlib import Path

import numpy as np
import pytest

from fdsm.data import DataError
from fdsm.data.files.csv import parse_csv

VALUES = np.random.default_rng(0).normal(size=(40, 3))
PATH = Path("a.csv")


def text(values: np.ndarray, delimiter: str = ",", header: str = "") -> str:
    lines = [delimiter.join(f"{float(v):.17g}" for v in row) for row in values]
    return "\n".join(([header] if header else []) + lines) + "\n"


def read(content: str, columns: tuple[str, ...] | None = None) -> list[list[float]]:
    values: list[list[float]] = (
        parse_csv(content.encode(), PATH, columns).require_valid(PATH).values.tolist()
    )
    return values


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_table_is_read_exactly(
    delimiter: str, header: bool, encoding: str, newline: str
) -> None:
    names = delimiter.join(['"a"', "b b", "c#"]) if header else ""
    content = text(VALUES, delimiter, names).replace("\n", newline).encode(encoding)
    table = parse_csv(content, PATH)
    assert table.columns == (("a", "b b", "c#") if header else ("0", "1", "2"))
    assert np.array_equal(table.values, VALUES)
    chosen = ("c#", "a") if header else ("2", "0")
    assert np.array_equal(parse_csv(content, PATH, chosen).values, VALUES[:, [2, 0]])


def test_one_number_is_a_table_and_empty_lines_are_skipped() -> None:
    assert read("3.5") == [[3.5]]
    assert read("a\n1\n\n2\n") == [[1.0], [2.0]]


def test_cells_may_be_quoted_and_contain_delimiters_and_line_breaks() -> None:
    content = '"a, b",x\n"1",2\n"3","4"\n'
    assert read(content) == [[1, 2], [3, 4]]
    assert read('"multi\nline",x\n"some\n\ntext, here",2\n', ("x",)) == [[2.0]]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_are_read(delimiter: str) -> None:
    content = text(VALUES, delimiter, delimiter.join("abc")).replace(".", ",")
    table = parse_csv(content.encode(), PATH)
    assert table.columns == ("a", "b", "c")
    assert np.array_equal(table.values, VALUES)


def test_decimal_commas_are_recognized_without_a_header() -> None:
    assert read("1,5;2,7\n-0,25;1e3\n") == [[1.5, 2.7], [-0.25, 1000.0]]


def test_decimal_commas_beside_text_and_bad_cells() -> None:
    content = "name;x;y\nA., B., C.;1,5;2\n3.1.2024;2,5;n/a\n"
    assert read(content, ("x",)) == [[1.5], [2.5]]
    assert {cell.column for cell in parse_csv(content.encode(), PATH).bad_cells} == {"name", "y"}
    table = parse_csv(content.encode(), PATH, ("x", "y"))
    assert table.values[0].tolist() == [1.5, 2.0]
    assert [str(cell) for cell in table.bad_cells] == ["column 'y': 'n/a' is not a number"]


PROBLEMS = {
    "word": ("a,b\n1,2\n3,x\n", "column 'b': 1 of 2 cells is not a number, first in row 2: 'x'"),
    "empty cell": ("a,b\n1,2\n,4\n", "column 'a': 1 of 2 cells is empty, first in row 2: ''"),
    "several": (
        "a,b\n1,2\n?,4\n1,1\nNA,2\n",
        r"column 'a': 2 of 4 cells are not numbers, first in row 2: '\?'",
    ),
    "first line": ("1,NA,3\n1,2,3\n", "column '1': 1 of 2 cells is not a number, first in row 1"),
    "thousands": (
        'a,b\n1,"1,234.5"\n1,"1,000,000"\n',
        "column 'b': 2 of 2 cells have thousands separators, first in row 1: '1,234.5'",
    ),
    "German thousands": ("a;b\n1;1.234,5\n1;0,5\n", "has a thousands separator.*'1.234,5'"),
    "ambiguous thousands": ("a;b\n1;1,234\n1;1,234,567\n", "2 of 2 cells have thousands sep"),
    "spaces": ("a\n1 000\n2 000\n", "2 of 2 cells have thousands separators"),
    "apostrophes": ("a\n1'000\n2\n", "1 of 2 cells has a thousands separator"),
    "underscores": ("a,b\n1_000,x\n", "column 'a': 1 of 1 cells has a thousands separator"),
    "mixed decimal marks": ("a;b\n1,5;2.5\n", "column 'a': 1 of 1 cells has a decimal comma, alt"),
    "quoted decimal comma": ('a,b\n"1,5",2\n', "column 'a': 1 of 1 cells has a decimal comma"),
    "percent": ("a\n5%\n7 %\n", "2 of 2 cells have a unit or symbol, first in row 1: '5%'"),
    "unit": ("a,b\n3 kg,$4\n", "column 'a': 1 of 1 cells has a unit or symbol"),
    "short row": ("a,b\n1,2\n1\n", "1 of 2 rows has a wrong number of cells, first row 2: 1 inst"),
    "long row": ("a,b\n1,2\n5,6,7\n", "first row 2: 3 instead of 2"),
    "nan": ("a,b\n1,2\n1,nan\n", "column 'b': 1 of 2 cells is not a finite float32 number"),
    "infinite": ("a,b\n1,2\n-inf,2\n", "column 'a': 1 of 2 cells .*first in row 2: '-inf'"),
    "too large": ("a,b\n1,2\n1,1e39\n", r"column 'b': 1 of 2 cells .*first in row 2: '1e\+39'"),
    "duplicate": ("a,b,a\n1,2,3\n", "column 'a' occurs more than once"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_problem_is_named(name: str) -> None:
    content, message = PROBLEMS[name]
    with pytest.raises(DataError, match=message) as caught:
        read(content)
    assert str(caught.value).startswith("a.csv cannot be used as it is:")
    assert caught.value.setting == "columns"


UNREADABLE = {
    "empty": (b"", r"a\.csv is empty"),
    "blank": (b" \n\n", r"a\.csv is empty"),
    "header only": (b"a,b\n", "has a header but no rows"),
    "binary": (b"\xff\xfe\x00\x01", "is not a UTF-8 text file"),
    "open quote": (b'a,b\n1,"2\n' + b"1,2\n" * 50_000, "is not a readable table: field larger"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_raise(name: str) -> None:
    content, message = UNREADABLE[name]
    with pytest.raises(DataError, match=message):
        parse_csv(content, PATH)


def test_other_columns_than_the_bad_ones_can_be_selected() -> None:
    content = "name,x,y\nana,1,2\nbob,3,4\n"
    assert read(content, ("x", "y")) == [[1, 2], [3, 4]]
    assert read("a,b,a\n1,2,3\n", ("b",)) == [[2]]
    with pytest.raises(DataError, match="no columns 'z', 'w'; the file has columns 'name', 'x'"):
        read(content, ("z", "x", "w"))
    with pytest.raises(DataError, match="no columns are selected"):
        read(content, ())
    with pytest.raises(DataError, match="column 'x' occurs more than once"):
        read(content, ("x", "x"))


@pytest.mark.parametrize("columns", [None, ("a", "b")])
@pytest.mark.parametrize("row", ["5,6,7", "5"])
def test_rows_of_another_length_raise(row: str, columns: tuple[str, ...] | None) -> None:
    with pytest.raises(DataError, match=r"first row 2: [13] instead of 2"):
        read(f"a,b\n1,2\n{row}\n", columns)


def test_the_time_is_linear_in_the_number_of_columns() -> None:
    d = 20_000
    content = (",".join(f"c{i}" for i in range(d)) + "\n" + ",".join(["1.5"] * d) + "\n").encode()
    start = time.perf_counter()
    table = parse_csv(content, PATH)
    assert time.perf_counter() - start < 2
    assert table.values.shape == (1, d)
