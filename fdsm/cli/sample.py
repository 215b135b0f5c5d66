"""`fdsm sample`: draw samples from a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from .options import Flag, ModelFolder, PathOption, UsageError, require_device
from .printing import log, progress, repeat_problems, report_files

if TYPE_CHECKING:
    import pyarrow as pa

    from ..tables.schema import TableSchema

SUFFIXES = (".csv", ".parquet", ".feather")
Conditions = Annotated[
    UseAppendAction[tuple[str, ...]], arg(metavar="CONDITION", help_behavior_hint="")
]


def sample(
    model: ModelFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 1000,
    given: Conditions = (),
    out: PathOption = None,
    seed: int = 0,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Draw samples from a trained model: a table with the columns of the training table.

    Args:
        model: Folder of the model, written by `fdsm train`.
        n: Number of samples.
        given: A condition that all samples satisfy: NAME=VALUE, or an interval of numbers or dates
            with >, >=, < or <=, in quotes: --given weather=snow --given 'wind>10'.
        out: The .csv, .parquet or .feather file to write. Default: beside the model, for example
            runs/measurements.samples.csv for runs/measurements.
        seed: Random seed.
        device: Device, such as cpu, cuda or mps.
        json: Print the file as JSON.

    Raises:
        UsageError: If the number of samples is not positive, or the file to write has another
            format or the training table.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from ..atomic_io import create_folder, replace_file, require_writable
    from ..tables import TableModel
    from ..tables.scoring import is_training_file

    named = model if model.name.strip(".") else model.resolve()
    path = out or named.with_name(f"{named.name}.samples.csv")
    if path.suffix not in SUFFIXES:
        allowed = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(f"samples can be written as {allowed}, not {path.suffix!r}")
    require_writable(path)
    trained = TableModel.load(model, device=require_device(device))
    if is_training_file(trained, path):
        raise UsageError(f"{path} has the training table of {model}. Choose another --out")
    repeat_problems(model)
    table = trained.sample(n, given=given, seed=seed, progress=progress("Sampling"))
    create_folder(path.parent)
    with replace_file(path) as draft:
        _write(draft, path.suffix, table, trained.schema)
    if json:
        report_files([path], json=True, samples=n, columns=table.column_names)
    else:
        log(f"Wrote {path}: {n:,} samples of {table.num_columns:,} columns.")


def _write(path: Path, suffix: str, table: "pa.Table", schema: "TableSchema") -> None:
    """Write a table in the format of a suffix."""
    import pyarrow as pa
    from pyarrow import feather

    from ..tables.frame import as_text, write_frames

    if suffix == ".feather":
        feather.write_feather(table, path)
        return
    if suffix == ".csv":
        cells = {
            column.name: as_text(column, table.column(column.name)) for column in schema.columns
        }
        table = pa.table(cells)
    write_frames(path, suffix, [table])
