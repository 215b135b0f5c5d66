"""Scores of rows that arrive line by line: csv or JSON lines in, the same format out."""

import csv
import io
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from ..atomic_io import create_folder, replace_file
from .errors import problems_of
from .frame import (
    ArrivingLines,
    Frame,
    Source,
    csv_rows,
    is_json,
    iter_arriving_json,
    iter_arriving_text,
    require_replaceable,
)
from .frame.arriving import SOURCE
from .scoring import SCORES_COLUMNS, SCORES_MARK, ScoredTable, score_frames, with_scores

if TYPE_CHECKING:
    from .model import TableModel


class ScoredBlock(NamedTuple):
    """Scores of rows that arrived together.

    Attributes:
        scored: The scores.
        text: The rows with their scores as lines of text, in the format of the input.
    """

    scored: ScoredTable
    text: str


def score_stream(
    model: "TableModel",
    lines: ArrivingLines,
    *,
    alpha: float,
    only_scores: bool = False,
) -> Iterator[ScoredBlock]:
    r"""Score rows as they arrive. Only the rows of one block are in memory.

    The false discovery rate and the highest scores depend on rows that have not arrived, so rows
    are flagged by their p-value.

    Args:
        model: The model.
        lines: A text table with a header, or lines with one JSON object each, in UTF-8.
        alpha: Flag the rows with at most this p-value.
        only_scores: Whether to write the number of each row instead of its cells.

    Yields:
        The rows that arrived together. Lines that are not JSON objects have a problem.

    Raises:
        DataError: If the lines are not a table, or lack columns.

    Example:
        >>> import numpy as np
        >>> from fdsm import TableModel
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = TableModel.fit(rows, iterations=50)
        >>> source = io.BytesIO(b'{"0": 0.1, "1": 0.5}\n{"0": 9, "1": 9}\n')
        >>> (block,) = score_stream(model, ArrivingLines(source), alpha=0.01)
        >>> [json.loads(line)["flagged"] for line in block.text.splitlines()]
        [False, True]
    """
    done = 0
    with problems_of(SOURCE):
        for frame, rows in _blocks(lines, model.schema.names):
            scored = score_frames(model, [frame], alpha=alpha)
            count = len(scored.score)
            if rows is not None:
                cells = [{"row": done + i} for i in range(1, count + 1)] if only_scores else rows
                text = _json_text(cells, scored)
            else:
                table = _numbers(done, count) if only_scores else frame.original
                text = _csv_text(table, scored, with_header=done == 0)
            done += count
            yield ScoredBlock(scored, text)


def score_arriving(
    model: "TableModel",
    source: Source,
    out: Path | BinaryIO,
    *,
    alpha: float,
    only_scores: bool = False,
) -> tuple[int, int, int]:
    """Score rows as they arrive, and write them with their scores in the same format.

    Args:
        model: The model.
        source: The rows, as for `score_stream`, for example `sys.stdin.buffer`.
        out: An open file such as `sys.stdout.buffer`, which gets rows as soon as they are scored;
            or the path of a `.csv` or `.jsonl` file, which appears when all rows are scored.
        alpha: Flag the rows with at most this p-value.
        only_scores: Whether to write the number of each row instead of its cells.

    Returns:
        The numbers of rows, of flagged rows and of rows that could not be scored.

    Raises:
        DataError: If the lines are not a table, or lack columns.
        OSError: If the file to write exists and does not hold scores, or cannot be written.
        ValueError: If the suffix is not that of the format.
    """
    lines = ArrivingLines(source)
    total = np.zeros(3, int)
    with _opened(out, ".jsonl" if is_json(lines) else ".csv") as file:
        for block in score_stream(model, lines, alpha=alpha, only_scores=only_scores):
            file.write(block.text.encode())
            file.flush()
            total += block.scored.counts()
    rows, flagged, not_scored = total.tolist()
    return rows, flagged, not_scored


@contextmanager
def _opened(out: Path | BinaryIO, suffix: str) -> Generator[BinaryIO]:
    if not isinstance(out, Path):
        yield out
        return
    require_replaceable(out, SCORES_MARK, SCORES_COLUMNS, suffixes=(suffix,))
    create_folder(out.parent)
    with replace_file(out) as draft, draft.open("wb") as file:
        yield file


def _blocks(
    lines: ArrivingLines, names: Sequence[str]
) -> Iterator[tuple[Frame, list[dict[str, Any]] | None]]:
    """Yield blocks of a text table, or blocks of JSON lines with the objects."""
    if is_json(lines):
        for rows, frame in iter_arriving_json(lines, names):
            yield frame, [row.cells for row in rows]
    else:
        for frame in iter_arriving_text(lines, names):
            yield frame, None


def _json_text(rows: Sequence[dict[str, Any]], scored: ScoredTable) -> str:
    """Return rows with their scores as JSON lines."""
    lines = []
    for cells, scores in zip(rows, scored.columns().to_pylist(), strict=True):
        taken = {f"fdsm_{name}" if name in cells else name: new for name, new in scores.items()}
        lines.append(json.dumps(cells | taken) + "\n")
    return "".join(lines)


def _csv_text(table: pa.Table, scored: ScoredTable, *, with_header: bool) -> str:
    """Return rows with their scores as lines of csv."""
    (complete,) = with_scores([table], scored)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    if with_header:
        writer.writerow(complete.column_names)
    writer.writerows(csv_rows(complete))
    return text.getvalue()


def _numbers(done: int, count: int) -> pa.Table:
    return pa.table({"row": [str(done + i) for i in range(1, count + 1)]})
