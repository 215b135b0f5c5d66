from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from benchmarks.mixed_tables import sources
from benchmarks.mixed_tables.errors import plant
from benchmarks.mixed_tables.sources import TABLES, MixedTable, delete_numbers, package_file
from paper.data import DataError

SIZES = {"cars": (406, 14), "weather": (1461, 175), "wines": (6497, 2144)}
"""Rows and missing cells. The cars lack six horsepowers and eight consumptions."""


@pytest.mark.parametrize("build", TABLES, ids=lambda build: build.__name__)
def test_a_table_has_its_rows_types_and_errors(build: Callable[[], MixedTable]) -> None:
    try:
        table = build()
    except DataError as error:
        pytest.skip(str(error))
    rows, missing = SIZES[table.name]
    cells = [value for row in table.rows for value in row.values()]
    assert len(table.rows) == rows
    assert cells.count(None) == pytest.approx(missing, rel=0.1)
    assert {float, str} <= {type(cell) for cell in cells}
    constant = [name for name in table.rows[0] if len({str(row[name]) for row in table.rows}) == 1]
    assert len(constant) == 1
    assert any(isinstance(cell, date) for cell in cells) == (table.name != "wines")
    _, planted = plant(table.rows[: rows // 2], table.errors, rows // 40, seed=0)
    assert len({error.columns for error in planted.values()}) >= 5


def test_the_named_numbers_are_deleted() -> None:
    rows = delete_numbers([{"a": 1.0, "b": 2.0, "c": 3.0}] * 5000, ["a", "b"], 0.1)
    missing = {name: sum(row[name] is None for row in rows) for name in "abc"}
    assert missing["a"] == pytest.approx(500, abs=80)
    assert missing["b"] == pytest.approx(500, abs=80)
    assert missing["c"] == 0


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install vega_datasets"):
        package_file("vega_datasets", "cars.json")


def test_wine_files_are_searched_in_the_folder_of_the_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FDSM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"winequality-red\.csv was not found"):
        sources.wines()
