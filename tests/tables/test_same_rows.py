"""The same rows have the same scores, digit for digit, however they are given."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables import ScoredTable, TableModel
from fdsm.tables.frame import ArrivingLines, read_table
from fdsm.tables.scoring import score_file
from fdsm.tables.stream import score_stream

from .table_cases import MIXED_HEADER, mixed_row, write_rows

NUMBERS = ("a", "b", "c")


def new_rows(count: int = 12) -> list[list[str]]:
    """Return ordinary rows, a gap, a new category, another constant, text and a far number."""
    x = np.random.default_rng(5).normal(size=(count, 2)).tolist()
    rows = [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]
    rows[1][5] = ""
    rows[2][2] = "sideways"
    rows[3][3] = "lb"
    rows[4][4] = "30.125"
    rows[5][1] = ""
    return rows


def as_objects(rows: list[list[str]]) -> list[dict[str, object]]:
    """Return rows with numbers where they are numbers, without keys of missing cells."""
    names = MIXED_HEADER.split(",")
    return [
        {n: float(c) if n in NUMBERS else c for n, c in zip(names, row, strict=True) if c}
        for row in rows
    ]


def columns_of(rows: list[dict[str, object]]) -> dict[str, list[object]]:
    return {name: [row.get(name) for row in rows] for name in MIXED_HEADER.split(",")}


def lines_of(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(path: Path, text: str) -> Path:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


WAYS: dict[str, Callable[[list[dict[str, object]], Path], object]] = {
    "dictionaries": lambda rows, folder: rows,
    "keys in another order": lambda rows, folder: [dict(reversed(row.items())) for row in rows],
    "dictionary of columns": lambda rows, folder: columns_of(rows),
    "arrow table": lambda rows, folder: pa.table(columns_of(rows)),
    "columns in another order": lambda rows, folder: pa.table(columns_of(rows)).select(
        MIXED_HEADER.split(",")[::-1]
    ),
    "json lines": lambda rows, folder: written(folder / "n.jsonl", lines_of(rows)),
    "compressed": lambda rows, folder: written(folder / "n.ndjson.gz", "\n" + lines_of(rows)),
    "array": lambda rows, folder: written(folder / "n.json", json.dumps(rows, indent=1)),
    "lines in .json": lambda rows, folder: written(folder / "n.json", "\ufeff" + lines_of(rows)),
}


@pytest.fixture(scope="module")
def expected(mixed: TableModel, tmp_path_factory: pytest.TempPathFactory) -> ScoredTable:
    return mixed.score(write_rows(tmp_path_factory.mktemp("rows") / "new.csv", new_rows()))


def require_same(scored: ScoredTable, expected: ScoredTable) -> None:
    for name in ("score", "p_value", "log_density", "flagged"):
        np.testing.assert_array_equal(getattr(scored, name), getattr(expected, name))
    assert (scored.reasons, scored.problems) == (expected.reasons, expected.problems)


@pytest.mark.parametrize("way", WAYS)
def test_scores_do_not_depend_on_how_rows_are_given(
    way: str, mixed: TableModel, expected: ScoredTable, tmp_path: Path
) -> None:
    assert expected.reasons[2][0].column == "kind"
    assert expected.reasons[4][0].column == "a"
    require_same(mixed.score(WAYS[way](as_objects(new_rows()), tmp_path)), expected)


@pytest.mark.parametrize("block", [5, 50_000])
def test_files_of_json_are_written_as_files_of_csv(
    block: int, mixed: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a key have an empty cell, also if the key comes first in a later block."""
    monkeypatch.setattr("fdsm.tables.scoring.BLOCK", block)
    rows = new_rows()
    rows[0][0] = ""  # no row of the first block has an identifier
    score_file(mixed, write_rows(tmp_path / "n.csv", rows), tmp_path / "from_csv.csv")
    path = written(tmp_path / "n.jsonl", lines_of(as_objects(rows)))
    score_file(mixed, path, tmp_path / "from_json.csv")
    tables = [read_table(tmp_path / f"from_{name}.csv").table for name in ("csv", "json")]
    names = tables[0].column_names
    assert sorted(tables[1].column_names) == sorted(names)
    assert tables[1].select(names).to_pydict() == tables[0].to_pydict()
    for suffix in ("csv", "jsonl"):
        score_file(mixed, tmp_path / f"n.{suffix}", tmp_path / f"{suffix}.parquet")
    pairs = [read_table(tmp_path / f"{suffix}.parquet").table for suffix in ("csv", "jsonl")]
    assert pairs[1].select(names).schema == pairs[0].schema
    assert pairs[1].select(names).to_pydict() == pairs[0].to_pydict()


def test_a_model_trained_on_json_is_that_of_csv(mixed_table: Path, tmp_path: Path) -> None:
    rows = read_table(mixed_table).table.to_pylist()
    rows[3] = {name: cell for name, cell in rows[3].items() if cell is not None}
    path = written(tmp_path / "t.jsonl", "".join(json.dumps(r, default=str) + "\n" for r in rows))
    models = [TableModel.fit(source, iterations=5) for source in (mixed_table, path, rows)]
    new = as_objects(new_rows())
    scores = [model.score(new).score for model in models]
    np.testing.assert_array_equal(scores[1], scores[0])
    np.testing.assert_array_equal(scores[2], scores[0])


