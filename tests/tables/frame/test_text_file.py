"""Tests of the parsing of text tables."""

import io
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.frame.text_file import decode_text, iter_text, parse_text

PATH = Path("a.csv")
VALUES = np.random.default_rng(0).normal(size=(40, 3))


def numbers(values: np.ndarray, delimiter: str = ",", header: str = "") -> str:
    lines = [delimiter.join(f"{float(v):.17g}" for v in row) for row in values]
    return "\n".join(([header] if header else []) + lines) + "\n"


def rows(table: pa.Table) -> list[list[object]]:
    return [list(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "  "])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_numbers_are_read_exactly(
    delimiter: str, header: bool, encoding: str, newline: str
) -> None:
    names = delimiter.join(["a", "b_b", "c#"]) if header else ""
    content = numbers(VALUES, delimiter, names).replace("\n", newline).encode(encoding)
    table = parse_text(content, PATH).table
    assert table.column_names == (["a", "b_b", "c#"] if header else ["0", "1", "2"])
    assert np.array_equal(np.array(rows(table)), VALUES)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_read_exactly(delimiter: str) -> None:
    content = numbers(VALUES, delimiter, delimiter.join("abc")).replace(".", ",").encode()
    table = parse_text(content, PATH).table
    assert np.array_equal(np.array(rows(table)), VALUES)


def test_decimal_commas_in_a_column_with_text_become_points() -> None:
    table = parse_text(b"a;b\n1,5;x, y\nbad;1\n2,5;2\n", PATH).table
    assert table.to_pydict() == {"a": ["1.5", "bad", "2.5"], "b": ["x, y", "1", "2"]}


def test_decimal_commas_of_numbers_with_a_unit_become_points() -> None:
    lines = "".join(f"{i};1.{i}34,5{i} €;{i},5 kg;x, y\n" for i in range(1, 9))
    content = f"n;price;weight;note\n{lines}".encode()
    expected = {
        "price": [f"1{i}34.5{i} €" for i in range(1, 9)],
        "weight": [f"{i}.5 kg" for i in range(1, 9)],
        "note": ["x, y"] * 8,
    }
    whole = parse_text(content, PATH).table
    assert whole.drop_columns("n").to_pydict() == expected
    blocks = [frame.table for frame in iter_text(io.BytesIO(content), PATH, 3)]
    assert pa.concat_tables(blocks).drop_columns("n").to_pydict() == expected


def test_commas_between_thousands_of_prices_are_not_decimal() -> None:
    for cells in (("$1,200", "$3,400"), ("$1,200.50", "$3,400.25"), ("£1,200,000", "£5")):
        content = "a,b\n" + "".join(f'"{cell}",x\n' for cell in cells)
        assert parse_text(content.encode(), PATH).table["a"].to_pylist() == list(cells)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_integers_with_leading_zeros_are_text(delimiter: str) -> None:
    lines = ["zip,n,x,hour", "10001,5,0.5,08", "02139,-7,1.05,12", "60601,0,2.5,10"]
    for quote in ("", '"'):
        cells = [line.replace("02139", f"{quote}02139{quote}") for line in lines]
        content = "\n".join(cells).replace(",", delimiter).encode()
        table = parse_text(content, PATH).table
        assert [str(kind) for kind in table.schema.types] == [
            "string",
            "int64",
            "double",
            "string",
        ]
        assert table["zip"].to_pylist() == ["10001", "02139", "60601"]
        assert table["n"].to_pylist() == [5, -7, 0]
        assert table["hour"].to_pylist() == ["08", "12", "10"]


def test_other_spellings_of_booleans_stay_text() -> None:
    table = parse_text(b"a,b\nTrue,true\nFalse,false\n", PATH).table
    assert table.to_pydict() == {"a": ["True", "False"], "b": [True, False]}


def test_types_are_inferred() -> None:
    content = (
        b"i,f,s,b,d,t\n1,0.5,x,true,2024-02-29,2024-02-29T10:20:30\n2,1,y,false,2024-03-01,\n"
    )
    table = parse_text(content, PATH).table
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "double", "string", "bool", "date32[day]", "timestamp[s]",
    ]  # fmt: skip
    assert table.column("b").to_pylist() == [True, False]


@pytest.mark.parametrize(
    "marker", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "-", ".", " NA"]
)
def test_missing_markers_are_missing_only_as_whole_cells(marker: str) -> None:
    table = parse_text(f"n,s\n1,a\n{marker},{marker}\n2,a{marker}b\n".encode(), PATH).table
    assert table.column("n").to_pylist() == [1, None, 2]
    assert table.column("s").to_pylist() == ["a", None, f"a{marker}b"]


