"""Tests of JSON tables that are read to train on; see also tests/tables/test_same_rows.py."""

import json
from pathlib import Path

import pytest

from fdsm.tables.errors import DataError
from fdsm.tables.frame import iter_table, json_file, read_table, table_file


def test_cells_have_the_types_of_json(tmp_path: Path) -> None:
    rows = [
        {"n": 1, "x": 0.5, "mixed": 1, "flag": True, "list": [1, "a"]},
        {"n": None, "x": 2, "mixed": "b", "flag": None, "new": "05"},
    ]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    table = read_table(tmp_path / "t.json").table
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "double", "string", "bool", "string", "string",
    ]  # fmt: skip
    assert table.to_pydict() == {
        "n": [1, None], "x": [0.5, 2.0], "mixed": ["1", "b"], "flag": [True, None],
        "list": ['[1, "a"]', None], "new": [None, "05"],
    }  # fmt: skip


def test_large_files_are_read_in_blocks_of_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"x": i / 2, "flag": i > 4}) + "\n" for i in range(40)))
    monkeypatch.setattr(table_file, "MAX_JSON_BYTES", 100)
    found = read_table(path)
    assert found.sampled_rows == 40
    assert found.table["x"].to_pylist()[:3] == ["0", "0.5", "1"]
    assert found.table["flag"].to_pylist()[4:6] == ["false", "true"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"x": 1}\n\n{"x": \n[2]\n',
            "2 of 3 rows cannot be read: line 3 is not JSON .* line 4 is",
        ),
        ('[{"x": 1}, 2]', "1 of 2 rows cannot be read: element 2 is 2, but must be an object"),
        ('[{"x": 1}', "cannot be read: it is not JSON .* Give an array of objects, or one object"),
        ("{}\n{}\n", "has no cells: there are no rows"),
        (
            "{}\n" + "x\n" * 3000,
            "1,000 of the first 1,001 rows cannot be read: line 2 is not JSON",
        ),
        ('{"x": "\ud800"}', "1 of 1 rows cannot be read: line 1 is not JSON .*utf-8"),
    ],
)
def test_bad_rows_are_refused_in_training(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(DataError, match=rf"t\.json.*{problem}"):
        read_table(tmp_path / "t.json")


def test_arrays_and_cells_of_different_keys_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    monkeypatch.setattr(json_file, "SPARSE_CELLS", 2000)
    path.write_text("".join(f'{{"k{i}": 1}}\n' for i in range(45)))
    problem = "45 different keys in 45 rows, but only 45 cells"
    for read in (read_table, lambda path: list(iter_table(path, 45))):
        with pytest.raises(DataError, match=problem):
            read(path)
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 30)
    path.write_text(json.dumps([{"x": 1}] * 10))
    with pytest.raises(
        DataError, match=r"is an array of more than 30 bytes\. Write one object per"
    ):
        read_table(path)
