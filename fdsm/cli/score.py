"""`fdsm score`: score new data with a trained model."""

import math
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from .evaluate import warn_of_problems
from .options import DeviceOption, Flag, PathOption, RunFolder, UsageError
from .printing import log, report_files
from .processes import trained_model


def score(
    run: RunFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    fdr: float = 0.1,
    only_scores: Flag = False,
    device: DeviceOption = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Score every row of a data file: how unusual it is, and why.

    Writes your columns, followed by score (sort by it; 3 means as unusual as 1 row in 1,000),
    p_value (calibrated on rows that the model has not seen), log_density, flagged (worth a look at
    the false discovery rate of --fdr), reasons (the columns that make the row unusual and the
    values expected there) and problem (why a row was not scored).

    Args:
        run: Folder of the run.
        data: The data to score, with the columns or images of the training data.
        out: The .csv or .parquet file to write. Default: beside the data, for example
            new.scores.csv for new.csv.
        fdr: False discovery rate: the largest expected share of normal rows among flagged ones.
        only_scores: Leave out your columns; write the number of each row instead.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print a summary as JSON.

    Raises:
        UsageError: If the false discovery rate is not between 0 and 1.
    """
    if not 0 < fdr < 1:
        raise UsageError(f"--fdr must be between 0 and 1, but is {fdr}")
    from ..tables.frame.writing import require_replaceable
    from ..tables.scoring import SCORES_COLUMNS, SCORES_MARK, default_scores_path, score_file

    path = out or default_scores_path(data)
    with trained_model(run, trust=trust, device=device) as (saved, world):
        world.by_leader(lambda: require_replaceable(path, SCORES_MARK, SCORES_COLUMNS, data))
        own = path if world.is_leader else saved.run.folder / path.name
        summary: dict[str, Any] = world.together(
            lambda: score_file(saved, data, own, fdr=fdr, only_scores=only_scores)
        )
        if world.is_leader:
            warn_of_problems(saved.run)
            _print_summary(path, summary, fdr, json=json)


def _print_summary(path: Path, summary: dict[str, Any], fdr: float, *, json: bool) -> None:
    if warning := summary.get("warning"):
        log(f"WARNING: {warning}")
    if json:
        report_files([path], json=True, **summary)
        return
    skipped = f" {summary['not_scored']:,} not scored." if summary["not_scored"] else ""
    log(
        f"Wrote {path}: {summary['rows']:,} rows, {summary['flagged']:,} flagged at a false "
        f"discovery rate of {100 * fdr:g} %.{skipped} Sort by the column score."
    )
    if not summary["flagged"]:
        smallest = summary["smallest_possible_p_value"]
        needed = max(1, math.ceil(summary["rows"] * smallest / fdr))
        log(
            f"No row is flagged. The smallest possible p-value is {smallest:g}, set by the number "
            f"of training rows. So rows of this file can be flagged only if at least {needed:,} "
            "of them are that unusual. The score has no such limit."
        )
