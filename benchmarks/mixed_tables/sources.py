"""Three tables with numbers, categories, dates, missing cells, identifiers and constants."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from paper.data import DataError, find_file

from .errors import (
    Error,
    Row,
    repeated_digit,
    swapped,
    wrong_category,
    wrong_date,
    wrong_unit,
)


@dataclass(frozen=True)
class MixedTable:
    """A table and the errors that a person would recognize in it.

    Attributes:
        name: Name of the table.
        rows: The rows, with None for missing cells.
        errors: Errors to plant.
    """

    name: str
    rows: list[Row]
    errors: Sequence[Error]


def eight_cylinders(row: Row) -> bool:
    """Whether a car has eight cylinders. All of these are heavy and from the USA."""
    return bool(row["Cylinders"] == 8)


CAR_ERRORS = (
    wrong_unit("Weight_in_lbs", lambda pounds: round(pounds * 0.4536), eight_cylinders),
    swapped("Horsepower", "Acceleration"),
    wrong_category("Origin", "Japan", eight_cylinders),
    wrong_date("Year", -100),
    repeated_digit("Miles_per_Gallon"),
    wrong_unit("Displacement", lambda inches: inches * 1000),
)


def cars() -> MixedTable:
    """Return 406 cars of 1970 to 1982: 6 numbers, 1 date, 1 category, names and a constant."""
    text = package_file("vega_datasets", "_data/cars.json").read_text(encoding="utf8")
    rows = [
        {**row, "Year": date.fromisoformat(row["Year"]), "Source": "StatLib"}
        for row in json.loads(text)
    ]
    return MixedTable("cars", rows, CAR_ERRORS)


def weather() -> MixedTable:
    """Return 1,461 days in Seattle: 4 numbers, 1 date, 1 category, an identifier, a constant.

    3 % of the numbers are deleted at random.
    """
    path = package_file("vega_datasets", "_data/seattle-weather.csv")
    with path.open(encoding="utf8", newline="") as file:
        records = list(csv.DictReader(file))
    numbers = ("precipitation", "temp_max", "temp_min", "wind")
    rows: list[Row] = [
        {
            "record": f"SEA-{index:05d}",
            "station": "Seattle",
            "date": date.fromisoformat(record["date"].replace("/", "-")),
            **{name: float(record[name]) for name in numbers},
            "weather": record["weather"],
        }
        for index, record in enumerate(records)
    ]
    errors = (
        wrong_unit("temp_max", lambda celsius: round(celsius * 1.8 + 32, 1)),
        swapped("temp_max", "temp_min", lambda row: row["temp_max"] - row["temp_min"] > 8),
        wrong_category("weather", "snow", lambda row: (row["temp_min"] or 0) > 10),
        wrong_date("date", 90),
        repeated_digit("wind"),
        wrong_unit("precipitation", lambda millimeters: millimeters * 1000),
    )
    return MixedTable("weather", delete_numbers(rows, numbers, 0.03), errors)


def wines() -> MixedTable:
    """Return 6,497 wines: 11 numbers, a grade, 1 category, an identifier and a constant.

    3 % of the chemical measurements are deleted at random.
    """
    rows: list[Row] = []
    for color in ("red", "white"):
        with find_file(f"winequality-{color}.csv", ("uci",)).open(
            encoding="utf8", newline=""
        ) as file:
            for index, record in enumerate(csv.DictReader(file, delimiter=";")):
                quality = int(record.pop("quality"))
                row: Row = {"sample": f"{color[0].upper()}{index:04d}", "country": "Portugal"}
                row |= {name: float(value) for name, value in record.items()}
                rows.append(row | {"quality": quality, "color": color})
    errors = (
        wrong_unit("density", lambda grams: grams * 1000),
        swapped("free sulfur dioxide", "total sulfur dioxide", far_apart),
        wrong_category("color", "white", lambda row: row["color"] == "red"),
        wrong_category("color", "red", lambda row: row["color"] == "white"),
        repeated_digit("pH"),
        wrong_unit("alcohol", lambda percent: percent / 10),
    )
    names = [name for name, value in rows[0].items() if isinstance(value, float)]
    return MixedTable("wines", delete_numbers(rows, names, 0.03), errors)


TABLES = (cars, weather, wines)


def far_apart(row: Row) -> bool:
    """Whether the total sulfur dioxide is at least three times the free one."""
    return bool(row["total sulfur dioxide"] >= 3 * row["free sulfur dioxide"])


def delete_numbers(rows: Sequence[Row], names: Sequence[str], fraction: float) -> list[Row]:
    """Return the rows without a random fraction of the cells in the named columns."""
    deleted = np.random.default_rng(0).random((len(rows), len(names))) < fraction
    return [
        row | {name: None for name, missing in zip(names, flags, strict=True) if missing}
        for row, flags in zip(rows, deleted, strict=True)
    ]


def package_file(package: str, name: str) -> Path:
    """Return a data file of a package, without importing the package.

    Args:
        package: Name of the package.
        name: Path of the file in the package.

    Returns:
        Its path.

    Raises:
        DataError: If the package is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise DataError(f"{name} is part of {package}. Install it: pip install {package}")
    return Path(spec.origin).parent / name
