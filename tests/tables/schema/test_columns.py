"""Tests of the records of columns."""

import json

import pytest

from fdsm.serialize import RecordError, from_json, to_json
from fdsm.tables.schema import (
    Categorical,
    Column,
    Constant,
    DateTime,
    Empty,
    Identifier,
    Ignored,
    Numeric,
    TableSchema,
)

COLUMNS: tuple[Column, ...] = (
    Numeric("n", "int64", True, (0.0, 1.5), 3, 1, 1, "", " kg"),
    Categorical("c", "string", ("b", "a"), False, 7, 2),
    DateTime("d", "string", "%d.%m.%Y", "UTC", 1, 1, "day"),
    Constant("k", "double", "0.1", 4, 9),
    Identifier("i", "int64", "running number"),
    Ignored("f", "string", "free text"),
    Empty("e", "null", 5),
)


def test_a_schema_is_recorded_as_json() -> None:
    schema = TableSchema(COLUMNS)
    record = to_json(schema)
    assert from_json(json.loads(json.dumps(record))) == schema
    assert isinstance(record, dict)
    assert record["class"] == "fdsm.tables.schema.TableSchema"
    assert record["columns"][0] == {
        "class": "fdsm.tables.schema.Numeric", "name": "n", "type": "int64", "integer": True,
        "levels": [0.0, 1.5], "missing": 3, "unreadable": 1, "decimals": 1, "prefix": "",
        "suffix": " kg",
    }  # fmt: skip


def test_a_record_with_another_reason_or_type_raises() -> None:
    for name, value in (("reason", "because"), ("name", 3)):
        record = to_json(TableSchema(COLUMNS[4:5]))
        assert isinstance(record, dict)
        record["columns"][0][name] = value
        with pytest.raises(RecordError, match=name):
            from_json(record)
