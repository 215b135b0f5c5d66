"""Why rows of a table are unusual, in the user's values."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .outliers import Reason
from .outliers.known_values import LIMIT
from .outliers.reasons import distance_shares, expected_inputs, score_gains
from .schema import Numeric, TableSchema

if TYPE_CHECKING:
    from .model import TableModel

BATCH = 1000
"""Number of cells whose replacement is scored at once."""
EXPLAINED = 0.5
"""If single columns explain a smaller part of the score, the nearest row is what is expected."""
NEW = math.log(LIMIT / 0.05)
"""Surprise of a new value in a column where 5 % of the values are new. A smaller one is not
mentioned."""
MIN_SHARE = 0.2
"""Columns that explain less of the score are not named, except for the most important one."""


def explain(model: "TableModel", rows: Tensor, count: int = 3) -> list[list[Reason]]:
    """Return the columns that make rows unusual, the most important first.

    A column is a reason if the score falls when its value is replaced by that of similar rows:
    the nearest training rows in all other columns.

    Args:
        model: The model.
        rows: Codes of the rows, shape `(N, C)`.
        count: Largest number of reasons of a row.

    Returns:
        The reasons of each row. Empty if no column is unusual given the others.
    """
    parts = rows.split(max(1, BATCH // max(rows.shape[1], 1)))  # type: ignore[no-untyped-call]
    return [reasons for part in parts for reasons in _explain_batch(model, part, count)]


def _explain_batch(model: "TableModel", rows: Tensor, count: int) -> list[list[Reason]]:
    detector, encoder, schema = model.detector, model.encoder, model.schema
    x = model.imputation.nearest(model.inputs(rows))
    present, near = ~rows.isnan(), detector.neighbors.complete_rows.to(x.dtype)
    expected = expected_inputs(x, near, encoder.blocks)
    scores = model.outlier_score(x)
    gains = score_gains(model.outlier_score, scores, expected, present.to(x.device)).cpu()
    likely = torch.stack([
        encoder.inverse(expected[j].cpu())[:, j] for j in range(len(expected))
    ]).T
    # If no single column explains the row, several are unusual together.
    distances, nearest = distance_shares(x, near, encoder.blocks)
    several = gains.sum(1, keepdim=True) < EXPLAINED * scores.cpu()[:, None]
    gains = torch.where(several, torch.where(present, distances.cpu().to(gains), 0.0), gains)
    likely = torch.where(several, encoder.inverse(nearest.cpu()), likely)
    likely = model.marginals.nearest_known(likely)
    surprise = detector.known_values.surprise(x)
    is_new = torch.stack([surprise[:, block].amax(1) > NEW for block in encoder.blocks], 1)
    values, likely_values = _as_text(_without_levels(schema), rows), _as_text(schema, likely)
    shares = gains / gains.sum(1, keepdim=True).clamp_min(1e-12)
    names = [column.name for column in schema.used]
    result = []
    for i, row in enumerate(shares.tolist()):
        order = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:count]
        result.append([
            Reason(names[j], values[i][j], likely_values[i][j], row[j], bool(is_new[i, j]))
            for j in order
            if row[j] >= min(MIN_SHARE, row[order[0]]) > 0 and values[i][j] != likely_values[i][j]
        ])
    return result


def _without_levels(schema: TableSchema) -> TableSchema:
    """Return a schema that does not round numbers to those of the training rows."""
    return TableSchema(
        tuple(replace(c, levels=None) if isinstance(c, Numeric) else c for c in schema.columns)
    )


def _as_text(schema: TableSchema, codes: Tensor) -> list[list[str]]:
    """Return the values of the used columns as text, row by row."""
    table = schema.decode(codes.double().numpy())
    columns = [[_format(value) for value in table.column(c.name).to_pylist()] for c in schema.used]
    return [list(row) for row in zip(*columns, strict=True)]


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return np.format_float_positional(float(f"{value:.6g}"), trim="-")
    return "" if value is None else str(value)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Return reasons as text.

    Example:
        >>> reasons_text([Reason("alcohol", "2.1", "10.4", 0.7), Reason("sky", "sun", "fog", 0.3)])
        'alcohol is 2.1 (expected about 10.4); sky is sun (expected fog)'
        >>> reasons_text([Reason("unit", "'kg' does not occur in training", "", 1.0)])
        "unit: 'kg' does not occur in training"
        >>> reasons_text([Reason("price", "7.03", "6.99", 0.9, is_new=True)])
        'price is 7.03, a new value (expected about 6.99)'
    """
    texts = []
    for reason in reasons:
        about = "" if as_number(reason.expected) is None else "about "
        new = ", a new value" if reason.is_new else ""
        texts.append(
            f"{reason.column} is {reason.value}{new} (expected {about}{reason.expected})"
            if reason.expected
            else f"{reason.column}: {reason.value}"
        )
    return "; ".join(texts)


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
