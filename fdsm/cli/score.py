"""`fdsm score`: score the rows of a table with a trained model."""

import math
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Flag, ModelFolder, PathOption, UsageError, require_device
from .printing import log, repeat_problems, report_files


def score(
    model: ModelFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    fdr: float = 0.1,
    only_scores: Flag = False,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Score every row of a table: how unusual it is, and why.

    Writes your columns, followed by score (sort by it; 3 means as unusual as 1 row in 1,000),
    p_value (calibrated on rows that the model has not seen), log_density, flagged (worth a look at
    the false discovery rate of --fdr), reasons (the columns that make the row unusual and the
    values expected there) and problem (why a row was not scored).

    Args:
        model: Folder of the model, written by `fdsm train`.
        data: The table to score, with the columns of the training table.
        out: The .csv or .parquet file to write. Default: beside the data, for example
            new.scores.csv for new.csv.
        fdr: False discovery rate: the largest expected share of normal rows among flagged ones.
        only_scores: Leave out your columns; write the number of each row instead.
        device: Device, such as cpu, cuda or mps.
        json: Print a summary as JSON.

    Raises:
        UsageError: If the false discovery rate is not between 0 and 1.
    """
    if not 0 < fdr < 1:
        raise UsageError(f"--fdr must be between 0 and 1, but is {fdr}")
    import numpy as np

    from ..tables import TableModel
    from ..tables.scoring import default_scores_path, score_file

    path = out or default_scores_path(data)
    trained = TableModel.load(model, device=require_device(device))
    repeat_problems(model)
    log(f"Scoring {data}")
    scored = score_file(trained, data, path, fdr=fdr, only_scores=only_scores)
    rows, flagged = len(scored.score), int(scored.flagged.sum())
    not_scored = int(np.isnan(scored.score).sum())
    smallest = float(f"{trained.smallest_p_value:.2g}")
    if json:
        report_files(
            [path],
            json=True,
            rows=rows,
            flagged=flagged,
            false_discovery_rate=fdr,
            not_scored=not_scored,
            smallest_possible_p_value=smallest,
        )
        return
    skipped = f" {not_scored:,} not scored." if not_scored else ""
    log(
        f"Wrote {path}: {rows:,} rows, {flagged:,} flagged at a false discovery rate of "
        f"{100 * fdr:g} %.{skipped} Sort by the column score."
    )
    if not flagged:
        needed = max(1, math.ceil(rows * smallest / fdr))
        log(
            f"No row is flagged. The smallest possible p-value is {smallest:g}, set by the number "
            f"of training rows. So rows of this file can be flagged only if at least {needed:,} "
            "of them are that unusual. The score has no such limit."
        )
