"""Scores of all rows of a table, with reasons, and files of scores."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from ..atomic_io import create_folder, replace_file
from ..samplers import Progress
from ..untrusted import not_a_formula
from .errors import DataError, problems_of
from .explain import explain, reasons_text, seven_digits
from .frame import (
    JSON_SUFFIXES,
    TEXT_SUFFIXES,
    Frame,
    cast_text,
    frame_from,
    iter_table,
    require_replaceable,
    table_suffix,
    uncastable,
    write_frames,
)
from .outliers import Reason, benjamini_hochberg
from .schema.columns import Problems

if TYPE_CHECKING:
    from .model import TableModel

Floats = npt.NDArray[np.float64]

ROW = "row"
"""Name in place of a column for problems of a whole row."""
SCORES_MARK, SCORES_COLUMNS = "scores", ("p_value", "log_density", "problem")
"""How files of scores are recognized."""
BLOCK = 50_000
"""Number of rows that are scored at once."""
KEPT_BYTES, HASHED_BYTES = 2**28, 2**26
"""A table that takes at most 256 MiB is kept in memory, and a file of at most 64 MiB is compared
with the training file. So no file is read more than twice."""
EXPLAINED_P, EXPLAINED_ROWS = 0.05, 1000
"""Rows that are not flagged and have a larger p-value, or after this number of rows with higher
scores, get no reasons."""


@dataclass(frozen=True, repr=False)
class ScoredTable:
    """Scores of the rows of a table.

    Attributes:
        score: How unusual each row is, shape `(N,)`. 3 means as unusual as 1 row in 1,000. NaN
            for rows that could not be scored.
        p_value: Probability that a normal row has at least this score, shape `(N,)`.
        log_density: Log-density, shape `(N,)`, up to a constant unless the model is normalized.
        flagged: Whether a row is an outlier at the false discovery rate, shape `(N,)`.
        reasons: The columns that make unusual rows unusual, the most important first, by row
            number from 0 on. Other rows are left out.
        problems: Why a row was not scored, by row.
    """

    score: Floats
    p_value: Floats
    log_density: Floats
    flagged: npt.NDArray[np.bool_]
    reasons: dict[int, list[Reason]]
    problems: dict[int, str]

    def __repr__(self) -> str:
        """Return the numbers of rows and of flagged rows."""
        return f"ScoredTable({len(self.score):,} rows, {int(self.flagged.sum()):,} flagged)"

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of rows, of flagged rows and of rows that could not be scored."""
        return len(self.score), int(self.flagged.sum()), int(np.isnan(self.score).sum())

    def columns(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """Return a range of the rows as a table with text for reasons and problems."""
        stop = len(self.score) if stop is None else stop
        part, rows = slice(start, stop), range(start, stop)
        missing = np.isnan(self.score[part])

        def number(x: Floats) -> pa.Array:
            return pa.array(seven_digits(x[part]), pa.float64(), mask=missing)

        reasons = [_safe_text(self.reasons.get(i, [])) for i in rows]
        return pa.table({
            "score": number(self.score),
            "p_value": number(self.p_value),
            "log_density": number(self.log_density),
            "flagged": pa.array(self.flagged[part], pa.bool_(), mask=missing),
            "reasons": pa.array(reasons, pa.string()),
            "problem": pa.array([self.problems.get(i, "") for i in rows], pa.string()),
        })


def table_frames(table: object, columns: Sequence[str] = ()) -> Iterator[Frame]:
    """Yield the blocks of a table: of a file, a frame, a list of rows or an array."""
    if isinstance(table, str | os.PathLike):
        yield from iter_table(Path(table), BLOCK, columns)
        return
    whole = frame_from(table, columns)
    for start in range(0, max(whole.num_rows, 1), BLOCK):
        part = whole.slice(start, BLOCK)
        yield Frame(part, {}, part)


def score_frames(
    model: "TableModel",
    frames: Iterable[Frame],
    *,
    fdr: float = 0.1,
    alpha: float | None = None,
    top: int | None = None,
    reasons: int = 3,
    leave_one_out: bool = False,
    progress: Progress = lambda steps: steps,
) -> ScoredTable:
    """Score the blocks of a table. See `TableModel.score`."""
    explained_p = max(EXPLAINED_P, fdr, alpha or 0.0) if reasons else 0.0
    scores: list[Tensor] = []
    explained: dict[int, list[Reason]] = {}
    problems: dict[int, str] = {}
    highest = torch.full((EXPLAINED_ROWS,), -torch.inf).double()
    done = 0
    for frame in frames:
        codes, cell_problems = model.schema.encode(frame.table)
        rows = torch.from_numpy(codes)
        cell_problems |= {row: [(ROW, text)] for row, text in frame.ragged.items()}
        unreadable = _unreadable_rows(rows, cell_problems)
        problems |= {done + i: text for i, text in unreadable.items()}
        new_values = {i: cells for i, cells in cell_problems.items() if i not in unreadable}
        surprise = torch.full((len(rows),), torch.nan).double()
        for i, cells in new_values.items():
            surprise[i] = max(model.problem_surprise(column) for column, _ in cells)
        block = _score_rows(
            model, rows, surprise, unreadable, leave_one_out=leave_one_out, progress=progress
        )
        is_unusual = block[1] <= explained_p
        if top is not None and reasons:
            so_far = torch.cat([highest, block[0].nan_to_num(-torch.inf)])
            is_unusual |= block[0] >= so_far.topk(min(top, EXPLAINED_ROWS)).values[-1]
        scores.append(block)
        if reasons:
            chosen = _most_unusual(block[0], is_unusual, float(highest[-1]))
            written = frame.original.take(pa.array(chosen.numpy()))
            explanations = explain(model, rows[chosen], reasons, written, progress)
            by_row = dict(zip(chosen.tolist(), explanations, strict=True))
            unusual_otherwise = _unusual_otherwise(model, rows, new_values)
            for i, cells in new_values.items():
                others = by_row.get(i, []) if i in unusual_otherwise else []
                by_row[i] = _with_problems(cells, others)[: max(reasons, len(cells))]
            explained |= {done + i: each for i, each in by_row.items()}
        highest = torch.cat([highest, block[0].nan_to_num(-torch.inf)]).topk(EXPLAINED_ROWS).values
        done += len(rows)
    score, p_value, log_density = torch.cat(scores, 1) if scores else torch.empty(3, 0).double()
    if top is not None:
        order = score.nan_to_num(-torch.inf).argsort(descending=True, stable=True)
        flagged = (order.argsort() < top) & ~score.isnan()
    else:
        flagged = p_value <= alpha if alpha is not None else benjamini_hochberg(p_value, fdr)
    return ScoredTable(
        score.numpy(), p_value.numpy(), log_density.numpy(), flagged.numpy(), explained, problems
    )


def explain_frame(model: "TableModel", frame: Frame, count: int) -> list[list[Reason]]:
    """Return the reasons of all rows of a block. See `TableModel.explain`."""
    codes, problems = model.schema.encode(frame.table)
    rows = torch.from_numpy(codes)
    explanations = explain(model, rows, count, frame.original)
    unusual_otherwise = _unusual_otherwise(model, rows, problems)
    for i, cells in problems.items():
        others = explanations[i] if i in unusual_otherwise else []
        explanations[i] = _with_problems(cells, others)
    return explanations


def _with_problems(cells: Sequence[tuple[str, str]], others: list[Reason]) -> list[Reason]:
    """Return the problems of cells as reasons, then other reasons."""
    given = [Reason(column, text, "", 1.0) for column, text in cells]
    columns = [column for column, _ in cells]
    return given + [reason for reason in others if reason.column not in columns]


def _unusual_otherwise(model: "TableModel", rows: Tensor, problems: Problems) -> set[int]:
    """Return which rows with problems are among the most unusual 5 % without them too."""
    changed = list(problems)
    no_surprise = torch.zeros(len(changed)).double()
    p_values = model.score_codes(rows[changed], no_surprise).p_value.tolist() if changed else []
    return {i for i, p_value in zip(changed, p_values, strict=True) if p_value <= EXPLAINED_P}


def score_file(
    model: "TableModel",
    path: Path,
    out: Path,
    *,
    fdr: float = 0.1,
    alpha: float | None = None,
    top: int | None = None,
    only_scores: bool = False,
    progress: Progress = lambda steps: steps,
) -> ScoredTable:
    """Score every row of a file, and write the rows with their scores.

    A file that is larger than memory is read in blocks, and a second time to write it.

    Args:
        model: The model.
        path: A file with the columns of the training table.
        out: The `.csv` or `.parquet` file to write. An existing file is only replaced if it holds
            scores.
        fdr: Largest accepted share of normal rows among the flagged ones.
        alpha: Flag the rows with at most this p-value instead.
        top: Flag this many rows with the highest scores instead.
        only_scores: Whether to write the number of each row instead of the columns of the table.
        progress: Wraps the loop over blocks of rows, to show progress.

    Returns:
        The scores.

    Raises:
        DataError: If the file is not a table, lacks columns, or no row can be scored.
        OSError: If the file to write exists and does not hold scores, or cannot be written.
        ValueError: If the format is not supported.
    """
    require_replaceable(out, SCORES_MARK, SCORES_COLUMNS, path)
    is_text = table_suffix(path) in TEXT_SUFFIXES | JSON_SUFFIXES
    typed = out.suffix == ".parquet" and not only_scores and is_text
    as_text: set[str] = set()
    blocks: list[pa.Table] = []

    is_kept = not only_scores

    def read() -> Iterator[Frame]:
        nonlocal is_kept
        for frame in table_frames(path, model.schema.names):
            if typed:
                as_text.update(uncastable(frame.original, model.schema))
            blocks.append(frame.original)
            is_kept &= sum(block.nbytes for block in blocks) <= KEPT_BYTES
            if not is_kept:
                blocks.clear()
            yield frame

    with problems_of(path):
        # If the training rows are different, copies of them are recognized one by one.
        repeats = not model.detector.neighbors.are_different
        leave_one_out = repeats and is_training_file(model, path)
        scored = score_frames(
            model,
            read(),
            fdr=fdr,
            alpha=alpha,
            top=top,
            leave_one_out=leave_one_out,
            progress=progress,
        )
    if np.isnan(scored.score).all():
        first = next(iter(scored.problems.values()), "there are no rows")
        raise DataError(f"{path}: no row can be scored. First problem: {first}")
    again = (frame.original for frame in table_frames(path, model.schema.names))
    tables: Iterable[pa.Table] = blocks if is_kept else again
    if only_scores:
        tables = _number_rows(len(scored.score))
    elif typed:
        tables = (cast_text(table, model.schema, as_text) for table in tables)
    create_folder(out.parent)
    with replace_file(out) as draft:
        write_frames(draft, out.suffix, with_scores(tables, scored), SCORES_MARK)
    return scored


def is_training_file(model: "TableModel", path: Path) -> bool:
    """Return whether a file is the one that the model was trained on, up to 64 MiB."""
    if not path.is_file() or not 0 < path.stat().st_size <= HASHED_BYTES:
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == model.file.sha256


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


def _score_rows(
    model: "TableModel",
    rows: Tensor,
    surprise: Tensor,
    unreadable: dict[int, str],
    *,
    leave_one_out: bool,
    progress: Progress,
) -> Tensor:
    """Return score, p-value and log-density of rows, shape `(3, N)`. NaN if unreadable."""
    result = torch.full((3, len(rows)), torch.nan).double()
    good = torch.tensor([i for i in range(len(rows)) if i not in unreadable], dtype=torch.long)
    if len(good):
        scores = model.score_codes(
            rows[good], surprise[good], leave_one_out=leave_one_out, progress=progress
        )
        result[:, good] = torch.stack(scores)
    return result


def _unreadable_rows(rows: Tensor, problems: Problems) -> dict[int, str]:
    """Return why rows of a table cannot be scored, by row."""
    causes = {i: cells[0][1] for i, cells in problems.items() if cells[0][0] == ROW}
    for i in rows.isnan().all(1).nonzero().flatten().tolist():
        if i not in problems:
            causes[i] = "all cells are missing"
    return causes


def _most_unusual(score: Tensor, is_unusual: Tensor, smallest: float) -> Tensor:
    """Return the indices of unusual rows, the most unusual first."""
    chosen = (is_unusual & (score >= smallest)).nonzero().flatten()
    return chosen[score[chosen].argsort(descending=True)][:EXPLAINED_ROWS]


def with_scores(tables: Iterable[pa.Table], scored: ScoredTable) -> Iterator[pa.Table]:
    """Yield the blocks of a table with the columns of scores after their own."""
    done = 0
    for table in tables:
        columns = scored.columns(done, done + table.num_rows)
        taken = set(table.column_names)
        for name in columns.column_names:
            unused = f"fdsm_{name}" if name in taken else name
            table = table.append_column(unused, columns.column(name))
        yield table
        done += len(table)


def _safe_text(reasons: Sequence[Reason]) -> str:
    """Return reasons as text. The name of a column is never the beginning of a formula."""
    return reasons_text([r._replace(column=not_a_formula(r.column, "column ")) for r in reasons])


def _number_rows(count: int) -> Iterator[pa.Table]:
    for start in range(0, count, BLOCK):
        numbers = [str(i + 1) for i in range(start, min(start + BLOCK, count))]
        yield pa.table({"row": pa.array(numbers, pa.string())})
