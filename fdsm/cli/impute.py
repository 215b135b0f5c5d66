"""`fdsm impute`: fill the missing cells of a table with a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from .options import Flag, IntOption, ModelFolder, PathOption, UsageError, require_device
from .printing import log, report_files, show

if TYPE_CHECKING:
    from ..tables import TableModel


def impute(
    model: ModelFolder,
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    /,
    *,
    out: PathOption = None,
    draws: IntOption = None,
    seed: int = 0,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Fill the missing cells of a table, each given the other cells of its row.

    Writes your columns. Cells that are present stay as they are. Says for each column how many
    cells were filled, and how well cells of training rows are predicted that the model has not
    seen.

    Args:
        model: Folder of the model, written by `fdsm train`.
        data: The table to fill, with the columns of the training table.
        out: The .csv or .parquet file to write. Default: beside the data, for example
            new.imputed.csv for new.csv.
        draws: Write this many tables with random values, which vary as much as the missing cells
            may: new.imputed.1.csv, new.imputed.2.csv and so on. Default: one table with the most
            likely values.
        seed: Random seed of --draws.
        device: Device, such as cpu, cuda or mps.
        json: Print a summary as JSON.

    Raises:
        UsageError: If the number of draws is not positive.
    """
    if draws is not None and draws < 1:
        raise UsageError(f"--draws must be at least 1, but is {draws}")
    from ..tables import TableModel
    from ..tables.imputing import default_imputed_path, impute_file

    trained = TableModel.load(model, device=require_device(device))
    log(f"Filling the gaps of {data}")
    path = out or default_imputed_path(data)
    files, filled, ragged = impute_file(trained, data, path, draws=draws, seed=seed)
    certainty = {name: round(share, 4) for name, share in trained.certainty().items()}
    used = {column.name for column in trained.schema.used}
    unseen = [name for name in trained.schema.names if name not in used]
    if json:
        report_files(
            files,
            json=True,
            filled=dict(filled),
            certainty=dict(certainty),
            not_filled=list(unseen),
            wrong_rows=ragged,
        )
        return
    for name, count in filled.items():
        if count:
            gaps = "1 gap" if count == 1 else f"{count:,} gaps"
            show(f"{name}: {gaps} filled; {_in_words(trained, name, certainty[name])}")
    if not any(filled.values()):
        show("There are no gaps in the columns that the model uses.")
    if unseen:
        show(f"Not filled, because the model does not use them: {', '.join(unseen)}")
    if ragged:
        rows = "1 row has" if ragged == 1 else f"{ragged:,} rows have"
        show(f"{rows} a wrong number of cells, and no gaps filled.")
    report_files(files, json=False)


def _in_words(model: "TableModel", name: str, share: float) -> str:
    """Return how certain the filled cells of a column are."""
    percent = f"{100 * share:.0f} %" if share < 0.995 else "more than 99 %"
    names = [column.name for column in model.schema.used]
    if model.schema.num_levels[names.index(name)]:
        return f"{percent} of its categories are predicted right"
    return f"{percent} of its variance can be predicted"
