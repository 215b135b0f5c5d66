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

from ..samplers import Progress
from .outliers import Reason
from .outliers.known_values import LIMIT
from .outliers.reasons import distance_shares
from .schema import Numeric, TableSchema

if TYPE_CHECKING:
    from .model import TableModel

BATCH = 250
"""Number of rows that are explained at once."""
CANDIDATES = 4
"""Number of columns per row that are tried as reasons: those with the most surprising cells."""
EXPLAINED = 0.5
"""If no column lowers the score by 1 or by this share, the nearest row is what is expected."""
NEW = math.log(LIMIT / 0.05)
"""Surprise of a new value in a column where 5 % of the values are new. A smaller one is not
mentioned."""
MIN_SHARE = 0.2
"""Columns that explain less of the score are not named, except for the most important one."""


def explain(
    model: "TableModel",
    rows: Tensor,
    count: int = 3,
    written: pa.Table | None = None,
    progress: Progress = lambda steps: steps,
) -> list[list[Reason]]:
    """Return the columns that make rows unusual, the most important first.

    A column is a reason if the score falls when its value is replaced by the one that is expected
    given the other cells. Broken relations come first.

    Args:
        model: The model.
        rows: Codes of the rows, shape `(N, C)`.
        count: Largest number of reasons of a row.
        written: The cells as they were written. Default: decoded from the codes.
        progress: Wraps the loop over blocks of rows, to show progress.

    Returns:
        The reasons of each row. Empty if no column is unusual given the others.
    """
    values = cells_as_written(model.schema, rows, written)
    return [
        reasons
        for start in progress(range(0, len(rows), BATCH))
        for reasons in _explain_batch(
            model, rows[start : start + BATCH], values[start : start + BATCH], count
        )
    ]


def _explain_batch(
    model: "TableModel", rows: Tensor, values: list[list[str]], count: int
) -> list[list[Reason]]:
    detector, encoder, schema = model.detector, model.encoder, model.schema
    x = model.imputation.nearest(model.inputs(rows))
    present = ~rows.isnan()
    distances, nearest = distance_shares(x, detector.neighbors.complete_rows.to(x), encoder.blocks)
    new_values = detector.known_values.surprise(x)
    is_new = torch.stack([new_values[:, block].amax(1) > NEW for block in encoder.blocks], 1)
    shares = distances / distances.sum(1, keepdim=True).clamp_min(1e-12)
    evidence = (detector.cell_surprises(x) + is_new + shares).cpu()
    highest = evidence.topk(min(CANDIDATES, rows.shape[1])).values[:, -1:]
    broken = [_Broken.of(model, row) for row in rows]
    in_relation = torch.stack([each.columns for each in broken])
    scores = model.outlier_score(x).cpu()
    gains = torch.full(rows.shape, -torch.inf, dtype=scores.dtype)
    likely = encoder.inverse(nearest.cpu())
    codes = torch.stack([likely] * 3)
    agreement = torch.zeros_like(gains)
    for j in range(rows.shape[1]):
        is_tried = ((evidence[:, j] >= highest[:, 0]) | in_relation[:, j]) & present[:, j]
        if bool(is_tried.any()):
            expected = _Expected.of(model, x[is_tried.to(x.device)], j)
            gains[is_tried, j] = scores[is_tried] - expected.score
            codes[:, is_tried, j], agreement[is_tried, j] = expected.codes, expected.agreement
    texts = [_as_text(schema, part) for part in codes]
    likely_texts = _as_text(schema, likely)
    names = [column.name for column in schema.used]
    gap_surprise = detector.gaps.surprise(rows.isnan()).tolist()
    result = []
    for i in range(len(rows)):
        first = broken[i].reason(model, gains[i], values[i], texts[0][i])
        if gap_surprise[i]:
            column, text = detector.gaps.reason(~present[i])
            first = [Reason(names[column], text, "", 1.0), *first]
        single = gains[i].clamp_min(0.0)
        # If no single column explains the row, several are unusual together.
        is_single = float(single.max()) >= min(1.0, EXPLAINED * float(scores[i]))
        gain = single if is_single else distances[i].cpu().to(single).where(present[i], 0.0)
        share = (gain / gain.sum().clamp_min(1e-12)).tolist()
        order = sorted(range(len(names)), key=share.__getitem__, reverse=True)[:count]
        reasons = []
        for j in order:
            expected_value = texts[0][i][j] if is_single else likely_texts[i][j]
            if share[j] >= min(MIN_SHARE, share[order[0]]) > 0 and values[i][j] != expected_value:
                low, high = texts[1][i][j], texts[2][i][j]
                certainty = "" if low == high or not is_single else f"{low} to {high}"
                if bool(detector.conditionals.by_equality[j]) and is_single:
                    certainty = f"{100 * agreement[i, j]:.0f} % of similar rows"
                new = bool(is_new[i, j])
                reasons.append(
                    Reason(names[j], values[i][j], expected_value, share[j], new, certainty)
                )
        named = [reason.column for reason in first]
        result.append([*first, *(r for r in reasons if r.column not in named)][:count])
    return result


