"""`fdsm score`: score the rows of a table with a trained model."""

import math
import sys
from io import BufferedReader
from pathlib import Path
from typing import Annotated, cast

from tyro.conf import Positional, arg

from .options import (
    Flag,
    FloatOption,
    IntOption,
    ModelFolder,
    PathOption,
    UsageError,
    require_device,
)
from .printing import log, progress, report_files

STREAM_ALPHA = 0.01
"""Rows that arrive one after another are flagged up to this p-value, by default."""


def score(
    model: ModelFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    fdr: FloatOption = None,
    alpha: FloatOption = None,
    top: IntOption = None,
    only_scores: Flag = False,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Score every row of a table: how unusual it is, and why.

    Writes your columns, followed by score (sort by it; 3 means as unusual as 1 row in 1,000),
    p_value (calibrated on rows that the model has not seen), log_density (normalized or up to a
    constant, as `fdsm train` says), flagged (worth a look, by --fdr, --alpha or --top), reasons
    (the columns that make the row unusual and the values expected there) and problem (why a row
    was not scored).

    Args:
        model: Folder of the model, written by `fdsm train`.
        data: The table to score, with the columns of the training table. With -, csv or JSON lines
            are read from standard input and scored as they arrive.
        out: The .csv or .parquet file to write. Default: beside the data, for example
            new.scores.csv for new.csv. With -: standard output, in the format of the input.
        fdr: False discovery rate: the largest expected share of normal rows among flagged ones.
            Default: 0.1.
        alpha: Flag the rows with at most this p-value instead: this share of all normal rows.
            Default with -: 0.01.
        top: Flag this many rows with the highest scores instead.
        only_scores: Leave out your columns; write the number of each row instead.
        device: Device, such as cpu, cuda or mps.
        json: Print a summary as JSON.

    Raises:
        UsageError: If the options contradict each other or are out of range.
    """
    is_stream = str(data) == "-"
    if is_stream:
        _require_streamable({"--fdr": fdr, "--top": top}, prints_json=json and out is None)
        alpha = STREAM_ALPHA if alpha is None else alpha
    rule = _flagging_rule(fdr, alpha, top)
    fdr = 0.1 if fdr is None else fdr
    from ..tables import TableModel
    from ..tables.scoring import default_scores_path, score_file
    from ..tables.stream import score_arriving

    trained = TableModel.load(model, device=require_device(device))
    if is_stream and alpha is not None:
        log("Scoring standard input")
        path = out or Path("standard output")
        rows, flagged, not_scored = score_arriving(
            trained,
            cast(BufferedReader, sys.stdin.buffer),
            out or sys.stdout.buffer,
            alpha=alpha,
            only_scores=only_scores,
        )
    else:
        path = out or default_scores_path(data)
        rows, flagged, not_scored = score_file(
            trained,
            data,
            path,
            fdr=fdr,
            alpha=alpha,
            top=top,
            only_scores=only_scores,
            progress=progress(f"Scoring {data}"),
        ).counts()
    smallest = float(f"{trained.smallest_p_value:.2g}")
    if json:
        report_files(
            [path],
            json=True,
            rows=rows,
            flagged=flagged,
            false_discovery_rate=fdr if alpha is None and top is None else None,
            not_scored=not_scored,
            smallest_possible_p_value=smallest,
        )
        return
    skipped = f" {not_scored:,} not scored." if not_scored else ""
    counted = "1 row" if rows == 1 else f"{rows:,} rows"
    log(f"Wrote {path}: {counted}, {flagged:,} flagged {rule}.{skipped} Sort by the column score.")
    if not flagged and alpha is None and top is None:
        needed = max(1, math.ceil(rows * smallest / fdr))
        log(
            f"No row is flagged. The smallest possible p-value is {smallest:g}, set by the number "
            f"of training rows. {'A row' if needed == 1 else f'At least {needed:,} rows'} of this "
            "file must be that unusual. The order of the scores has no such limit."
        )


def _require_streamable(rules: dict[str, float | None], *, prints_json: bool) -> None:
    """Raise `UsageError` if rows cannot be scored as they arrive."""
    for name, value in rules.items():
        if value is not None:
            raise UsageError(
                f"{name} needs all rows, but rows of standard input are scored as they arrive. "
                "Use --alpha, or score a file"
            )
    if prints_json:
        raise UsageError("standard output has the scored rows. To use --json, give --out")


def _flagging_rule(fdr: float | None, alpha: float | None, top: int | None) -> str:
    """Return how rows are flagged, in words, or raise `UsageError`."""
    given = {"--fdr": fdr, "--alpha": alpha, "--top": top}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} are different rules to flag rows. Give one")
    for name in ("--fdr", "--alpha"):
        value = given[name]
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{name} must be between 0 and 1, but is {value}")
    if top is not None:
        if top < 1:
            raise UsageError(f"--top must be at least 1, but is {top}")
        return "with the highest scores"
    if alpha is not None:
        return f"with a p-value of at most {alpha:g}"
    return f"at a false discovery rate of {100 * (0.1 if fdr is None else fdr):g} %"
