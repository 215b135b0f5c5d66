"""Shares of missing cells are those of the training data."""

from typing import Any

import pytest

from fdsm.tables.report.missing import missing_shares


def config(columns: object, **data: object) -> dict[str, Any]:
    """Return the parts of `config.json` that describe a table."""
    return {"data": data, "recipe": {"data": {"schema": {"columns": columns}}}}


def test_shares_are_of_all_rows_of_the_file() -> None:
    columns = [{"name": "note", "missing": 5}, {"name": "id"}, {"name": "broken", "missing": "x"}]
    rows = {"train": 14, "validation": 1, "test": 1}
    found = missing_shares(config(columns, rows=rows, dropped_rows=4))
    assert found == {"note": 0.25, "id": 0.0}


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"data": {}, "recipe": None},
        config([{"name": "a", "missing": 1}], rows={"train": 0}),
        config([{"name": "a", "missing": 1}], rows=[3]),
        config([{"missing": 1}], rows={"train": 3}),
        config(3, rows={"train": 3}),
    ],
)
def test_a_file_without_them_has_none(damaged: dict[str, Any]) -> None:
    assert missing_shares(damaged) == {}
