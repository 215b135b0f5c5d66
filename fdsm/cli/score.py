"""`fdsm score`: score new data with a trained model."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import DeviceOption, Flag, PathOption, RunFolder, open_run
from .printing import report_files, warn_of_problems


def score(
    run: RunFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    device: DeviceOption = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Score every row of a data file: log-density, typicality and p-value.

    Writes one line per row (numbered from 1) or image. log_density is relative to other rows
    unless the model is normalised. typicality is the distance of the log-density from its mean
    over the training data. p_value is the fraction of held-out rows that are at least as atypical:
    sort by it, outliers are near zero.

    Args:
        run: Folder of the run.
        data: The data to score, with the columns or images of the training data.
        out: The file to write. Default: beside the data, for example new.scores.csv for new.csv.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print a summary as JSON.
    """
    from ..runs import SavedModel
    from ..runs.score import default_scores_path, score_file

    saved = SavedModel.load(open_run(run, trust=trust, device=device))
    warn_of_problems(saved.run)
    path = out or default_scores_path(data)
    summary = score_file(saved, data, path)
    report_files([path], json=json, **summary)
