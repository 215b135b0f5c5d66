import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import table_scaling
from benchmarks.process_costs import ProcessCosts, in_new_process
from benchmarks.table_scaling import draw, main, measure, panels


def fill_memory(size: int) -> tuple[int, float]:
    """Return the additional peak memory and CPU time of an array of this many bytes."""
    begun = ProcessCosts.now()
    array = np.ones(size // 8)
    for _ in range(20):
        array += 1
    done = ProcessCosts.now()
    return done.peak_bytes - begun.peak_bytes, done.cpu_seconds - begun.cpu_seconds


def test_peak_memory_is_that_of_the_new_process() -> None:
    small, _ = in_new_process(fill_memory, 2**20)
    large, seconds = in_new_process(fill_memory, 2**29)
    assert small < 2**27
    assert large == pytest.approx(2**29, rel=0.5)
    assert seconds > 0.05


def test_an_error_of_the_new_process_is_raised() -> None:
    with pytest.raises(ValueError, match=r"math domain error|expected a nonnegative input"):
        in_new_process(math.sqrt, -1.0)


def test_tables_have_mixed_types_gaps_and_the_same_relations_for_all_seeds() -> None:
    first, second = draw(4000, 10, 1), draw(4000, 10, 2)
    kinds = [field.type for field in first.schema]
    assert kinds.count(pa.string()) == 2
    assert sum(map(pa.types.is_date, kinds)) == 1
    assert kinds.count(pa.float64()) == 7
    assert first["c0"].null_count == pytest.approx(40, abs=20)
    numbers = [f"c{j}" for j in (0, 2, 3, 4)]
    x, y = (
        np.ma.masked_invalid(t.select(numbers).to_pandas().to_numpy()) for t in (first, second)
    )
    a, b = (np.ma.corrcoef(z, rowvar=False) for z in (x, y))
    np.testing.assert_allclose(a, b, atol=0.06)
    assert np.abs(a - np.eye(4)).max() > 0.3
    assert not first.equals(second)


def test_a_size_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scaling, "NEW_ROWS", 50)
    monkeypatch.setattr(table_scaling, "COLUMNS_OF_ROWS", 3)
    monkeypatch.setattr(table_scaling, "in_new_process", lambda function, *args: function(*args))
    sizes: list[tuple[int, int]] = []

    def remember(rows: int, columns: int) -> dict[str, object]:
        sizes.append((rows, columns))
        return measure(100, columns) | {"rows": rows}

    monkeypatch.setattr(table_scaling, "measure", remember)
    arguments = ["--rows", "100", "--columns", "--out", str(tmp_path)]
    main(arguments)
    main(arguments)
    assert sizes == [(100, 3)]
    [record] = json.loads((tmp_path / "sizes.json").read_text())
    assert record["fit_seconds"] > record["score_seconds"] > 0
    assert record["score_bytes"] >= record["fit_bytes"] >= record["bytes_before"] > 0
    assert "cpu-seconds-against-rows.svg" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "cpu-seconds-against-rows.svg").exists()


def test_panels_hold_the_other_size_fixed() -> None:
    costs = {"fit_seconds": 2.0, "score_seconds": 1.0, "fit_bytes": 2**30, "score_bytes": 2**31}
    sizes = [(1000, 30), (10_000, 30), (10_000, 5)]
    drawn = panels([{"rows": r, "columns": c, **costs} for r, c in sizes])
    assert [panel.x_label for panel in drawn] == ["rows", "rows", "columns", "columns"]
    assert drawn[0].lines[0].x == (1000, 10_000)
    assert drawn[2].lines[0].x == (5, 30)
    assert drawn[1].lines[1].y == (2, 2)