def test_cells_may_be_quoted_and_contain_delimiters_and_line_breaks() -> None:
    content = b'"a, b",x\n"1",2\n"3","4"\n'
    assert parse_text(content, PATH).table.to_pydict() == {"a, b": [1, 3], "x": [2, 4]}
    content = b'"multi\nline",x\n"some\n\ntext, ""here""",2\n'
    assert parse_text(content, PATH).table.to_pydict() == {
        "multi\nline": ['some\n\ntext, "here"'],
        "x": [2],
    }
    spaces = b'name  x\n"a  b"   1\n "c"  2 \n'
    assert parse_text(spaces, PATH).table.to_pydict() == {"name": ["a  b", "c"], "x": [1, 2]}


def test_comments_and_empty_lines_around_the_table_are_left_out() -> None:
    content = b"# title\n\na,b\n1,2\n\n3,4\n# total: 2 rows\n\n\n"
    assert parse_text(content, PATH).table.to_pydict() == {"a": [1, 3], "b": [2, 4]}
    colors = b"color,n\n#ff0000,1\n#00ff00,2\n"
    assert parse_text(colors, PATH).table.column("color").to_pylist() == ["#ff0000", "#00ff00"]


def test_latin_1_is_read_without_loss() -> None:
    text = "stra\u00dfe,x\nK\u00f6ln,1\n\u00c5rhus,2\n"
    for encoding in ("latin-1", "utf-8"):
        table = parse_text(text.encode(encoding), PATH).table
        assert table.to_pydict() == {"stra\u00dfe": ["K\u00f6ln", "\u00c5rhus"], "x": [1, 2]}


def test_windows_1252_is_read_without_loss() -> None:
    text = "price,who\n\u20ac5,O\u2019Hara\n\u20ac7,\u201cx\u201d\n"
    expected = {"price": ["\u20ac5", "\u20ac7"], "who": ["O\u2019Hara", "\u201cx\u201d"]}
    assert parse_text(text.encode("cp1252"), PATH).table.to_pydict() == expected
    assert decode_text(b"a\x81\xe9", PATH) == "a\x81\u00e9".encode()


def test_lines_of_spaces_are_left_out_but_rows_of_empty_cells_are_not() -> None:
    assert parse_text(b"a,b\n1,2\n   \n3,4\n  ", PATH).table.num_rows == 2
    assert parse_text(b"a\tb\n1\t2\n\t\n3\t4\n", PATH).table.num_rows == 3


def test_rows_of_another_length_are_missing_rows_with_a_problem() -> None:
    frame = parse_text(b"a,b\n1,2\n3\n\n5,6,7\n8,9\n", PATH)
    assert frame.table.to_pydict() == {"a": [1, None, None, 8], "b": [2, None, None, 9]}
    assert frame.ragged == {1: "has 1 cells instead of 2", 2: "has 3 cells instead of 2"}


def test_a_quoted_cell_may_have_more_lines_than_a_block() -> None:
    cell = "x\n" * 2**19
    content = f'a,b\n1,"{cell}"\n2,y\n'.encode()
    blocks = list(iter_text(io.BytesIO(content), PATH, 1000))
    assert [row for block in blocks for row in rows(block.table)] == [["1", cell], ["2", "y"]]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_blocks_have_the_original_cells_of_all_rows(size: int, newline: str) -> None:
    """Missing markers, spaces and rows of another length are kept. Commas become points."""
    lines = [
        "a;b;c",
        "1,5;NA;-",
        "2,5",
        '3,5;"x;y";"z";4;5',
        "",
        " 6,5;?;w",
        '"7";""""',
        *["1;2;3"] * 3,
    ]
    content = newline.join(lines).encode() + newline.encode()
    blocks = list(iter_text(io.BytesIO(content), PATH, size))
    assert [row for block in blocks for row in rows(block.original)] == [
        ["1.5", "NA", "-"],
        ["2,5", None, None],
        ["3,5", "x;y", "z;4;5"],
        [" 6.5", "?", "w"],
        ["7", '"', None],
        *[["1", "2", "3"]] * 3,
    ]
    first = [row[0] for block in blocks for row in rows(block.table)]
    assert first == ["1.5", None, None, " 6.5", None, "1", "1", "1"]


