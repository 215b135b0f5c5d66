"""Commands that use a trained model: samples, scores of other data, a check of its derivatives."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Device, Flag, Place, RunFolder, UsageError
from .printing import console, print_json, progress, wrote
from .runs import open_model


def sample(
    run: RunFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 64,
    out: Place = None,
    seed: int = 0,
    device: Device = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Draw samples from a trained model: arrays, and a picture if they are images.

    Args:
        run: The folder of the run.
        n: How many.
        out: The folder for samples.npy and samples.png; RUN/samples by default.
        seed: Decides which.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print the files as JSON.

    Raises:
        UsageError: If that does not make sense.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from ..runs.samples import save_samples

    trained = open_model(run, trust=trust, device=device)
    samples = trained.sample(n, progress("sampling"), seed=seed)
    files = save_samples(out or run / "samples", samples, trained.largest)
    wrote(files, json=json, samples=n, shape=list(samples.shape))


def score(
    run: RunFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: Place = None,
    device: Device = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Write the log-density and the typicality of every row of some data.

    The columns are: the row (or the name of the image); its log-density; its typicality, the
    distance of that from the mean over the training data; and its tail, the fraction of held-out
    data that is no more typical. Outliers have a tail near zero.

    Args:
        run: The folder of the run.
        data: A folder or zip of images, .npy, .npz, .csv or .parquet, as in training.
        out: The file to write; RUN/scores.csv by default.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print a summary as JSON.
    """
    from ..runs.saved_model import score as score_rows
    from ..runs.score import read_rows, write_scores

    trained = open_model(run, trust=trust, device=device)
    names, rows = read_rows(trained, data)
    scores = score_rows(trained, rows)
    path = out or run / "scores.csv"
    write_scores(path, names, scores)
    outliers = int((scores.tail < 0.01).sum())
    middle = float(f"{float(scores.log_density.median()):.6g}")
    wrote(
        [path],
        json=json,
        rows=len(rows),
        median_log_density=middle,
        tail_below_1_percent=outliers,
    )


def check(
    run: RunFolder, /, *, device: Device = None, trust: Flag = False, json: Flag = False
) -> None:
    """Compare the finite differences of a trained model with exact derivatives.

    Args:
        run: The folder of the run.
        device: Where to compute, if not where it was trained.
        trust: Allow to execute the file that the recipe is in.
        json: Print JSON.
    """
    from ..runs.check import check as check_run
    from ..serialize import to_json

    checked = check_run(open_model(run, trust=trust, device=device))
    if json:
        print_json(to_json(checked))
        return
    console(stderr=False).print(str(checked), highlight=False)
