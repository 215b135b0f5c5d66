r"""The table of results: one list of rows, for the terminal and for the page.

Means are over the runs of a group that have finished. The error of a mean over seeds is its
standard error, $s / \sqrt n$ with $s$ the standard deviation over the $n$ seeds; of a single run
there is only the error that it estimated of its own measurement, which is marked.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from .runs import Collection, Group, Measured, Run

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
OWN = "†"
"""Marks an error that is of one measurement, not over seeds."""

PACE = "milliseconds_per_iteration"

PAGE_ONLY = {"parameters", "iterations", "seconds", "seeds"}
"""Columns for which a terminal is too narrow."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        key: What the cells are found by.
        title: What to write above.
    """

    key: str
    title: str


@dataclass(frozen=True)
class Row:
    """A group in the table.

    Attributes:
        label: The name of the group.
        cells: The text of the cells by the key of their column.
        finished: How many runs have finished.
        unfinished: How many have not.
    """

    label: str
    cells: Mapping[str, str]
    finished: int
    unfinished: int


@dataclass(frozen=True)
class Summary:
    """The table of the groups of an experiment.

    Attributes:
        columns: The columns after the first, which is the name of the group.
        rows: The rows.
        caption: What the numbers are.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str


def summary(groups: Sequence[Group]) -> Summary:
    """Return the table of groups, the first of which is the baseline of times.

    Args:
        groups: The groups of an experiment.

    Returns:
        The columns that any of the groups fills, and a row per group.
    """
    names = [*_measured(groups), PACE]
    columns = [column for name in names for column in _columns(name, groups)]
    columns += [
        Column("ratio", f"time / {groups[0].label}"),
        Column("parameters", "parameters"),
        Column("iterations", "iterations"),
        Column("seconds", "training time"),
        Column("seeds", "seeds"),
    ]
    base = _mean(groups[0], lambda run: run.milliseconds).value
    rows = tuple(_row(group, names, base) for group in groups)
    kept = (c for c in columns if any(row.cells[c.key] != NOTHING for row in rows))
    return Summary(tuple(kept), rows, _caption(rows, groups[0]))


def terminal(collection: Collection) -> "Table":
    """Return the tables of all experiments as one for the terminal.

    Args:
        collection: What was collected.

    Returns:
        The table for `rich.print`, with a section per experiment.
    """
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    summaries = [summary(one.groups) for one in collection.experiments]
    columns = {
        column.key: column for one in summaries for column in one.columns
        if column.key not in PAGE_ONLY
    }  # fmt: skip
    captions = dict.fromkeys(one.caption for one in summaries)
    table = Table(caption=Text("\n".join(captions)), caption_justify="left", box=SIMPLE)
    table.add_column("method")
    for column in columns.values():
        title = "time ratio" if column.key == "ratio" and len(captions) > 1 else column.title
        table.add_column(Text(title), justify="right")
    for experiment, one in zip(collection.experiments, summaries, strict=True):
        if len(summaries) > 1:
            table.add_row(Text(experiment.name, style="bold"))
        for row in one.rows:
            cells = [row.cells.get(key, NOTHING) for key in columns]
            table.add_row(Text(row.label), *map(Text, cells))
        table.add_section()
    return table


def number(value: float, error: float | None = None) -> str:
    """Return a number with as many digits as its error leaves meaning, two of the error.

    Args:
        value: The number.
        error: Its standard error, if there is one.

    Returns:
        The number as text, in powers of ten if it is very large or very small.

    Example:
        >>> number(-105.234, 1.31), number(-94712.0, 1234.0), number(0.5)
        ('-105.2 ± 1.3', '-94,700 ± 1,200', '0.5')
        >>> number(-3.36e7, 2.1e5), number(1234.5678), number(float("nan"))
        ('(-3.360 ± 0.021)e7', '1,235', 'nan')
    """
    if not math.isfinite(value):
        return str(value)
    known = error is not None and math.isfinite(error) and error > 1e-300
    size = max(abs(value), error or 0.0) if known else abs(value)
    power = math.floor(math.log10(size)) if size > 1e-300 else 0
    if not -4 < power < 6:
        scaled = error / 10.0**power if known and error is not None else None
        plain = number(value / 10.0**power, scaled)
        return f"({plain})e{power}" if known else f"{plain}e{power}"
    if not known or error is None:
        return _rounded(value, 3 - power, trim=True)
    digits = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    return f"{_rounded(value, digits)} ± {_rounded(error, digits)}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    Args:
        seconds: The time in seconds.

    Returns:
        The time as text.

    Example:
        >>> duration(36.94), duration(754.0), duration(100_000.0)
        ('36.9 s', '12.6 min', '27.8 h')
    """
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _rounded(value: float, digits: int, *, trim: bool = False) -> str:
    plain = f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"
    return plain.rstrip("0").rstrip(".") if trim and "." in plain else plain


def _measured(groups: Sequence[Group]) -> list[str]:
    """Return the names of the metrics that were measured or published, in order."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in (*run.metrics, *run.published))
    return [name for name in names if name != PACE]


