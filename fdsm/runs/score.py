"""Scoring a file of new data with a trained model."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ..atomic_io import replace_file
from ..data import DataError, ImageFolder, Table, from_path
from .saved_model import SavedModel, Scores

HEADER = ("row", "log_density", "typicality", "p_value")


def read_rows(saved: SavedModel, path: Path) -> tuple[list[str], Tensor]:
    """Read new data in the same way as the training data of a model.

    Columns of tables are found by name, in any order and among other columns. Images are resized
    to the size of the training images.

    Args:
        saved: The model.
        path: A folder or zip of images, or a file of rows.

    Returns:
        A name for each row, and the rows as they are stored, shape `(N, *E)`.

    Raises:
        DataError: If the rows do not have the shape of the training rows.
    """
    config = saved.run.config
    shape, source = tuple(config["stored_shape"]), from_path(path)
    if isinstance(source, ImageFolder) and len(shape) == 3:
        source = replace(source, size=shape[1], channels=shape[0])
    if isinstance(source, Table) and "columns" in config["data"]:
        source = replace(source, columns=tuple(config["data"]["columns"]))
    rows = source.rows()
    if tuple(rows.shape[1:]) != shape:
        raise DataError(
            f"{path} has rows of shape {tuple(rows.shape[1:])}, but {saved.run.folder} was "
            f"trained on rows of shape {shape}"
        )
    if saved.is_integer and rows.max() > 2 * saved.max_value:
        raise DataError(
            f"{path} has values up to {rows.max():g}, but {saved.run.folder} was trained on "
            f"integers up to {saved.max_value:g}. Bring them to the same scale"
        )
    names = source.names() if isinstance(source, ImageFolder) else range(len(rows))
    return [str(name) for name in names], rows


def default_scores_path(data: Path) -> Path:
    """Return the file for the scores of a data file: beside it, with a name of its own.

    Example:
        >>> str(default_scores_path(Path("new.csv"))), str(default_scores_path(Path("new.npy")))
        ('new.scores.csv', 'new.npy.scores.csv')
    """
    name = data.stem if data.suffix == ".csv" else data.name
    return data.with_name(f"{name}.scores.csv")


def write_scores(path: Path, names: Sequence[str], scores: Scores) -> None:
    """Write scores as a table. An existing file is only replaced if it holds scores.

    Args:
        path: The file.
        names: The names of the rows.
        scores: Their scores.

    Raises:
        FileExistsError: If the file exists and is something else.
    """
    if path.exists() and not path.read_bytes().startswith(",".join(HEADER).encode()):
        raise FileExistsError(f"{path} exists and does not hold scores of fdsm")
    columns = (scores.log_density, scores.typicality, scores.p_value)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows(zip(names, *(column.tolist() for column in columns), strict=True))
