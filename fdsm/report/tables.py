r"""The table of results: one list of rows, for the terminal, the page and documents.

Means are over the runs of a group that have finished. The error of a mean over seeds is its
standard error, $s / \sqrt n$ with $s$ the standard deviation over the $n$ seeds; of a single run
there is only the error that it estimated of its own measurement, which is marked.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from .baselines import baselines
from .numbers import NOTHING, duration, number, quoted, size
from .runs import Group, Run
from .titles import BYTES, PACE, VALIDATED, title
from .values import Measured

OWN = "†"
"""Marks an error that is of one measurement, not over seeds."""

MEMORY_RATIO = "memory ratio"
RATIO = "ratio"

PAGE_ONLY = {"parameters", "iterations", "seconds"}
"""Columns for which a terminal is too narrow."""

_OF_RUN: dict[str, Callable[[Run], float]] = {
    PACE: lambda run: run.milliseconds,
    VALIDATED: lambda run: run.milliseconds_with_validation,
    BYTES: lambda run: run.bytes,
}
"""Numbers that a result has beside its metrics."""


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

    @property
    def paired(self) -> tuple[tuple[Column, str], ...]:
        """The columns, each with the key of the published one that can be put below it."""
        keys = {column.key for column in self.columns}
        below = {
            key: other
            for key in keys
            if (other := f"published {key.removeprefix('metric ')}") in keys and key != other
        }
        shown = (one for one in self.columns if one.key not in below.values())
        return tuple((column, below.get(column.key, "")) for column in shown)


def summary(groups: Sequence[Group]) -> Summary:
    """Return the table of groups, with times and memory relative to those of their baselines.

    Args:
        groups: The groups of an experiment.

    Returns:
        The columns that any of the groups fills, and a row per group.
    """
    names = measured_names(groups)
    compared = baselines(groups)
    rows = tuple(_row(*pair, names) for pair in zip(groups, compared, strict=True))
    columns = [column for name in names for column in _of_metric(name)]
    columns += [*_of_metric(PACE), *_of_metric(VALIDATED)[:1], *_of_ratio(RATIO, "time", compared)]
    columns += [*_of_metric(BYTES), *_of_ratio(MEMORY_RATIO, "memory", compared)]
    columns += [Column("iterations", "iterations"), Column("seeds", "seeds")]
    if not groups[0].target:
        columns += [Column("parameters", "parameters"), Column("seconds", "training time")]
    kept = (c for c in columns if any(row.cells[c.key] != NOTHING for row in rows))
    return Summary(tuple(kept), rows, _caption(rows, groups, compared))


def measured_names(groups: Sequence[Group]) -> list[str]:
    """Return the names of the metrics that were measured or published, in order.

    Args:
        groups: The groups of an experiment.

    Returns:
        The names without those of times and memory, which all runs have.
    """
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    names |= dict.fromkeys(name for run in runs for name in run.published)
    return [name for name in names if name not in _OF_RUN]


def over_seeds(group: Group, metric: str) -> tuple[Measured, int]:
    """Return the mean of a metric, its standard error over seeds, and how many those are.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The mean, NaN if there is none, and the number of runs in it. With one run, the error is
        that of its own measurement.
    """
    if metric in _OF_RUN:
        all_values = map(_OF_RUN[metric], group.counted)
        measured = [Measured(value) for value in all_values if not math.isnan(value)]
    else:
        measured = [run.metrics[metric] for run in group.runs if metric in run.metrics]
    if len(measured) < 2:
        return (measured or [Measured(math.nan)])[0], len(measured)
    values = [one.value for one in measured]
    mean = fmean(values)
    if not all(map(math.isfinite, values)):
        return Measured(mean), len(values)
    return Measured(mean, stdev(values) / math.sqrt(len(values))), len(values)


def cell(group: Group, metric: str) -> str:
    """Return the mean of a metric over seeds as text, a dash if it was not measured.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The mean and its standard error, marked if that is of one measurement.
    """
    mean, count = over_seeds(group, metric)
    if not count:
        return NOTHING
    if metric == BYTES:
        return size(mean.value)
    own = count == 1 and mean.error is not None
    return number(mean.value, mean.error) + (OWN if own else "")


def published_cell(group: Group, metric: str) -> str:
    """Return the published number as text, a dash if there is none.

    Args:
        group: The runs.
        metric: The name of the metric.

    Returns:
        The number as it was published.
    """
    if metric not in group.published:
        return NOTHING
    one = group.published[metric]
    return size(one.value) if metric == BYTES else quoted(one)


def _of_metric(name: str) -> list[Column]:
    return [
        Column(f"metric {name}", title(name)),
        Column(f"published {name}", f"{title(name)}, published"),
    ]


def _of_ratio(key: str, what: str, compared: Sequence[Group]) -> list[Column]:
    labels = {group.label for group in compared}
    ours = f"{what} / {compared[0].label}" if len(labels) == 1 else f"{what} ratio"
    return [Column(key, ours), Column(f"published {key}", f"{what} ratio, published")]


def _row(group: Group, baseline: Group, names: Sequence[str]) -> Row:
    cells = {}
    for name in (*names, *_OF_RUN):
        cells[f"metric {name}"] = cell(group, name)
        cells[f"published {name}"] = published_cell(group, name)
    for key, name in ((RATIO, PACE), (MEMORY_RATIO, BYTES)):
        ours = [over_seeds(one, name)[0].value for one in (group, baseline)]
        theirs = [one.published.get(name, Measured(math.nan)).value for one in (group, baseline)]
        cells |= {key: _ratio(*ours), f"published {key}": _ratio(*theirs)}
    seconds = [run.seconds for run in group.counted if not math.isnan(run.seconds)]
    cells["parameters"] = _span(run.parameters for run in group.counted)
    cells["iterations"] = _span(run.iterations for run in group.counted)
    cells["seconds"] = duration(fmean(seconds)) if seconds else NOTHING
    finished, count = sum(run.finished for run in group.runs), len(group.runs)
    cells["seeds"] = str(count) if finished == count else f"{finished} of {count}"
    return Row(group.label, cells, finished, count - finished)


def _ratio(value: float, base: float) -> str:
    known = all(math.isfinite(one) and one > 0 for one in (value, base))
    return f"{value / base:.2f}" if known else NOTHING


def _span(values: Iterable[float]) -> str:
    known = [round(value) for value in values if math.isfinite(value)]
    if not known:
        return NOTHING
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _caption(rows: Sequence[Row], groups: Sequence[Group], compared: Sequence[Group]) -> str:
    cells = [text for row in rows for key, text in row.cells.items() if key.startswith("metric")]
    parts = []
    if any("±" in text and OWN not in text for text in cells):
        parts.append("Means over seeds ± standard error over seeds.")
    if any(OWN in text for text in cells):
        parts.append(
            f"{OWN} One seed: ± is the standard error of its own measurement, "
            "without the variation between seeds."
        )
    if any(row.unfinished for row in rows):
        parts.append("Means leave out runs that have not finished, unless none of them has.")
    if any(row.cells[RATIO] != NOTHING for row in rows):
        parts.append(_comparison(groups, compared))
    if any(row.cells[f"metric {BYTES}"] != NOTHING for row in rows):
        parts.append("Memory is what a step keeps for its backward pass.")
    if any(group.published for group in groups):
        parts.append("Published: in the paper, at its own scale and on its own machine.")
    return " ".join(parts)


def _comparison(groups: Sequence[Group], compared: Sequence[Group]) -> str:
    labels = list(dict.fromkeys(group.label for group in compared))
    if len(labels) == 1:
        return f"Times are relative to {labels[0]}."
    pairs = [
        f"{group.label} to {base.label}"
        for group, base in zip(groups, compared, strict=True)
        if group is not base
    ]
    return f"Times are relative: {', '.join(pairs)}."
