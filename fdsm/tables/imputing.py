"""Gaps of a table filled from the distribution of each cell given the other cells of its row."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ..atomic_io import create_folder, replace_file, require_writable
from ..training import derived_seed
from .conditionals import Conditionals
from .errors import DataError, problems_of
from .frame import (
    JSON_SUFFIXES,
    TEXT_SUFFIXES,
    Frame,
    as_text,
    cast_text,
    table_suffix,
    uncastable,
    write_frames,
)
from .frame.writing import WRITTEN_SUFFIXES
from .gibbs import redraw
from .relations import Relations
from .relations.kinds import Lookup
from .schema import Categorical, TableSchema
from .schema.encoding import match_names
from .schema.inference import is_text
from .scoring import is_training_file, table_frames

if TYPE_CHECKING:
    from .model import TableModel

SWEEPS = 5
"""How often each gap is filled, given the gaps that were filled before it."""
MARK = ".imputed"
"""What the name of a file has that may be replaced."""


class FilledBlock(NamedTuple):
    """Rows of a table without gaps.

    Attributes:
        table: The rows, with the columns and types of the input.
        filled: Number of cells that were filled, by column.
        ragged: Number of rows with a wrong number of cells. They stay as they are.
    """

    table: pa.Table
    filled: dict[str, int]
    ragged: int


class FilledFiles(NamedTuple):
    """Files without gaps.

    Attributes:
        paths: The files.
        filled: Number of cells that were filled in each of them, by column.
        ragged: Number of rows with a wrong number of cells. They stay as they are.
    """

    paths: list[Path]
    filled: dict[str, int]
    ragged: int


def fill_frames(
    model: "TableModel", frames: Iterable[Frame], generator: Generator | None = None
) -> Iterator[FilledBlock]:
    """Fill the gaps of the blocks of a table. See `TableModel.impute`.

    Cells with unknown categories or unreadable numbers are no gaps. They stay, and so do rows with
    a wrong number of cells.

    Args:
        model: The model.
        frames: The blocks.
        generator: Random numbers for a draw. Default: the most likely values.

    Yields:
        The rows of each block.

    Raises:
        DataError: If there is no block, or columns are missing.
    """
    frame = None
    columns = [column.name for column in model.schema.used]
    for frame in frames:
        codes, problems = model.schema.encode(frame.table)
        is_gap = np.isnan(codes)
        for row, cells in problems.items():
            for j in (columns.index(name) for name, _ in cells if name in columns):
                is_gap[row, j] = False
        is_gap[list(frame.ragged)] = False
        filled = fill_gaps(model, torch.from_numpy(codes), generator).numpy()
        table = with_filled_cells(frame.original, model.schema, filled, is_gap)
        counts = dict(zip(columns, is_gap.sum(0).tolist(), strict=True))
        yield FilledBlock(table, counts, len(frame.ragged))
    if frame is None:
        raise DataError("there are no rows")


def imputation_generators(
    model: "TableModel", draws: int | None, seed: int
) -> Sequence[Generator | None]:
    """Return the random numbers of each draw, or `None` for the most likely values.

    Raises:
        ValueError: If the number of draws is not positive.
    """
    if draws is None:
        return [None]
    if draws < 1:
        raise ValueError(f"draws must be at least 1, but is {draws}")
    own = derived_seed(model.training.seed, seed)
    return [Generator().manual_seed(derived_seed(own, f"impute {i}")) for i in range(draws)]


def impute_file(
    model: "TableModel", path: Path, out: Path, *, draws: int | None = None, seed: int = 0
) -> FilledFiles:
    """Fill the gaps of a file, and write its rows without gaps. The file is read in blocks.

    Args:
        model: The model.
        path: A file with the columns of the training table.
        out: The `.csv` or `.parquet` file to write. An existing file is only replaced if its name
            has `.imputed`.
        draws: Number of files with draws. They are called `out.1.csv`, `out.2.csv`, and so on for
            `out.csv`. Default: one file with the most likely values.
        seed: Random seed of draws.

    Returns:
        The files, and what was filled.

    Raises:
        DataError: If the file is not a table, lacks columns, or has no rows.
        OSError: If a file to write exists, or cannot be written.
        ValueError: If the format is not supported, or the number of draws is not positive.
    """
    generators = imputation_generators(model, draws, seed)
    outs = [out] if draws is None else [_numbered(out, i + 1) for i in range(draws)]
    for each in outs:
        _require_replaceable(model, each, path)
    names = model.schema.names
    is_typed = out.suffix == ".parquet" and table_suffix(path) in TEXT_SUFFIXES | JSON_SUFFIXES
    kept_as_text: set[str] = set()
    filled, ragged = Counter[str](), 0

    def tables(generator: Generator | None) -> Iterator[pa.Table]:
        nonlocal ragged
        filled.clear()
        ragged = 0
        for block in fill_frames(model, table_frames(path, names), generator):
            filled.update(block.filled)
            ragged += block.ragged
            table = block.table
            yield cast_text(table, model.schema, kept_as_text) if is_typed else table

    with problems_of(path):
        if is_typed:
            for frame in table_frames(path, names):
                kept_as_text |= uncastable(frame.original, model.schema)
        for each, generator in zip(outs, generators, strict=True):
            create_folder(each.parent)
            with replace_file(each) as draft:
                write_frames(draft, each.suffix, tables(generator), MARK)
    return FilledFiles(outs, dict(filled), ragged)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number}{path.suffix}")


def _require_replaceable(model: "TableModel", path: Path, data: Path) -> None:
    """Raise an error if a file has another format, or must not be replaced."""
    if path.suffix not in WRITTEN_SUFFIXES:
        allowed = " or ".join(WRITTEN_SUFFIXES)
        raise ValueError(f"tables can be written as {allowed}, not {path.suffix!r}")
    if path.exists() and data.exists() and path.samefile(data):
        raise FileExistsError(f"{path} is the file with the gaps. Choose another file")
    if is_training_file(model, path):
        raise FileExistsError(f"{path} has the training table of the model. Choose another file")
    if path.is_dir() or (path.exists() and MARK not in path.stem):
        raise FileExistsError(f"{path} exists. Choose another file, or delete it first")
    require_writable(path)


def default_imputed_path(data: Path) -> Path:
    """Return the default file for a data file without gaps, in the same folder.

    Example:
        >>> str(default_imputed_path(Path("new.csv"))), str(default_imputed_path(Path("a.npy")))
        ('new.imputed.csv', 'a.npy.imputed.csv')
    """
    if data.suffix in WRITTEN_SUFFIXES:
        return data.with_name(f"{data.stem}{MARK}{data.suffix}")
    return data.with_name(f"{data.name}{MARK}.csv")


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
        filled = _most_likely(model, x, gaps)
    else:
        allowed = model.real_categories()
        x = redraw(forests, x, gaps, sweeps=SWEEPS, generator=generator, allowed=allowed)
        filled = model.encoder.inverse(x.cpu())
    # Rounded as they are written, so that relations hold between the written cells.
    filled = written(model.schema, model.rounded(filled))
    filled = torch.where(gaps, filled, codes[incomplete])
    result = codes.clone()
    result[incomplete] = restore_relations(model.relations, model.schema, filled, gaps)
    return result


def solve_gaps(relations: Relations, codes: Tensor) -> Tensor:
    """Return codes with the gaps filled that relations and the other cells determine.

    Args:
        relations: The relations of the table.
        codes: Codes, shape `(N, C)`. NaN in missing cells.

    Returns:
        The codes, shape `(N, C)`.
    """
    codes = codes.clone()
    for _ in range(2):  # a cell that is filled can give another one
        for relation in relations.relations:
            # Several keys of a rule can have the same value, so it gives its target only.
            first = -1 if isinstance(relation, Lookup) else 0
            for column in relation.columns[first:]:
                cells = relation.solve(codes, column)
                if cells is not None:
                    codes[:, column] = codes[:, column].where(~codes[:, column].isnan(), cells)
    return codes


def restore_relations(
    relations: Relations, schema: TableSchema, codes: Tensor, is_gap: Tensor
) -> Tensor:
    """Return codes in which filled gaps are changed so that the relations hold.

    Args:
        relations: The relations of the table.
        schema: Types of the columns.
        codes: Codes without gaps, shape `(N, C)`.
        is_gap: The cells that may be changed, shape `(N, C)`.

    Returns:
        The codes, shape `(N, C)`. A relation is still broken where no change of a gap repairs it.
    """
    codes = codes.clone()
    for relation in relations.relations:
        for column in reversed(relation.columns):  # the target first
            is_wrong = is_gap[:, column] & (relation.holds(codes) == 0)
            rows = is_wrong.nonzero().flatten()
            changed = codes[rows]
            cells = relation.solve(changed, column)
            if cells is not None and len(rows):
                changed[:, column] = cells
                changed[:, column] = written(schema, changed)[:, column]
                is_right = relation.holds(changed) == 1
                codes[rows[is_right]] = changed[is_right]
    return codes


def written(schema: TableSchema, codes: Tensor) -> Tensor:
    """Return codes as they are after they are written and read again, shape `(N, C)`."""
    return torch.from_numpy(schema.encode(schema.decode(codes.numpy()))[0])


def _most_likely(model: "TableModel", x: Tensor, gaps: Tensor) -> Tensor:
    """Return the codes of the most likely cells given the others, shape `(N, D) -> (N, C)`."""
    forests: Conditionals = model.detector.conditionals
    codes = forests.view.encoder.inverse(forests.rows.cpu()).to(x.device)
    result = forests.view.encoder.inverse(x.cpu())
    for sweep in range(SWEEPS):
        if sweep == 1:
            gaps = gaps & (gaps.sum(1, keepdim=True) > 1)
        for j in gaps.any(0).nonzero().flatten().tolist():
            rows, column = gaps[:, j].nonzero().flatten(), model.schema.used[j]
            donors = forests.donor_rows(x[rows.to(x.device)], j)
            cells = forests.cells[donors, j]
            if isinstance(column, Categorical):
                levels = range(len(column.levels) - (column.merged > 0))
                likely = torch.stack([(cells == level).sum(1) for level in levels]).argmax(0)
                result[rows, j] = likely.to(result)
            else:
                likely = cells.mean(1)
                result[rows, j] = codes[donors, j].mean(1).to(result)
            x[rows.to(x.device)] = forests.view.with_cells(x[rows.to(x.device)], j, likely)
    return result


def with_filled_cells(
    table: pa.Table,
    schema: TableSchema,
    codes: npt.NDArray[np.float64],
    is_gap: npt.NDArray[np.bool_],
) -> pa.Table:
    """Return a table with cells in place of its gaps. All other cells stay as they are.

    Args:
        table: The table, with columns of any type.
        schema: Types of the columns.
        codes: Codes without gaps, shape `(N, C)`.
        is_gap: The cells that are filled, shape `(N, C)`.

    Returns:
        The table. Columns keep their type, unless it is null.
    """
    filled, names = schema.decode(codes), match_names(schema.columns, table.column_names)
    for j, column in enumerate(schema.used):
        name = names[column.name]
        i = table.column_names.index(name)
        cells, new = table.column(i), filled.column(column.name)
        if not is_gap[:, j].any():
            continue
        if is_text(cells.type):
            new = as_text(column, new)
        if pa.types.is_integer(cells.type) and pa.types.is_floating(new.type):
            new = pc.round(new)
        kind = new.type if pa.types.is_null(cells.type) else cells.type
        mask = pa.array(is_gap[:, j])
        merged = pc.if_else(mask, new.cast(kind, safe=False), cells.cast(kind))
        table = table.set_column(i, table.schema.field(i).with_type(kind), merged)
    return table
