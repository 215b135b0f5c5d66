"""Tests of samples as tables."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from fdsm.tables.schema import Categorical, Constant, DateTime, Identifier, Numeric, TableSchema
from fdsm.tables.schema.decoding import arrow_type


def test_samples_are_rounded_to_levels_and_integers() -> None:
    schema = TableSchema((
        Numeric("levels", "double", levels=(0.0, 0.5, 2.0)),
        Numeric("integer", "int8", True),
        Numeric("text", "string", True),
        Categorical("c", "int64", ("7", "8", "other"), merged=2),
        Categorical("s", "string", ("u", "v", "other"), merged=2),
        Constant("k", "int32", "5"),
        Constant("d", "date32[day]", "1970-01-02"),
        Identifier("id", "string", "unique per row"),
    ))
    codes = np.array([[0.2, 300.0, 1.6, 1.0, 2.0], [9.0, -1.4, np.nan, 2.0, -1.0]])
    assert schema.decode(codes).to_pylist() == [
        {"levels": 0.0, "integer": 127, "text": "2", "c": 8, "s": "other", "k": 5,
         "d": date(1970, 1, 2), "id": None},
        {"levels": 2.0, "integer": -1, "text": None, "c": None, "s": "u", "k": 5,
         "d": date(1970, 1, 2), "id": None},
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"shape \(N, 5\), but have shape \(2, 4\)"):
        schema.decode(codes[:, :4])


def test_dates_are_written_in_their_own_type_and_format() -> None:
    schema = TableSchema((
        DateTime("day", "date32[day]"),
        DateTime("zone", "timestamp[us, tz=Europe/Berlin]", None, "Europe/Berlin"),
        DateTime("text", "string", "%d.%m.%Y"),
        DateTime("iso", "string", "ISO 8601"),
    ))
    table = schema.decode(np.array([[86400.0 * 1.7, 0.25, 86400.0, 0.5]]))
    assert table.column("day").to_pylist() == [date(1970, 1, 2)]
    assert str(table.column("zone").type) == "timestamp[us, tz=Europe/Berlin]"
    assert table.column("zone").cast(pa.int64()).to_pylist() == [250_000]
    assert table.column("text").to_pylist() == ["02.01.1970"]
    assert table.column("iso").to_pylist() == ["1970-01-01T00:00:00.500000"]
    assert schema.encode(table)[0].tolist() == [[86400.0, 0.25, 86400.0, 0.5]]


def test_extreme_samples_stay_in_the_range_of_their_type() -> None:
    kinds = [pa.int64(), pa.uint8(), pa.time32("s"), pa.decimal128(9, 2)]
    dates = [pa.date32(), pa.timestamp("ns"), pa.timestamp("s")]
    columns = (
        *(Numeric(str(kind), str(kind), True) for kind in kinds),
        *(DateTime(str(kind), str(kind)) for kind in dates),
        DateTime("text", "string", "%d.%m.%Y"),
    )
    codes = np.full((2, len(columns)), 1e30) * np.array([[1], [-1]])
    table = TableSchema(columns).decode(codes)
    nanoseconds = table["timestamp[ns]"].cast("int64").to_pylist()  # Python has microseconds
    assert nanoseconds == [2**62, -(2**62)]
    high, low = table.drop_columns("timestamp[ns]").to_pylist()
    assert (high["int64"], low["int64"]) == (2**63 - 1024, -(2**63))
    assert (high["uint8"], low["uint8"]) == (255, 0)
    assert (high["time32[s]"], low["time32[s]"]) == (time(23, 59, 59), time(0))
    assert high["decimal128(9, 2)"] == -low["decimal128(9, 2)"] == Decimal("9999999.99")
    assert (high["date32[day]"], low["date32[day]"]) == (date(9999, 12, 31), date(1, 1, 1))
    assert (high["timestamp[s]"].year, low["timestamp[s]"].year) == (9999, 1)
    assert (high["text"], low["text"]) == ("31.12.9999", "01.01.0001")


def test_types_are_read_from_their_text() -> None:
    kinds = [
        pa.int32(), pa.float64(), pa.bool_(), pa.date64(), pa.time64("us"), pa.duration("ns"),
        pa.timestamp("ns"), pa.timestamp("s", tz="+01:00"), pa.decimal256(50, 3), pa.string(),
    ]  # fmt: skip
    for kind in kinds:
        assert arrow_type(str(kind)) == kind
    assert arrow_type(str(pa.dictionary(pa.int8(), pa.string()))) == pa.string()
    assert arrow_type(str(pa.list_(pa.int8()))) == pa.null()


def test_special_numbers_keep_their_values() -> None:
    frame = pa.table({
        "t": [time(1), time(2), time(1)],
        "d": [Decimal("1.10"), Decimal("2.25"), None],
    })
    schema = TableSchema.infer(frame)
    assert schema.decode(schema.encode(frame)[0]).to_pydict() == frame.to_pydict()


def test_samples_have_the_decimals_of_the_training_data() -> None:
    prices = pa.table({"p": [0.25, 1.5, 3.0, 9.75], "f": pa.array([0.1, 2.5, 7, 8.3], "float")})
    schema = TableSchema.infer(prices)
    samples = np.array([[1.23456, 2.34567], [np.nan, 1e30]])
    first, second = schema.decode(samples).to_pylist()
    assert first == {"p": 1.23, "f": pytest.approx(2.3, abs=1e-6)}
    assert second["p"] is None


def test_samples_have_the_unit_of_the_training_data() -> None:
    schema = TableSchema((
        Numeric("price", "string", decimals=2, prefix="$"),
        Numeric("weight", "string", integer=True, decimals=0, suffix=" kg"),
        Numeric("share", "string", suffix="%"),
    ))
    samples = np.array([[1200.5, 7.2, 9.125], [-3.0, np.nan, -0.5]])
    table = schema.decode(samples)
    assert table.to_pylist() == [
        {"price": "$1200.50", "weight": "7 kg", "share": "9.125%"},
        {"price": "-$3.00", "weight": None, "share": "-0.5%"},
    ]
    codes, problems = schema.encode(table)
    np.testing.assert_array_equal(codes, [[1200.5, 7, 9.125], [-3, np.nan, -0.5]])
    assert problems == {}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (timedelta(1), datetime(2024, 5, 3)),
        (timedelta(hours=1), datetime(2024, 5, 2, 13)),
        (timedelta(minutes=1), datetime(2024, 5, 2, 12, 41)),
        (timedelta(seconds=1), datetime(2024, 5, 2, 12, 40, 31)),
        (timedelta(milliseconds=1), datetime(2024, 5, 2, 12, 40, 30, 600_000)),
    ],
)
def test_samples_have_the_resolution_of_the_training_dates(
    step: timedelta, expected: datetime
) -> None:
    moments = [datetime(2024, 5, 1) + step * i for i in (0, 1, 3, 7)]
    schema = TableSchema.infer(pa.table({"t": pa.array(moments, pa.timestamp("us"))}))
    second = (datetime(2024, 5, 2, 12, 40, 30, 600_000) - datetime(1970, 1, 1)).total_seconds()
    (row,) = schema.decode(np.array([[second]])).to_pylist()
    assert row["t"] == expected


def test_iso_text_of_whole_seconds_has_no_fractions() -> None:
    schema = TableSchema((DateTime("iso", "string", "ISO 8601", resolution="second"),))
    assert schema.decode(np.array([[0.6]])).to_pydict() == {"iso": ["1970-01-01T00:00:01"]}


def test_booleans_keep_their_spelling() -> None:
    frame = pa.table({"b": ["True", "False", "True", None], "x": [1.5, 2.5, 3.5, 0.1]})
    schema = TableSchema.infer(frame)
    codes, _ = schema.encode(frame)
    assert codes[:3, 0].tolist() == [1, 0, 1]
    assert schema.decode(codes).to_pydict() == frame.to_pydict()


def test_integers_that_are_days_stay_integers() -> None:
    frame = pa.table({"day": [20230821, 20240229, 19991231, 20230822]})
    schema = TableSchema.infer(frame)
    codes, problems = schema.encode(frame)
    assert problems == {}
    assert schema.decode(codes + 3600).to_pydict() == frame.to_pydict()


def test_a_constant_column_has_gaps_as_often_as_the_training_data() -> None:
    schema = TableSchema((
        Numeric("x"),
        Constant("k", "string", "kg", missing=30, rows=100),
        Constant("n", "int64", "5", missing=0, rows=100),
        Constant("old", "int64", "5", missing=7),
    ))
    table = schema.decode(np.zeros((2000, 1)))
    assert set(table["k"].to_pylist()) == {"kg", None}
    assert table["k"].null_count == pytest.approx(600, abs=5 * (2000 * 0.3 * 0.7) ** 0.5)
    assert table["n"].null_count == table["old"].null_count == 0
    assert schema.decode(np.zeros((2000, 1))) == table
    assert str(table["k"].type) == "string"
