"""Gaps of a table filled from the distribution of each cell given the other cells of its row."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from .conditionals import Conditionals
from .gibbs import redraw
from .relations import Relations

if TYPE_CHECKING:
    from .model import TableModel

SWEEPS = 5
"""How often each gap is filled, given the gaps that were filled before it."""


def fill_gaps(model: "TableModel", codes: Tensor, generator: Generator | None = None) -> Tensor:
    """Return the codes of rows with their gaps filled.

    Args:
        model: The model.
        codes: Codes, shape `(N, C)`. NaN in missing cells.
        generator: Random numbers for a draw. Default: the most likely values, which are the mean
            of numbers and the most frequent category of similar rows.

    Returns:
        The codes, shape `(N, C)`. Cells that relations give are exact.
    """
    codes = solve_gaps(model.relations, codes)
    is_missing = codes.isnan()
    incomplete = is_missing.any(1)
    if not bool(incomplete.any()):
        return codes
    forests, gaps = model.detector.conditionals, is_missing[incomplete]
    x = model.imputation.nearest(model.inputs(codes[incomplete]))
    if generator is None:
        filled = _most_likely(forests, x, gaps)
    else:
        allowed = model.real_categories()
        x = redraw(forests, x, gaps, sweeps=SWEEPS, generator=generator, allowed=allowed)
        filled = model.encoder.inverse(x.cpu())
    result = codes.clone()
    result[incomplete] = torch.where(gaps, filled, codes[incomplete])
    return solve_gaps(model.relations, torch.where(is_missing, result, codes), is_missing)


def solve_gaps(relations: Relations, codes: Tensor, is_gap: Tensor | None = None) -> Tensor:
    """Return codes with the gaps that relations give filled.

    Args:
        relations: The relations of the table.
        codes: Codes, shape `(N, C)`. NaN in missing cells.
        is_gap: The cells that may be changed, shape `(N, C)`. Default: the missing ones.
    """
    codes = codes.clone()
    is_gap = codes.isnan() if is_gap is None else is_gap
    for relation in relations.relations:
        column = relation.target.column
        expected = relation.expected(codes)
        where = is_gap[:, column] & ~expected.isnan()
        codes[where, column] = expected[where]
    return codes


def _most_likely(forests: Conditionals, x: Tensor, gaps: Tensor) -> Tensor:
    """Return the codes of the most likely cells given the others, shape `(N, D) -> (N, C)`."""
    codes = forests.view.encoder.inverse(forests.rows.cpu()).to(x.device)
    result = forests.view.encoder.inverse(x.cpu())
    for _ in range(SWEEPS):
        for j in gaps.any(0).nonzero().flatten().tolist():
            rows = gaps[:, j].nonzero().flatten()
            donors = forests.donor_rows(x[rows.to(x.device)], j)
            cells = forests.cells[donors, j]
            if forests.view.encoder.columns.num_levels[j]:
                likely = cells.mode(1).values
                result[rows, j] = likely.cpu()
            else:
                likely = cells.mean(1)
                result[rows, j] = codes[donors, j].mean(1).cpu()
            x[rows.to(x.device)] = forests.view.with_cells(x[rows.to(x.device)], j, likely)
    return result


def with_filled_cells(table: pa.Table, filled: pa.Table) -> pa.Table:
    """Return a table whose missing cells are those of another table with the same rows."""
    columns = []
    for name, cells in zip(table.column_names, table.columns, strict=True):
        if name in filled.column_names and cells.null_count:
            cells = pc.coalesce(cells, filled.column(name).cast(cells.type, safe=False))
        columns.append(cells)
    return pa.table(dict(zip(table.column_names, columns, strict=True)))
