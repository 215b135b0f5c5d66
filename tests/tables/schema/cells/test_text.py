"""Tests of cells as clean text."""

import numpy as np
import pyarrow as pa

from fdsm.tables.schema.cells import distinct_text, is_gap, without_gaps


def text(*cells: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, pa.string())])


def test_distinct_texts_have_no_spaces_and_no_missing_markers() -> None:
    distinct = distinct_text(text("b", " b", "NA", None, "a ", "b", "?", "Na"))
    assert distinct.values.to_pylist() == ["b", "a", "Na"]
    assert distinct.indices.tolist() == [0, 0, -1, -1, 1, 0, -1, 2]
    assert distinct.counts().tolist() == [3, 1, 1]
    spread = distinct.spread(np.array([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(spread, [10, 10, np.nan, np.nan, 20, 10, np.nan, 30])


def test_dictionaries_and_several_chunks_are_read() -> None:
    parts = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["y"]).dictionary_encode()]
    distinct = distinct_text(pa.chunked_array(parts))
    assert [distinct.values[i].as_py() for i in distinct.indices.tolist()] == ["x", "y", "y"]
    assert len(distinct_text(pa.chunked_array([], pa.string())).indices) == 0


def test_words_for_a_gap_are_recognized_in_any_case() -> None:
    gaps = [
        "#N/A",
        "#NV",
        "<NA>",
        "na",
        "none",
        "NONE",
        "n.a.",
        "N.A.",
        "n/A",
        "--",
        " Missing ",
        ".",
    ]
    assert is_gap(text(*gaps)).to_pylist() == [True] * len(gaps)
    assert is_gap(text("nona", "0", "a", "-1", "no")).to_pylist() == [False] * 5


def test_gaps_are_removed_from_distinct_texts() -> None:
    distinct = without_gaps(distinct_text(text("none", "b", "a", "Missing", "b", None)))
    assert distinct.values.to_pylist() == ["b", "a"]
    assert distinct.indices.tolist() == [-1, 0, 1, -1, 0, -1]
    assert distinct.counts().tolist() == [2, 1]
