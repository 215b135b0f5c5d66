"""Scores of new data, in a file."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ..atomic_io import replace_file
from ..data import DataError, ImageFolder, Table, from_path
from .saved_model import SavedModel, Scores


def read_rows(trained: SavedModel, path: Path) -> tuple[list[str], Tensor]:
    """Read new data as the data was read that a model was trained on.

    Columns of tables are found by name, in whatever order and among whatever others; images are
    brought to the size of those in training.

    Args:
        trained: The model.
        path: A folder or zip of images, or a file with rows.

    Returns:
        A name for each row, and the rows as they are stored, shape `(N, *E)`.

    Raises:
        DataError: If the rows do not have the shape of those in training.
    """
    config = trained.run.config
    shape, source = tuple(config["stored_shape"]), from_path(path)
    if isinstance(source, ImageFolder) and len(shape) == 3:
        source = replace(source, size=shape[1], channels=shape[0])
    if isinstance(source, Table) and "columns" in config["data"]:
        source = replace(source, columns=tuple(config["data"]["columns"]))
    rows = source.rows()
    if tuple(rows.shape[1:]) != shape:
        raise DataError(
            f"{path} has rows of shape {tuple(rows.shape[1:])}, but the model of "
            f"{trained.run.folder} was trained on rows of shape {shape}"
        )
    if trained.integral and rows.max() > 2 * trained.largest:
        raise DataError(
            f"{path} has values up to {rows.max():g}, but the model of {trained.run.folder} was "
            f"trained on whole numbers up to {trained.largest:g}: bring them to the same scale"
        )
    names = source.names() if isinstance(source, ImageFolder) else range(len(rows))
    return [str(name) for name in names], rows


def write_scores(path: Path, names: Sequence[str], scores: Scores) -> None:
    """Write scores as a table.

    Args:
        path: The file.
        names: The names of the rows.
        scores: Their scores.
    """
    columns = zip(
        names,
        scores.log_density.tolist(),
        scores.typicality.tolist(),
        scores.tail.tolist(),
        strict=True,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "log_density", "typicality", "tail"])
        writer.writerows(columns)
