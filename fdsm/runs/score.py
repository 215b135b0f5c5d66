"""Scoring a file of new data with a trained model."""

import csv
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ..atomic_io import replace_file
from ..data import Array, DataError, ImageFolder, Table, from_path
from ..serialize import Json
from .saved_model import SavedModel

HEADER = ("row", "log_density", "typicality", "p_value", "problem")


def score_file(saved: SavedModel, data: Path, out: Path) -> dict[str, Json]:
    """Score every row of a data file and write the scores as a table.

    Rows with cells that cannot be read are not scored. Their problem is written instead.

    Args:
        saved: The model.
        data: A file or folder with the columns or images of the training data.
        out: The file to write. An existing file is only replaced if it holds scores.

    Returns:
        A summary: number of rows, of rows not scored, of rows with a p-value below 0.01, and the
        median log-density.

    Raises:
        DataError: If the rows do not have the shape of the training rows, or none can be scored.
        FileExistsError: If the file to write exists and does not hold scores.
    """
    if out.exists() and not out.read_bytes().startswith(",".join(HEADER).encode()):
        raise FileExistsError(f"{out} exists and does not hold scores of fdsm")
    names, rows, problems = _read_rows(saved, data)
    good = [i for i in range(len(rows)) if i not in problems]
    if not good:
        raise DataError(f"{data}: no row can be scored. Row 1: {problems[0]}")
    scores = saved.score(rows[good])
    cells = {
        row: [f"{value:.7g}" for value in values]
        for row, *values in zip(
            good,
            scores.log_density.tolist(),
            scores.typicality.tolist(),
            scores.p_value.tolist(),
            strict=True,
        )
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for row, name in enumerate(names):
            writer.writerow([name, *cells.get(row, ["", "", ""]), problems.get(row, "")])
    return {
        "rows": len(rows),
        "not_scored": len(problems),
        "rows_with_p_value_below_1_percent": int((scores.p_value < 0.01).sum()),
        "median_log_density": float(f"{float(scores.log_density.median()):.6g}"),
    }


def _read_rows(saved: SavedModel, path: Path) -> tuple[list[str], Tensor, dict[int, str]]:
    """Read new data in the same way as the training data of a model.

    Columns of tables are found by name, in any order and among other columns. Images are resized
    to the size of the training images.

    Returns:
        A name for each row (its number from 1, or its file), the rows as they are stored, shape
        `(N, *E)`, and the problem of each row that cannot be scored.

    Raises:
        DataError: If the rows do not have the shape or scale of the training rows.
    """
    config = saved.run.config
    key = getattr(saved.run.recipe.data, "key", None)
    shape, source = tuple(config["stored_shape"]), from_path(path, key)
    if isinstance(source, ImageFolder) and len(shape) == 3:
        source = replace(source, size=shape[1], channels=shape[0])
    if isinstance(source, Table) and "columns" in config["data"]:
        source = replace(source, columns=tuple(config["data"]["columns"]))
    if isinstance(source, (Array, Table)):
        rows, problems = source.rows_with_problems()
    else:
        rows, problems = source.rows(), {}
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
    names = source.names() if isinstance(source, ImageFolder) else range(1, len(rows) + 1)
    return [str(name) for name in names], rows, problems


def default_scores_path(data: Path) -> Path:
    """Return the default file for the scores of a data file, in the same folder.

    Example:
        >>> str(default_scores_path(Path("new.csv"))), str(default_scores_path(Path("new.npy")))
        ('new.scores.csv', 'new.npy.scores.csv')
    """
    name = data.stem if data.suffix == ".csv" else data.name
    return data.with_name(f"{name}.scores.csv")
