"""`fdsm sample`: draw samples from a trained model."""

from typing import Annotated

from tyro.conf import arg

from .options import Flag, ModelFolder, PathOption, UsageError, require_device
from .printing import log, progress, report_files


def sample(
    model: ModelFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 1000,
    out: PathOption = None,
    seed: int = 0,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Draw samples from a trained model: a table with the columns of the training table.

    Args:
        model: Folder of the model, written by `fdsm train`.
        n: Number of samples.
        out: The .csv, .parquet or .feather file to write. Default: beside the model, for example
            runs/measurements.samples.csv for runs/measurements.
        seed: Random seed.
        device: Device, such as cpu, cuda or mps.
        json: Print the file as JSON.

    Raises:
        UsageError: If the number of samples is not positive, or the file to write has the
            training table.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from ..atomic_io import create_folder, replace_file
    from ..tables import TableModel
    from ..tables.frame import write_frames
    from ..tables.scoring import is_training_file

    trained = TableModel.load(model, device=require_device(device))
    path = out or model.with_name(f"{model.name}.samples.csv")
    if is_training_file(trained, path):
        raise UsageError(f"{path} has the training table of {model}. Choose another --out")
    table = trained.sample(n, seed=seed, progress=progress("Sampling"))
    create_folder(path.parent)
    with replace_file(path) as draft:
        write_frames(draft, path.suffix, [table])
    if json:
        report_files([path], json=True, samples=n, columns=table.column_names)
    else:
        log(f"Wrote {path}: {n:,} samples of {table.num_columns:,} columns.")