def _columns(name: str, groups: Sequence[Group]) -> list[Column]:
    title = "ms / iteration" if name == PACE else name.replace("_", " ")
    columns = [Column(f"metric {name}", title)]
    if any(name in run.published for group in groups for run in group.runs):
        columns.append(Column(f"published {name}", f"{title}, published"))
    return columns


def _row(group: Group, names: Sequence[str], base: float) -> Row:
    cells = {}
    for name in names:
        published = [run.published[name] for run in group.runs if name in run.published]
        cells[f"published {name}"] = _quoted(published[0]) if published else NOTHING
        if name != PACE:
            cells[f"metric {name}"] = _metric(group, name)
    pace = _mean(group, lambda run: run.milliseconds)
    finished = sum(run.finished for run in group.runs)
    cells[f"metric {PACE}"] = _cell(pace) if math.isfinite(pace.value) else NOTHING
    cells["ratio"] = f"{pace.value / base:.2f}" if _positive(pace.value, base) else NOTHING
    cells["parameters"] = _span(run.parameters for run in group.counted)
    cells["iterations"] = _span(run.iterations for run in group.counted)
    cells["seconds"] = duration(_mean(group, lambda run: run.seconds).value)
    cells["seeds"] = (
        str(len(group.runs))
        if finished == len(group.runs)
        else (f"{finished} of {len(group.runs)}")
    )
    return Row(group.label, cells, finished, len(group.runs) - finished)


def _metric(group: Group, name: str) -> str:
    measured = [run.metrics[name] for run in group.runs if name in run.metrics]
    if not measured:
        return NOTHING
    if len(measured) == 1:
        return _cell(measured[0]) + (OWN if measured[0].error is not None else "")
    return _cell(_over([metric.value for metric in measured]))


def _mean(group: Group, of: Callable[[Run], float]) -> Measured:
    values = [value for run in group.counted if not math.isnan(value := of(run))]
    return _over(values) if values else Measured(math.nan)


def _over(values: Sequence[float]) -> Measured:
    """Return the mean and its standard error over seeds."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return Measured(fmean(values))
    return Measured(fmean(values), stdev(values) / math.sqrt(len(values)))


def _cell(measured: Measured) -> str:
    return number(measured.value, measured.error)


def _quoted(published: Measured) -> str:
    """Return a published number with the digits that were published."""
    error = "" if published.error is None else f" ± {number(published.error)}"
    return number(published.value) + error


def _positive(*values: float) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)


def _span(values: Iterable[float]) -> str:
    known = [round(value) for value in values if math.isfinite(value)]
    if not known:
        return NOTHING
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _caption(rows: Sequence[Row], baseline: Group) -> str:
    cells = [cell for row in rows for key, cell in row.cells.items() if key.startswith("metric")]
    parts = []
    if any("±" in cell and OWN not in cell for cell in cells):
        parts.append("Means over seeds ± standard error over seeds.")
    if any(OWN in cell for cell in cells):
        parts.append(
            f"{OWN} One seed: ± is the standard error of its own measurement, "
            "without the variation between seeds."
        )
    if any(row.unfinished for row in rows):
        parts.append("Means leave out runs that have not finished, unless none of them has.")
    parts.append(f"Times are relative to {baseline.label}.")
    return " ".join(parts)