class Pieces:
    """A pipe through which text arrives in pieces of given sizes."""

    def __init__(self, text: bytes, size: int) -> None:
        self.pieces = [text[i : i + size] for i in range(0, len(text), size)]

    def read1(self, size: int = -1, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def stream(model: TableModel, text: str, size: int, **options: bool) -> list[str]:
    lines = ArrivingLines(Pieces(text.encode(), size))
    blocks = score_stream(model, lines, alpha=0.05, **options)
    return "".join(block.text for block in blocks).splitlines()


@pytest.mark.parametrize("size", [1, 100, 10**6])
def test_arriving_rows_have_the_scores_of_a_file(
    size: int, mixed: TableModel, expected: ScoredTable, tmp_path: Path
) -> None:
    """Both formats, in single bytes, in pieces that cut lines, and at once."""
    path = write_rows(tmp_path / "new.csv", new_rows())
    score_file(mixed, path, tmp_path / "scores.csv", alpha=0.05)
    assert stream(mixed, path.read_text(), size) == (
        (tmp_path / "scores.csv").read_text().splitlines()
    )
    rows = as_objects(new_rows())
    found = [json.loads(line) for line in stream(mixed, lines_of(rows), size)]
    scores = mixed.score(path, alpha=0.05).columns().to_pylist()
    assert found == [row | new for row, new in zip(rows, scores, strict=True)]
    assert any(row["flagged"] for row in found)
    numbered = stream(mixed, path.read_text(), size, only_scores=True)
    assert [line.split(",")[0] for line in numbered] == ["row", *map(str, range(1, 13))]
    numbered = [json.loads(line) for line in stream(mixed, lines_of(rows), size, only_scores=True)]
    assert numbered == [{"row": i} | new for i, new in enumerate(scores, 1)]


def test_bad_lines_are_named_and_do_not_stop_the_others(mixed: TableModel, tmp_path: Path) -> None:
    good = json.dumps(as_objects(new_rows())[0])
    bad = {
        2: ('{"a": 1', "line 2 is not JSON (Expecting ',' delimiter: column 8 (char 7))"),
        4: ("[1, 2]", "line 4 is [1, 2], but must be an object such as"),
        5: ('{"A": 1}', "has the keys 'A', but none of the columns 'id', 'day', 'kind', 'unit'"),
        6: ('{"kind": "\\ud800"}', "line 6 is not JSON (half of a pair of surrogates)"),
        7: ("{}", "all cells are missing"),
        8: ("[" * 100 + "]" * 100, "line 8 is nested more than 64 times"),
    }
    lines = [good, *(bad.get(i, ("", ""))[0] for i in range(2, 9)), good]  # line 3 is empty
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    scored = mixed.score(tmp_path / "n.jsonl")
    rows = [json.loads(line) for line in stream(mixed, "\n".join(lines), 10)]
    assert [row["problem"] for row in rows] == [scored.problems.get(i, "") for i in range(8)]
    for row, (_, problem) in zip(rows[1:-1], bad.values(), strict=True):
        assert row["problem"].startswith(problem)
        assert row["score"] is None
    assert rows[0]["score"] == rows[-1]["score"] is not None


@pytest.mark.parametrize("is_json", [False, True])
def test_rows_are_written_before_later_ones_are_read(mixed: TableModel, is_json: bool) -> None:
    """So memory does not grow with their number: at most the rows of one piece wait."""
    pieces, rows = 12, as_objects(new_rows(40))
    text = "\n".join(map(",".join, new_rows(40))) + "\n"
    given, done, waiting = [0], [0], []

    class Endless:
        def read1(self, size: int = -1, /) -> bytes:
            waiting.append(given[0] - done[0])
            if len(waiting) > pieces:
                return b""
            given[0] += len(rows)
            header = "" if is_json or len(waiting) > 1 else MIXED_HEADER + "\n"
            return (lines_of(rows) if is_json else header + text).encode()

    for block in score_stream(mixed, ArrivingLines(Endless()), alpha=0.05):
        done[0] += len(block.scored.score)
    assert done == given == [pieces * len(rows)]
    # The format of csv is recognized from the first 220 lines.
    assert waiting == ([0] * (pieces + 1) if is_json else [0, 40, 80, 120, 160, 200] + [0] * 7)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "is compressed or UTF-16. Decompress it"),
        ("a,b\n1,2\n".encode("utf-16"), "is compressed or UTF-16. Decompress it"),
        (b'[{"a": 1}]', "is an array. Write one object per line"),
        (b"", "is empty. Add rows"),
        (b"a,b\n1,2\n", "columns 'day', 'kind', 'c' are missing"),
        (b"<html>", "is not a table but HTML"),
        (b"x" * (2**24 + 1), "has a line of more than 16,777,216 bytes"),
    ],
)
def test_other_input_is_refused(content: bytes, problem: str, mixed: TableModel) -> None:
    lines = ArrivingLines(io.BufferedReader(io.BytesIO(content)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^standard input:? ") as raised:
        list(score_stream(mixed, lines, alpha=0.05))
    assert problem in str(raised.value)


def test_rows_without_any_column_of_the_model_are_refused(mixed: TableModel) -> None:
    with pytest.raises(ValueError, match="has the keys 'A', 'B', but none of the columns 'id'"):
        mixed.score([{"A": 1}, {"B": 2}])
    assert mixed.score([{"A": 1}, {"a": 0.5}]).problems == {0: "all cells are missing"}
    with pytest.raises(ValueError, match=r"Put a dictionary that is a row into a list: \[row\]"):
        mixed.score({"a": 0.5, "kind": "up"})
    with pytest.raises(ValueError, match="row 2 is a list, but others are dictionaries"):
        mixed.score([{"a": 0.5}, [0.5]])