class _Broken(NamedTuple):
    """The broken relations of a row.

    Attributes:
        columns: Whether a column is in as many broken relations as any, shape `(C,)`.
        relations: Indices of the broken relations.
        expected: Codes that repair most of them, by column.
    """

    columns: Tensor
    relations: list[int]
    expected: dict[int, float]

    @classmethod
    def of(cls, model: "TableModel", row: Tensor) -> "_Broken":
        """Return the broken relations of a row with the codes `(C,)`."""
        relations = model.relations
        indices = relations.broken(row[None])[:, 0].nonzero().flatten().tolist()
        uses = torch.zeros(len(row))
        for i in indices:
            uses[list(relations.relations[i].columns)] += 1
        blamed = relations.blamed(row) if indices else []
        known = {
            blame.column: blame.expected for blame in blamed if blame.expected == blame.expected
        }
        return cls((uses == uses.max()) & (uses > 0), indices, known)

    def reason(
        self, model: "TableModel", gains: Tensor, values: Sequence[str], likely: Sequence[str]
    ) -> list[Reason]:
        """Return the cell to blame: the one whose expected value lowers the score most."""
        if not self.relations:
            return []
        schema, relations = model.schema, model.relations.relations
        j = int(gains.masked_fill(~self.columns, -torch.inf).argmax())
        broken = next(relations[i] for i in self.relations if j in relations[i].columns)
        expected = likely[j]
        if j in self.expected:
            codes = torch.full((1, len(values)), torch.nan).double()
            codes[0, j] = self.expected[j]
            expected = _as_text(schema, codes)[0][j]
        name = schema.used[j].name
        return [Reason(name, values[j], expected, 1.0, relation=broken.describe(schema))]


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
        """Return the expected cells of a column of complete rows, shape `(N, D)`."""
        conditionals = model.detector.conditionals
        donors = conditionals.cells[conditionals.donor_rows(x, column), column]
        ordered, count = donors.sort(1).values, donors.shape[1]
        middle = ordered[:, count // 2]
        if bool(conditionals.by_equality[column]):
            middle = donors.mode(1).values
        cells = (middle, ordered[:, count // 10], ordered[:, -(count // 10) - 1])
        rows = [conditionals.view.with_cells(x, column, each) for each in cells]
        codes = [model.encoder.inverse(each.cpu())[:, column] for each in rows]
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
    texts = _as_text(TableSchema(tuple(exact)), rows, 15)
    names = () if written is None else written.column_names
    for j, column in enumerate(schema.used):
        if written is not None and column.name in names:
            for i, cell in enumerate(written.column(column.name).to_pylist()):
                texts[i][j] = _format(cell)
    return texts


def _as_text(schema: TableSchema, codes: Tensor, digits: int = 6) -> list[list[str]]:
    """Return the values of the used columns as text, row by row."""
    table = schema.decode(codes.double().numpy())
    columns = [
        [_format(value, digits) for value in table.column(c.name).to_pylist()] for c in schema.used
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _format(value: object, digits: int = 15) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return np.format_float_positional(float(f"{value:.{digits}g}"), trim="-")
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