UNREADABLE = {
    "blank": (b" \n\n", "a.csv is empty"),
    "comments": (b"# one\n# two\n", "a.csv is empty"),
    "header only": (b"a,b\n", "has a header but no rows"),
    "zeros": (b"a,b\n1,\x002\n", "is not a text file but binary"),
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(range(1, 256)), "is not a text file but binary"),
    "open quote in a short row": (b'a,b\n1,2\n"3,4\n5,6\n', "a quote is not closed"),
    "html": (b"\n<!DOCTYPE html>\n<html>1,2</html>\n", "is not a table but HTML or XML"),
    "json": (b'[\n {"a": 1},\n {"a": 2}\n]\n', "is not a table but JSON"),
    "json lines": (b'{"a": 1, "b": 2}\n{"a": 1, "b": 3}\n', "is not a table but JSON"),
    "json arrays": (b"[[1, 2], [3, 4]]", "is not a table but JSON"),
    "pdf": (b"%PDF-1.4\n1 0 obj\nendobj\n", "is not a table but PDF"),
    "open quote": (b'a,b\n1,"2\n' + b"1,2\n" * 50, "a quote is not closed"),
    "long open quote": (b'a,b\n1,"2\n' + b"1,2\n" * 50_000, "Check its quotes"),
    "duplicates": (
        b"a,b,a,c,b\n1,2,3,4,5\n",
        "more than one column is called 'a', 'b'. Rename the columns",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_files_that_are_not_tables_raise(name: str) -> None:
    content, message = UNREADABLE[name]
    with pytest.raises(DataError, match=message):
        parse_text(content, PATH)


def test_a_closed_quote_of_a_cell_that_is_too_long_to_find_its_end_is_not_called_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = b'a,b\n1,2\n3,"' + b"text\n" * 1000 + b'"\n5,6\n'
    blocks = iter_text(io.BytesIO(content), PATH, 1)
    assert [block.table.num_rows for block in blocks] == [1, 1, 1]
    monkeypatch.setattr("fdsm.tables.frame.text_file.MAX_OPEN_BYTES", 2000)
    with pytest.raises(DataError, match=r"not closed, or its cell has more than 2,000 bytes, at"):
        list(iter_text(io.BytesIO(content), PATH, 1))


def test_a_stray_quote_is_part_of_its_cell() -> None:
    table = parse_text(b'pipe,n\n5" steel,1\n7 inch,2\n', PATH).table
    assert table.column("pipe").to_pylist() == ['5" steel', "7 inch"]


def test_a_header_longer_than_the_sample_is_read() -> None:
    names = [f"column number {i}, which has a long name" for i in range(30_000)]
    header = ",".join(f'"{name}"' for name in names)
    assert len(header) > 2**20
    content = (header + "\n" + ",".join(["1"] * len(names)) + "\n").encode()
    assert parse_text(content, PATH).table.column_names == names


def test_lines_longer_than_a_block_are_read() -> None:
    cells = ",".join(["x" * 100_000] * 60)
    names = ",".join(f"c{i}" for i in range(61))
    table = parse_text(f"{names}\n{cells},1\n{cells},2\n".encode(), PATH).table
    assert table.column("c60").to_pylist() == [1, 2]
    assert table.column("c7")[1].as_py() == "x" * 100_000


@pytest.mark.parametrize("number", ["1.5", "1,5"])
def test_the_time_is_linear_in_the_number_of_columns(number: str) -> None:
    d = 5_000
    names, row = ";".join(f"c{i}" for i in range(d)), ";".join([number] * d)
    content = f"{names}\n{row}\n".encode()
    for read in (parse_text, lambda *args: next(iter_text(io.BytesIO(args[0]), args[1], 10))):
        start = time.process_time()
        table = read(content, PATH).table
        assert time.process_time() - start < 3
        assert table.shape == (1, d)
        assert table["c9"].cast(pa.float64()).to_pylist() == [1.5]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_blocks_keep_lines_that_only_look_like_comments(size: int) -> None:
    content = b"a,b\n1,x\n#,y,\n#5,z\n  \n# end\n\n# of file\n"
    blocks = list(iter_text(io.BytesIO(content), PATH, size))
    found = [row for block in blocks for row in rows(block.table)]
    assert found == [["1", "x"], [None, None], ["#5", "z"]]
    assert found == [[v and str(v) for v in row] for row in rows(parse_text(content, PATH).table)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_blocks_have_the_rows_of_the_file_as_text(size: int, newline: str, encoding: str) -> None:
    content = 'n;s\n1,5;"\u00e9\n\n2"\n2;x\n\n3\n4;"y"\n# end\n'
    content = content.replace("\n", newline).encode(encoding)
    whole = parse_text(content, PATH)
    blocks = list(iter_text(io.BytesIO(content), PATH, size))
    assert [set(map(str, block.table.schema.types)) for block in blocks] == [{"string"}] * len(
        blocks
    )
    found = [row for block in blocks for row in rows(block.table)]
    long = "\u00e9\n\n2" if newline == "\r" else f"\u00e9{newline}{newline}2"
    assert found == [["1.5", long], ["2", "x"], [None, None], ["4", "y"]]
    assert whole.table.column("s").to_pylist() == [row[1] for row in found]
    assert [text for block in blocks for text in block.ragged.values()] == [
        "has 1 cells instead of 2"
    ]


def test_utf_8_is_not_changed() -> None:
    text = "a,\u20ac\n\U0001f600,2\n".encode()
    assert decode_text(text, PATH) == text
    assert decode_text(b"\xef\xbb\xbf" + text, PATH) == text
