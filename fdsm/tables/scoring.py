"""Scoring a file of new data with a trained model."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..atomic_io import replace_file
from paper.data import Array, DataError, ImageFolder, Table, TableSchema, from_path, iter_frames
from paper.data.download import checksums, resolve_path
from .frame.table_file import ROW
from .schema.columns import Problems
from .frame.reading import TEXT_SUFFIXES, table_suffix
from .frame.writing import cast_text, require_replaceable, uncastable, write_frames
from ..extras import name_missing_extra
from .outliers import Reason, benjamini_hochberg
from ..serialize import Json
from ..untrusted import not_a_formula, read_json
from .explain import explain, json_value, reasons_text, seven_digits
from paper.runs.run import RunError
from paper.runs.saved_model import SavedModel
from .summary import histogram

if TYPE_CHECKING:
    import pyarrow as pa

SCORES_MARK, SCORES_COLUMNS = "scores", ("p_value", "log_density", "problem")
"""How files of scores are recognized. Files of fdsm 0.2.0 have these columns too."""
BLOCK = 50_000
"""Number of rows that are in memory at once."""
EXPLAINED_P, EXPLAINED_ROWS = 0.05, 2000
"""Rows that are not flagged and have a larger p-value, or after this number of rows with higher
scores, get no reasons."""
RECORDED_ROWS = 20
"""Number of rows in the record for the report."""


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


def score_file(
    saved: SavedModel, data: Path, out: Path, *, fdr: float = 0.1, only_scores: bool = False
) -> dict[str, Json]:
    """Score every row of a data file and write the scores.

    A table is written with its own columns and the scores after them, as `.csv` or `.parquet`.
    Rows with cells that cannot be read are not scored. Their problem is written instead.

    Args:
        saved: The model.
        data: A file or folder with the columns or images of the training data.
        out: The file to write. An existing file is only replaced if it holds scores.
        fdr: Largest accepted share of normal rows among the flagged ones.
        only_scores: Whether to leave out the columns of the table.

    Returns:
        A summary: number of rows, of flagged rows and of rows not scored, and perhaps a warning.

    Raises:
        DataError: If the rows do not have the shape of the training rows, or none can be scored.
        OSError: If the file to write exists and does not hold scores, or cannot be written.
        ValueError: If the format is not supported.
    """
    require_replaceable(out, SCORES_MARK, SCORES_COLUMNS, data)
    edges = _edges(saved)
    schema = table_schema(saved)
    if schema is None:
        names, rows = _read_images(saved, data)
        scored = _collect([_score_block(saved, None, rows, {})], fdr)
        frames: Iterator[pa.Table] = iter([_name_table(names)])
    else:
        source = _table_source(saved, data, schema)
        is_text = isinstance(source, Table) and table_suffix(Path(source.path)) in TEXT_SUFFIXES
        typed = out.suffix == ".parquet" and not only_scores and is_text
        as_text: set[str] | None = set() if typed else None
        scored = _collect(
            _score_blocks(saved, schema, source, as_text, max(EXPLAINED_P, fdr)), fdr
        )
        frames = _number_rows(len(scored.score)) if only_scores else _frames(source)
        if as_text is not None:
            frames = (cast_text(frame, schema, as_text) for frame in frames)
    if not bool((~scored.score.isnan()).any()):
        first = next(iter(scored.problems.values()), "there are no rows")
        raise DataError(f"{data}: no row can be scored. First problem: {first}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft:
        write_frames(draft, out.suffix, _with_scores(frames, scored), SCORES_MARK)
    return {
        "rows": len(scored.score),
        "flagged": int(scored.flagged.sum()),
        "false_discovery_rate": fdr,
        "not_scored": int(scored.score.isnan().sum()),
        "smallest_possible_p_value": float(f"{_smallest_p_value(saved):.2g}"),
        **({} if edges is None else _record(saved, data, scored, fdr, edges)),
    }


def table_schema(saved: SavedModel) -> TableSchema | None:
    """Return the types of the columns that a model was trained on, or `None` for images."""
    schema = getattr(saved.run.recipe.data, "schema", None)
    if isinstance(schema, TableSchema):
        return schema
    names = saved.run.config.get("data", {}).get("columns")  # of numeric columns, in fdsm 0.2.0
    if names is None and len(saved.shape) == 1 and not saved.is_integer:
        names = [str(i) for i in range(*saved.run.config.get("stored_shape", saved.shape))]
    return None if names is None else TableSchema.of_numbers(names)


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


def is_training_file(saved: SavedModel, path: Path) -> bool:
    """Return whether a file is the one that the model was trained on."""
    training_checksums = [
        file.get("sha256") for file in saved.run.config.get("data", {}).get("files", [])
    ]
    return path.is_file() and checksums(path, "sha256")[0] in training_checksums


def _smallest_p_value(saved: SavedModel) -> float:
    assert saved.detector is not None
    return 1 / (len(saved.detector.calibration.folds) + 1)


def _score_blocks(
    saved: SavedModel,
    schema: TableSchema,
    source: Table | Array,
    as_text: set[str] | None,
    explained_p: float,
) -> Iterator[ScoredRows]:
    """Score a table in blocks, and add columns of text without the right type to `as_text`."""
    again = is_training_file(saved, resolve_path(source.path))
    blocks = source.iter_codes(BLOCK) if isinstance(source, Table) else [source.read_codes()]
    highest = torch.full((EXPLAINED_ROWS,), -torch.inf).double()
    for codes, problems, frame in blocks:
        if as_text is not None:
            as_text |= uncastable(frame, schema)
        limits = {"explained_p": explained_p, "threshold": float(highest[-1])}
        rows = torch.from_numpy(codes)
        block = _score_block(saved, schema, rows, problems, leave_one_out=again, **limits)
        scores = block.score.nan_to_num(-torch.inf, posinf=torch.inf)
        highest = torch.cat([highest, scores]).topk(EXPLAINED_ROWS).values
        yield block


def _score_block(
    saved: SavedModel,
    schema: TableSchema | None,
    rows: Tensor,
    problems: Problems,
    *,
    leave_one_out: bool = False,
    explained_p: float = EXPLAINED_P,
    threshold: float = -math.inf,
) -> ScoredRows:
    """Score rows, and explain the unusual ones of a table if their score reaches a threshold."""
    unreadable = {} if schema is None else _unreadable_rows(saved, rows, problems)
    good = torch.tensor([i for i in range(len(rows)) if i not in unreadable], dtype=torch.long)
    score, p_value, log_density = (torch.full((len(rows),), torch.nan).double() for _ in range(3))
    if not len(good):
        return ScoredRows(score, p_value, log_density, score > 0, {}, unreadable)
    scores = saved.score(rows[good], leave_one_out=leave_one_out)
    explained = torch.zeros(len(rows), dtype=torch.bool)
    explained[good] = scores.p_value <= explained_p
    index = {int(row): i for i, row in enumerate(good.tolist())}
    new_values = {index[i]: len(cells) for i, cells in problems.items() if i in index}
    scores = saved.with_new_values(scores, new_values)
    score[good], p_value[good], log_density[good] = (part.double() for part in scores)
    reasons: dict[int, list[Reason]] = {}
    detector = saved.detector
    if schema is not None and detector is not None and detector.neighbors is not None:
        chosen = (explained & (score >= threshold)).nonzero().flatten()
        chosen = chosen[score[chosen].argsort(descending=True)][:EXPLAINED_ROWS]
        explanations = explain(saved, schema, rows[chosen])
        reasons = dict(zip(chosen.tolist(), explanations, strict=True))
    for i, cells in problems.items():
        if i not in unreadable:
            given = [Reason(column, text, "", 1.0) for column, text in cells]
            reasons[i] = given + reasons.get(i, [])
    return ScoredRows(score, p_value, log_density, score > 0, reasons, unreadable)


def _unreadable_rows(saved: SavedModel, rows: Tensor, problems: Problems) -> dict[int, str]:
    """Return why rows of a table cannot be scored, by row."""
    causes = {i: cells[0][1] for i, cells in problems.items() if cells[0][0] == ROW}
    missing = rows.isnan()
    for i in missing.all(1).nonzero().flatten().tolist():
        if i not in problems:
            causes[i] = "all cells are missing"
    if saved.fills_missing:
        return causes
    for i in missing.any(1).nonzero().flatten().tolist():
        if i not in causes:
            cells = [Reason(column, text, "", 1.0) for column, text in problems.get(i, [])]
            causes[i] = (
                _safe_reasons_text(cells) or "a cell is missing, which this model cannot fill"
            )
    return causes


def _collect(blocks: "Sequence[ScoredRows] | Iterator[ScoredRows]", fdr: float) -> ScoredRows:
    """Join the scores of blocks, and flag rows at the false discovery rate."""
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    reasons: dict[int, list[Reason]] = {}
    problems: dict[int, str] = {}
    done = 0
    for block in blocks:
        parts.append((block.score, block.p_value, block.log_density))
        reasons |= {done + i: row_reasons for i, row_reasons in block.reasons.items()}
        problems |= {done + i: text for i, text in block.problems.items()}
        done += len(block.score)
    if not parts:
        parts = [(torch.empty(0), torch.empty(0), torch.empty(0))]
    score, p_value, log_density = (torch.cat(column) for column in zip(*parts, strict=True))
    flagged = benjamini_hochberg(p_value, fdr)
    return ScoredRows(score, p_value, log_density, flagged, reasons, problems)


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
        return pa.array(seven_digits(x[part].numpy()), pa.float64(), mask=missing)

    rows = range(start, start + count)
    return {
        "score": number(scored.score),
        "p_value": number(scored.p_value),
        "log_density": number(scored.log_density),
        "flagged": pa.array(scored.flagged[part].numpy(), pa.bool_(), mask=missing),
        "reasons": pa.array(
            [_safe_reasons_text(scored.reasons.get(i, [])) for i in rows], pa.string()
        ),
        "problem": pa.array([scored.problems.get(i, "") for i in rows], pa.string()),
    }


def _safe_reasons_text(reasons: Sequence[Reason]) -> str:
    """Return reasons as text. The name of a column is never the beginning of a formula."""
    return reasons_text([r._replace(column=not_a_formula(r.column, "column ")) for r in reasons])


def _edges(saved: SavedModel) -> list[float] | None:
    """Return the bins of scores in `table.json` of a run, or `None` if it has no such file."""
    path = saved.run.folder / "table.json"
    if not path.exists():
        return None
    table = read_json(path, RunError)
    with suppress(LookupError, TypeError, ValueError, OverflowError):
        edges = list(map(float, table["scores"]["edges"]))
        if len(edges) > 1 and all(a < b for a, b in pairwise(edges)):
            return edges
    raise RunError(f"{path} is damaged: it has no increasing edges of scores")


def _record(
    saved: SavedModel, data: Path, scored: ScoredRows, fdr: float, edges: list[float]
) -> dict[str, Json]:
    """Write a summary for the report into the folder of the run. Return a warning if it fails."""
    scores = scored.score[~scored.score.isnan()]
    flagged = scored.score[scored.flagged]
    order = scored.score.nan_to_num(-torch.inf).argsort(descending=True)[:RECORDED_ROWS].tolist()
    top: list[Json] = [
        {
            "row": i + 1,
            "score": float(scored.score[i]),
            "p_value": float(scored.p_value[i]),
            "flagged": bool(scored.flagged[i]),
            "reasons": [
                reason._asdict() | {"expected": json_value(reason.expected)}
                for reason in scored.reasons.get(i, [])
            ],
        }
        for i in order
        if not bool(scored.score[i].isnan())
    ]
    content: Json = {
        "file": data.name,
        "rows": len(scored.score),
        "flagged": int(scored.flagged.sum()),
        "fdr": fdr,
        "score_histogram": {"edges": edges, **histogram(scores.numpy(), edges)},
        "threshold": float(flagged.min()) if len(flagged) else None,
        "top": top,
    }
    folder = saved.run.folder / "scored"
    try:
        folder.mkdir(exist_ok=True)
        with replace_file(folder / f"{data.name}.json") as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:  # the model may be on a read-only disk
        reason = error.strerror or str(error)
        return {"warning": f"fdsm report will not show these scores: {folder}: {reason}"}
    return {}


def _table_source(saved: SavedModel, path: Path, schema: TableSchema) -> Table | Array:
    key = getattr(saved.run.recipe.data, "key", None)
    source = from_path(path, key)
    if not isinstance(source, (Table, Array)):
        raise DataError(f"{path} holds images, but {saved.run.folder} was trained on a table")
    return replace(source, schema=schema)


def _frames(source: Table | Array) -> "Iterator[pa.Table]":
    """Return the blocks of a table with the cells as they are in the file."""
    if isinstance(source, Table):
        assert source.schema is not None
        for frame in iter_frames(resolve_path(source.path), BLOCK, source.schema.names):
            yield frame.original
    else:
        yield source.read_codes()[2]


def _number_rows(count: int) -> "Iterator[pa.Table]":
    for start in range(0, count, BLOCK):
        yield _name_table([str(i + 1) for i in range(start, min(start + BLOCK, count))])


def _name_table(names: Sequence[str]) -> "pa.Table":
    """Return a table with the number or file of each row."""
    with name_missing_extra("writing tables"):
        import pyarrow as pa

    return pa.table({"row": pa.array([not_a_formula(n, "./") for n in names], pa.string())})


def _read_images(saved: SavedModel, path: Path) -> tuple[list[str], Tensor]:
    """Read new images in the same way as the training images of a model.

    Returns:
        A name for each image (its number from 1, or its file), and the images, `(N, *E)`.

    Raises:
        DataError: If the images do not have the shape or scale of the training images.
    """
    config = saved.run.config
    key = getattr(saved.run.recipe.data, "key", None)
    shape, source = tuple(config.get("stored_shape", saved.shape)), from_path(path, key)
    if isinstance(source, (Table, Array)):
        raise DataError(f"{path} is a table, but {saved.run.folder} was trained on images")
    if isinstance(source, ImageFolder) and len(shape) == 3:
        source = replace(source, size=shape[1], channels=shape[0])
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
    names = source.names() if isinstance(source, ImageFolder) else range(1, len(rows) + 1)
    return [str(name) for name in names], rows
