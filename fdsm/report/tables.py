"""The table of results: one list of rows, for the terminal, the page and documents.

Means are over the runs of a group that have finished.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from .aggregate import OF_RUN, over_seeds
from .baselines import baselines
from .captions import OWN, caption
from .format import NOTHING, duration, number, quoted, size
from .json_values import Measured
from .labels import BYTES, MEMORY_RATIO, PACE, RATIO, VALIDATED, title
from .model import Group


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
    pairs = zip(groups, baselines(groups), strict=True)
    rows = tuple(_row(group, baseline, names) for group, baseline in pairs)
    columns = [column for name in names for column in _of_metric(name)]
    columns += [*_of_metric(PACE), *_of_metric(VALIDATED)[:1], *_of_ratio(RATIO, groups)]
    columns += [*_of_metric(BYTES), *_of_ratio(MEMORY_RATIO, groups)]
    columns += [Column("iterations", "iterations"), Column("seeds", "seeds")]
    if not groups[0].target:
        columns += [Column("parameters", "parameters"), Column("seconds", "training time")]
    kept = tuple(c for c in columns if any(row.cells[c.key] != NOTHING for row in rows))
    return Summary(kept, rows, caption(groups, [column.key for column in kept]))


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
    return [name for name in names if name not in OF_RUN]


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


def _of_ratio(key: str, groups: Sequence[Group]) -> list[Column]:
    """Return the columns of a ratio, if any group is compared with another."""
    pairs = list(zip(groups, baselines(groups), strict=True))
    if all(baseline is None or baseline is group for group, baseline in pairs):
        return []
    labels = list(dict.fromkeys(base.label for _, base in pairs if base is not None))
    what = "memory" if key == MEMORY_RATIO else "time"
    ours = f"{what} / {labels[0]}" if len(labels) == 1 else f"{what} ratio"
    return [Column(key, ours), Column(f"published {key}", f"{what} ratio, published")]


def _row(group: Group, baseline: Group | None, names: Sequence[str]) -> Row:
    cells = {}
    for name in (*names, *OF_RUN):
        cells[f"metric {name}"] = cell(group, name)
        cells[f"published {name}"] = published_cell(group, name)
    for key, name in ((RATIO, PACE), (MEMORY_RATIO, BYTES)):
        cells |= _ratios(key, name, group, baseline)
    seconds = [run.seconds for run in group.counted if not math.isnan(run.seconds)]
    cells["parameters"] = _span(run.parameters for run in group.counted)
    cells["iterations"] = _span(run.iterations for run in group.counted)
    cells["seconds"] = duration(fmean(seconds)) if seconds else NOTHING
    finished, count = sum(run.finished for run in group.runs), len(group.runs)
    cells["seeds"] = str(count) if finished == count else f"{finished} of {count}"
    return Row(group.label, cells, finished, count - finished)


def _ratios(key: str, name: str, group: Group, baseline: Group | None) -> dict[str, str]:
    """Return a ratio of ours and of the paper: of times, if they were measured in turn."""
    if baseline is None:
        return {key: NOTHING, f"published {key}": NOTHING}
    ours = [over_seeds(one, name)[0].value for one in (group, baseline)]
    theirs = [one.published.get(name, Measured(math.nan)).value for one in (group, baseline)]
    comparable = group.timed_in_turn_with(baseline)
    return {key: _ratio(*ours) if comparable else NOTHING, f"published {key}": _ratio(*theirs)}


def _ratio(value: float, base: float) -> str:
    known = all(math.isfinite(one) and one > 0 for one in (value, base))
    return f"{value / base:.2f}" if known else NOTHING


def _span(values: Iterable[float]) -> str:
    known = [round(value) for value in values if math.isfinite(value)]
    if not known:
        return NOTHING
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
