"""Why rows of a table are unusual, in the user's values."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from .outliers import Reason
from .outliers.known_values import LIMIT
from .outliers.reasons import distance_shares
from .schema import Numeric, TableSchema

if TYPE_CHECKING:
    from .model import TableModel

BATCH = 500
"""Number of rows that are explained at once."""
CANDIDATES = 4
"""Number of columns per row that are tried as reasons: those with the most surprising cells."""
EXPLAINED = 0.5
"""If single columns explain a smaller part of the score, the nearest row is what is expected."""
NEW = math.log(LIMIT / 0.05)
"""Surprise of a new value in a column where 5 % of the values are new. A smaller one is not
mentioned."""
MIN_SHARE = 0.2
"""Columns that explain less of the score are not named, except for the most important one."""


def explain(
    model: "TableModel", rows: Tensor, count: int = 3, written: pa.Table | None = None
) -> list[list[Reason]]:
    """Return the columns that make rows unusual, the most important first.

    A column is a reason if the score falls when its value is replaced by the one that is expected
    given the other cells. Broken relations come first.

    Args:
        model: The model.
        rows: Codes of the rows, shape `(N, C)`.
        count: Largest number of reasons of a row.
        written: The cells as they were written. Default: decoded from the codes.

    Returns:
        The reasons of each row. Empty if no column is unusual given the others.
    """
    values = cells_as_written(model.schema, rows, written)
    result = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        texts = values[start : start + BATCH]
        single = _surprising_cells(model, part, texts, count)
        for row, text, reasons in zip(part, texts, single, strict=True):
            broken = _broken_relations(model, row, text)
            named = {reason.column for reason in broken}
            others = [reason for reason in reasons if reason.column not in named]
            result.append([*broken, *others][:count])
    return result


def _broken_relations(model: "TableModel", row: Tensor, values: Sequence[str]) -> list[Reason]:
    """Return the cell whose change repairs most broken relations of a row."""
    blamed = model.relations.blamed(row) if model.relations.relations else []
    reasons = []
    for blame in blamed[:1]:
        expected = row.clone()
        expected[blame.column] = blame.expected
        relation = model.relations.relations[blame.relations[0]].describe(model.schema)
        text = "" if math.isnan(blame.expected) else _as_text(model.schema, expected[None])[0]
        reasons.append(
            Reason(
                model.schema.used[blame.column].name,
                values[blame.column],
                text and text[blame.column],
                1.0,
                relation=relation,
            )
        )
    return reasons


def _surprising_cells(
    model: "TableModel", rows: Tensor, values: list[list[str]], count: int
) -> list[list[Reason]]:
    """Return the columns whose expected value lowers the score."""
    detector, encoder, schema = model.detector, model.encoder, model.schema
    x = model.imputation.nearest(model.inputs(rows))
    present = ~rows.isnan()
    distances, nearest = distance_shares(x, detector.neighbors.complete_rows.to(x), encoder.blocks)
    new_values = detector.known_values.surprise(x)
    is_new = torch.stack([new_values[:, block].amax(1) > NEW for block in encoder.blocks], 1)
    shares = distances / distances.sum(1, keepdim=True).clamp_min(1e-12)
    evidence = (detector.cell_surprises(x) + is_new + shares).cpu().where(present, -1.0)
    candidates = evidence.topk(min(CANDIDATES, rows.shape[1])).indices
    scores = model.outlier_score(x).cpu()
    gains = torch.zeros(rows.shape, dtype=scores.dtype)
    likely = model.marginals.nearest_known(encoder.inverse(nearest.cpu()))
    codes = torch.stack([likely] * 3)
    agreement = torch.zeros_like(gains)
    for j in candidates.unique().tolist():
        index = ((candidates == j).any(1) & present[:, j]).nonzero().flatten()
        if len(index):
            expected = _Expected.of(model, x[index.to(x.device)], j)
            gains[index, j] = (scores[index] - expected.score).clamp_min(0.0)
            codes[:, index, j], agreement[index, j] = expected.codes, expected.agreement
    # If no single column explains the row, several are unusual together.
    together = gains.sum(1, keepdim=True) < EXPLAINED * scores[:, None]
    gains = torch.where(together, distances.cpu().to(gains).where(present, 0.0), gains)
    codes = torch.where(together, likely, codes)
    texts = [_as_text(schema, part) for part in codes]
    names = [column.name for column in schema.used]
    result = []
    for i, row in enumerate((gains / gains.sum(1, keepdim=True).clamp_min(1e-12)).tolist()):
        order = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:count]
        reasons = []
        for j in order:
            value, (expected_value, low, high) = values[i][j], (text[i][j] for text in texts)
            if row[j] >= min(MIN_SHARE, row[order[0]]) > 0 and value != expected_value:
                certainty = "" if low == high else f"{low} to {high}"
                if bool(detector.conditionals.by_equality[j]) and agreement[i, j] > 0:
                    certainty = f"{100 * agreement[i, j]:.0f} % of similar rows"
                reasons.append(
                    Reason(names[j], value, expected_value, row[j], bool(is_new[i, j]), certainty)
                )
        result.append(reasons)
    return result


class _Expected(NamedTuple):
    """What the donors of cells say.

    Attributes:
        score: The outlier scores of the rows with the expected cells, shape `(N,)`.
        codes: Codes of the expected cells, and of the 10 % and 90 % quantiles, shape `(3, N)`.
        agreement: Share of the donors that have the expected value, shape `(N,)`.
    """

    score: Tensor
    codes: Tensor
    agreement: Tensor

    @classmethod
    def of(cls, model: "TableModel", x: Tensor, column: int) -> "_Expected":
        """Return what is expected in a column of complete rows, shape `(N, D)`."""
        conditionals = model.detector.conditionals
        donors = conditionals.donor_cells(x, column)
        ordered, count = donors.sort(1).values, donors.shape[1]
        middle = ordered[:, count // 2]
        if bool(conditionals.by_equality[column]):
            middle = donors.mode(1).values
        cells = (middle, ordered[:, count // 10], ordered[:, -(count // 10) - 1])
        rows = [conditionals.view.with_cells(x, column, each) for each in cells]
        codes = [
            model.marginals.nearest_known(model.encoder.inverse(each.cpu()))[:, column]
            for each in rows
        ]
        agreement = (donors == middle[:, None]).double().mean(1)
        return cls(model.outlier_score(rows[0]).cpu(), torch.stack(codes), agreement.cpu())


def cells_as_written(
    schema: TableSchema, rows: Tensor, written: pa.Table | None = None
) -> list[list[str]]:
    """Return the cells of the used columns as text, row by row, never rounded.

    Args:
        schema: Types of the columns.
        rows: Codes of the rows, shape `(N, C)`.
        written: A table with these rows. Columns that it does not have are decoded.
    """
    exact = [
        replace(c, levels=None, decimals=None, integer=False) if isinstance(c, Numeric) else c
        for c in schema.columns
    ]
    texts = _as_text(TableSchema(tuple(exact)), rows)
    names = () if written is None else written.column_names
    for j, column in enumerate(schema.used):
        if written is not None and column.name in names:
            for i, cell in enumerate(written.column(column.name).to_pylist()):
                texts[i][j] = _format(cell)
    return texts


def _as_text(schema: TableSchema, codes: Tensor) -> list[list[str]]:
    """Return the values of the used columns as text, row by row."""
    table = schema.decode(codes.double().numpy())
    columns = [[_format(value) for value in table.column(c.name).to_pylist()] for c in schema.used]
    return [list(row) for row in zip(*columns, strict=True)]


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return np.format_float_positional(float(f"{value:.15g}"), trim="-")
    return "" if value is None else str(value)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Return reasons as text.

    Example:
        >>> reasons_text([Reason("wind", "21", "2.7", 0.7, certainty="1.3 to 4.6")])
        'wind is 21 (expected about 2.7, 1.3 to 4.6)'
        >>> reasons_text([Reason("unit", "'kg' does not occur in training", "", 1.0)])
        "unit: 'kg' does not occur in training"
        >>> reasons_text([Reason("price", "7.03", "6.99", 0.9, is_new=True)])
        'price is 7.03, a new value (expected about 6.99)'
        >>> reasons_text([Reason("month", "3", "7", 1.0, relation="month is the month of date")])
        'month is 3 (expected 7, because month is the month of date)'
    """
    return "; ".join(map(_reason_text, reasons))


def _reason_text(reason: Reason) -> str:
    cell = f"{reason.column} is {reason.value}{', a new value' if reason.is_new else ''}"
    if reason.relation:
        expected = f"expected {reason.expected}, because" if reason.expected else "contradicts:"
        return f"{cell} ({expected} {reason.relation})"
    if not reason.expected:
        return f"{reason.column}: {reason.value}"
    about = "" if as_number(reason.expected) is None else "about "
    certainty = f", {reason.certainty}" if reason.certainty else ""
    return f"{cell} (expected {about}{reason.expected}{certainty})"


def as_number(text: str) -> float | None:
    """Return text as a number, or `None` if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def seven_digits(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round to seven significant digits, which is the precision of the model."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(np.abs(x)))
    factor = 10.0 ** (6 - np.nan_to_num(exponent, nan=0.0, posinf=0.0, neginf=0.0))
    return np.round(x * factor) / factor
