"""Samples as arrays, tables and pictures."""

import csv
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import feather, parquet

from paper.data.tables import Categorical, Constant, DateTime, Identifier, Numeric, TableSchema
from paper.runs.samples import grid, save_sample_file, save_samples


def test_images_are_laid_out_row_by_row() -> None:
    images = torch.arange(6).view(6, 1, 1, 1).expand(6, 1, 200, 200) / 5
    picture = np.asarray(grid(images))
    assert picture.shape == (2 * 201 + 1, 3 * 201 + 1)
    centers = picture[101::201, 101::201]
    assert centers.tolist() == [[0, 51, 102], [153, 204, 255]]
    assert picture[0, 0] == 128


def test_colors_are_kept_and_values_clipped(tmp_path: Path) -> None:
    image = torch.tensor([-5.0, 8.0, 99.0]).view(1, 3, 1, 1).expand(1, 3, 400, 400)
    files = save_samples(tmp_path, image, 16.0)
    assert [file.name for file in files] == ["samples.npy", "samples.png"]
    with Image.open(files[1]) as picture:
        assert picture.getpixel((200, 200)) == (0, 128, 255)
    assert np.array_equal(np.load(files[0]), image.numpy())


def test_small_images_are_enlarged_without_blur() -> None:
    picture = np.asarray(grid(torch.tensor([[0.0, 1.0]]).view(1, 1, 1, 2)))
    assert picture.shape[1] >= 320
    assert set(np.unique(picture)) == {0, 128, 255}


@pytest.mark.parametrize(
    ("columns", "header"), [(["length", "weight"], ["length", "weight"]), (None, ["0", "1"])]
)
def test_tables_have_the_columns_of_the_data(
    columns: list[str] | None, header: list[str], tmp_path: Path
) -> None:
    samples = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    schema = None if columns is None else TableSchema.of_numbers(columns)
    files = save_samples(tmp_path / "new", samples, 1.0, schema)
    arrays = ["samples.npy"] if schema is None else []
    assert [file.name for file in files] == [*arrays, "samples.csv"]
    with files[-1].open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == header
    assert [[float(cell) for cell in row] for row in rows] == samples.tolist()
    if schema is None:
        assert np.load(files[0]).tolist() == samples.tolist()


MIXED = TableSchema((
    Identifier("id", "string", "unique per row"),
    DateTime("day", "date32[day]"),
    Categorical("kind", "string", ("a", "b", "c")),
    Constant("unit", "string", "kg"),
    Numeric("count", "int64", integer=True),
    Numeric("grade", "double", levels=(0.5, 1.0, 4.0)),
))
"""Codes are the day in seconds, the index of the kind, the count and the grade."""


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_samples_have_the_types_of_the_input_and_its_missing_cells(
    suffix: str, tmp_path: Path
) -> None:
    """Identifiers are unknown, constants are repeated, and numbers are rounded to levels."""
    day = 86400.0
    samples = torch.tensor([[9.4 * day, 1.8, 2.6, 3.1], [torch.nan, 0.0, torch.nan, 0.6]])
    path = save_sample_file(tmp_path / f"samples{suffix}", samples, 1.0, MIXED)
    if suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            names, *rows = csv.reader(file)
        assert names == ["id", "day", "kind", "unit", "count", "grade"]
        assert [row[:5] for row in rows] == [
            ["", "1970-01-10", "c", "kg", "3"],
            ["", "", "a", "kg", ""],
        ]
        assert [float(row[5]) for row in rows] == [4.0, 0.5]
        return
    table = parquet.read_table(path) if suffix == ".parquet" else feather.read_table(path)
    assert [str(kind) for kind in table.schema.types] == [
        "string", "date32[day]", "string", "string", "int64", "double",
    ]  # fmt: skip
    assert table["day"].to_pylist() == [date(1970, 1, 10), None]
    assert table["count"].to_pylist() == [3, None]
    assert table["grade"].to_pylist() == [4.0, 0.5]
    assert table["id"].null_count == 2


@pytest.mark.parametrize(
    ("name", "shape", "allowed"),
    [
        ("samples.png", (3, 2), ".npy or .csv or .parquet or .feather"),
        ("samples.csv", (3, 1, 8, 8), ".npy or .png"),
        ("samples.txt", (3, 2), ".npy or .csv or .parquet or .feather"),
    ],
)
def test_formats_that_do_not_fit_the_samples_are_refused(
    name: str, shape: tuple[int, ...], allowed: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"can be written as {allowed}, not"):
        save_sample_file(tmp_path / name, torch.zeros(shape), 1.0)
    assert not list(tmp_path.iterdir())
