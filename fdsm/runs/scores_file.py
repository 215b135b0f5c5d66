"""Files of scores: the user's columns, followed by the scores of the rows."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..atomic_io import replace_file
from ..data.tables.write import WRITTEN_SUFFIXES, is_marked, write_frames
from ..outliers import Reason
from .explain import in_words

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Floats = npt.NDArray[np.float64]

MARK, HEADER = "scores", ("p_value", "log_density", "problem")
"""How files of scores are recognised. Files of fdsm 0.2.0 have these columns too."""


@dataclass(frozen=True)
class ScoredRows:
    """Scores of all rows of a file.

    Attributes:
        score: Outlier scores, shape `(N,)`. NaN for rows that could not be scored.
        p_value: P-values, shape `(N,)`.
        log_density: Log-densities, shape `(N,)`.
        flagged: Whether a row is an outlier at the false discovery rate, shape `(N,)`.
        reasons: Reasons by row.
        problems: Why a row was not scored, by row.
    """

    score: Tensor
    p_value: Tensor
    log_density: Tensor
    flagged: Tensor
    reasons: dict[int, list[Reason]]
    problems: dict[int, str]


def default_scores_path(data: Path) -> Path:
    """Return the default file for the scores of a data file, in the same folder.

    Example:
        >>> str(default_scores_path(Path("new.csv"))), str(default_scores_path(Path("a.parquet")))
        ('new.scores.csv', 'a.scores.parquet')
        >>> str(default_scores_path(Path("new.npy")))
        'new.npy.scores.csv'
    """
    if data.suffix in {".csv", ".parquet"}:
        return data.with_name(f"{data.stem}.scores{data.suffix}")
    return data.with_name(f"{data.name}.scores.csv")


def require_writable(out: Path, data: Path) -> None:
    """Check that a file of scores can be written, before rows are scored.

    Args:
        out: The file to write. An existing file is only replaced if it holds scores.
        data: The file to score.

    Raises:
        FileExistsError: If the file to write exists and does not hold scores, or is the data.
        PermissionError: If the folder is read-only.
        NotADirectoryError: If the folder is a file.
        ValueError: If the format is not supported.
    """
    if out.suffix not in WRITTEN_SUFFIXES:
        raise ValueError(f"scores can be written as .csv or .parquet, not {out.suffix!r}")
    if out.exists() and data.exists() and out.samefile(data):
        raise FileExistsError(f"{out} is the file to score. Choose another file for the scores")
    if out.is_dir() or (out.exists() and not is_marked(out, MARK, HEADER)):
        raise FileExistsError(f"{out} exists and does not hold scores of fdsm")
    folder = next(path for path in (out.parent, *out.absolute().parents) if path.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{out} cannot be written: {folder} is not a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{out} cannot be written: the folder {folder} is read-only")


def write_scores(out: Path, frames: "Iterator[pa.Table]", scored: ScoredRows) -> None:
    """Write blocks of a table with the scores of their rows. A failure leaves the old file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft:
        write_frames(draft, out.suffix, _with_scores(frames, scored), MARK)


def _with_scores(frames: "Iterator[pa.Table]", scored: ScoredRows) -> "Iterator[pa.Table]":
    """Return the blocks of a table with the columns of scores after their own."""
    done = 0
    for frame in frames:
        taken, table = set(frame.column_names), frame
        for name, values in _columns(scored, done, len(frame)).items():
            table = table.append_column(f"fdsm_{name}" if name in taken else name, values)
        yield table
        done += len(frame)


def _columns(scored: ScoredRows, start: int, count: int) -> "dict[str, pa.Array]":
    """Return the columns of scores for some rows."""
    import pyarrow as pa

    part = slice(start, start + count)
    missing = scored.score[part].isnan().numpy()

    def number(x: Tensor) -> "pa.Array":
        return pa.array(_seven_digits(x[part].numpy()), pa.float64(), mask=missing)

    rows = range(start, start + count)
    return {
        "score": number(scored.score),
        "p_value": number(scored.p_value),
        "log_density": number(scored.log_density),
        "flagged": pa.array(scored.flagged[part].numpy(), pa.bool_(), mask=missing),
        "reasons": pa.array([in_words(scored.reasons.get(i, [])) for i in rows], pa.string()),
        "problem": pa.array([scored.problems.get(i, "") for i in rows], pa.string()),
    }


def _seven_digits(x: Floats) -> Floats:
    """Round to seven significant digits, which is the precision of the model."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(np.abs(x)))
    factor = 10.0 ** (6 - np.nan_to_num(exponent, nan=0.0, posinf=0.0, neginf=0.0))
    return np.round(x * factor) / factor
