"""Tables with known rows, and a model whose log-density is known."""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from fdsm.tables import TableModel, choose_objective
from fdsm.tables.conditionals import CellView, Conditionals
from fdsm.tables.encoder import EncodeColumns, Encoder
from fdsm.tables.ensemble import Ensemble, fold_of_rows
from fdsm.tables.frame import read_table
from fdsm.tables.heavy_tails import NormalizeTails
from fdsm.tables.imputation import Imputation, fill_within_folds
from fdsm.tables.outliers import OutlierDetector
from fdsm.tables.outliers.detector import LogDensities
from fdsm.tables.relations import Relations
from fdsm.tables.schema import TableSchema, training_rows
from fdsm.tables.summary import FileRecord, Training

MIXED_HEADER = "id,day,kind,unit,a,b,c"


def mixed_row(i: int, a: float, b: float) -> list[str]:
    """Return the cells of a row: `c` is about `a`, and `kind` says whether `a` is positive."""
    kind = "up" if a > 0.4 else "down" if a < -0.4 else "flat"
    day = f"2024-{1 + i % 9:02d}-{10 + i % 19}"
    return [f"k{i:04d}", day, kind, "kg", f"{a:.4f}", f"{b:.4f}", f"{a + 0.05 * b:.4f}"]


def mixed_rows(rows: int, seed: int) -> list[list[str]]:
    """Return rows with random `a` and `b`."""
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed)).tolist()
    return [mixed_row(i, a, b) for i, (a, b) in enumerate(x)]


def write_rows(path: Path, rows: Iterable[list[str]]) -> Path:
    """Write rows with the columns of `mixed_row`."""
    path.write_text("\n".join([MIXED_HEADER, *map(",".join, rows)]) + "\n", encoding="utf-8")
    return path


def write_mixed_table(path: Path, rows: int = 200, seed: int = 0) -> Path:
    """Write a table with an identifier, dates, categories, a constant, numbers and gaps."""
    cells = mixed_rows(rows, seed)
    for i in range(0, rows, 9):
        cells[i][5] = ""
    return write_rows(path, cells)


def write_table(path: Path, rows: int = 100, seed: int = 0) -> Path:
    """Write a table of normal numbers with the columns a and b."""
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed))
    path.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in x.tolist()), encoding="utf-8")
    return path


def plain_view(columns: int) -> CellView:
    """Return the view of rows of numbers that are inputs as they are."""
    zero = torch.zeros(columns).double()
    tails = NormalizeTails.fit(zero[None][:0])
    return CellView(Encoder(EncodeColumns((0,) * columns, zero, zero + 1), tails), ())


def fit_detector(log_densities: LogDensities, rows: Tensor, folds: Tensor) -> OutlierDetector:
    """Return the detector of rows of numbers, without relations."""
    view = plain_view(rows.shape[1])
    conditionals = Conditionals.fit(view, fill_within_folds(rows, folds).rows, folds)
    return OutlierDetector.fit(log_densities, conditionals, rows, folds, rows)


class StandardNormal(nn.Module):
    """Members that all have the log-density of N(0, I), up to a constant, at all noise levels."""

    members = 4

    def __init__(self) -> None:
        super().__init__()
        self.precision = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        return -self.precision * x.square().sum(-1) / 2


def normal_model(path: Path) -> TableModel:
    """Return a model with the log-density -‖x‖²/2 of a file with two numeric columns.

    It is calibrated on the rows of the file.
    """
    file = read_table(path)
    schema = TableSchema.infer(file.table)
    rows = torch.from_numpy(training_rows(file.table, schema).codes)
    ensemble = Ensemble(StandardNormal(), choose_objective())  # type: ignore[arg-type]
    folds = fold_of_rows(len(rows))
    return TableModel(
        schema,
        plain_view(2).encoder,
        Imputation.fit(rows),
        ensemble,
        fit_detector(ensemble.member_log_densities, rows, folds),
        Relations((), (0.0, 0.0)),
        None,
        FileRecord(file.name, len(rows), sha256=file.sha256),
        Training(1, 1.0, ((1, 0.5),), 0, "none", 1, "", "", ""),
    )
