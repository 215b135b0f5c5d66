"""`fdsm sample`: draw samples from a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from .evaluate import warn_of_problems
from .options import DeviceOption, Flag, PathOption, RunFolder, UsageError
from .printing import log, progress, report_files
from .processes import trained_model

if TYPE_CHECKING:
    from torch import Tensor

    from paper.runs import SavedModel


def sample(
    run: RunFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 64,
    out: PathOption = None,
    seed: int = 0,
    device: DeviceOption = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Draw samples from a trained model: a table with the columns of the data, or images.

    Args:
        run: Folder of the run.
        n: Number of samples.
        out: A .csv, .parquet, .feather, .npy or .png file, or a folder. Default: RUN/samples.
        seed: Random seed.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print the files as JSON.

    Raises:
        UsageError: If the number of samples is not positive, or the file to write has the
            training data.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from ..tables.scoring import is_training_file

    def require_other_file() -> None:
        if out is not None and is_training_file(saved, out):
            raise UsageError(f"{out} has the training data of {run}. Choose another --out")

    with trained_model(run, trust=trust, device=device) as (saved, world):
        world.by_leader(require_other_file)
        samples = world.together(lambda: saved.sample(n, progress("Sampling"), seed=seed))
        world.by_leader(lambda: _write(saved, samples, out or run / "samples", json=json))


def _write(saved: "SavedModel", samples: "Tensor", out: Path, *, json: bool) -> None:
    from paper.runs.samples import save_sample_file, save_samples
    from ..tables.scoring import table_schema

    n, schema = len(samples), table_schema(saved)
    if out.suffix and not out.is_dir():
        out.parent.mkdir(parents=True, exist_ok=True)
        files = [save_sample_file(out, samples, saved.max_value, schema)]
    else:
        files = save_samples(out, samples, saved.max_value, schema)
    warn_of_problems(saved.run)
    if json:
        report_files(files, json=True, samples=n, shape=list(samples.shape))
        return
    shape = " × ".join(map(str, samples.shape[1:]))
    event = f"shape {shape}" if schema is None else f"{len(schema.columns):,} columns"
    log(f"Wrote {', '.join(map(str, files))}: {n:,} samples of {event}.")
