"""Tables of results, for the terminal, Markdown and the page.

A column is one `Column`. To show another column, add one in `result_columns`. Every metric of a
run has a column already; its title, unit and meaning are in `format.METRICS`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Generic, Literal, TypeVar

from fdsm.measurement import Measurement, format_number

from .aggregate import Group
from .format import DASH, format_duration, format_ratio, metric_info
from .records import MEMORY, STEP_TIME, STEP_TIME_WITH_VALIDATION, StudyRecord, text

T = TypeVar("T")

ONE_SEED = "†"
"""Marks the standard error of a single measurement, which is not one over seeds."""


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table.

    Attributes:
        key: Unique name.
        heading: Title, with the unit if there is one.
        value: Returns the text of a cell.
        published: Returns the text of the published number of a cell.
        meaning: Description of the column in one line, or empty.
        kind: A metric of the model, a cost of training, or a fact about the runs.
    """

    key: str
    heading: str
    value: Callable[[T], str]
    published: Callable[[T], str] = lambda _: DASH
    meaning: str = ""
    kind: Literal["metric", "cost", "fact"] = "fact"


@dataclass(frozen=True)
class Cell:
    """Text of a cell: our number, and the published one below or beside it."""

    text: str
    published: str = DASH


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: Text of the first column.
        cells: Cells by the key of their column.
        note: A remark on the row, such as the number of unfinished runs.
    """

    label: str
    cells: Mapping[str, Cell]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        first: Heading of the first column, which holds the labels.
        columns: The other columns.
        rows: The rows.
        caption: Sentences below the table.
        legend: Headings of columns or rows, each with its meaning.
    """

    first: str
    columns: tuple[Column[Any], ...]
    rows: tuple[Row, ...]
    caption: str = ""
    legend: tuple[tuple[str, str], ...] = ()

    def select(self, keys: Sequence[str]) -> "Table":
        """Return the table with some of its columns, in the order of their keys.

        Args:
            keys: Keys of the columns.

        Returns:
            The table. Caption and legend are unchanged.

        Raises:
            LookupError: If the table has no column for one of the keys.
        """
        by_key = {column.key: column for column in self.columns}
        missing = [key for key in keys if key not in by_key]
        if missing:
            raise LookupError(
                f"there is no column {', '.join(map(repr, missing))}. "
                f"Available: {', '.join(by_key)}"
            )
        return replace(self, columns=tuple(by_key[key] for key in keys))

    def has_values(self, column: Column[Any]) -> bool:
        """Return whether any cell of a column has a number of ours."""
        return any(row.cells[column.key].text != DASH for row in self.rows)

    def has_published(self, column: Column[Any]) -> bool:
        """Return whether any cell of a column has a published number."""
        return any(row.cells[column.key].published != DASH for row in self.rows)


def build_table(first: str, columns: Sequence[Column[T]], items: Iterable[tuple[str, T]]) -> Table:
    """Build a table from columns and the items in its rows. Empty columns are left out.

    Args:
        first: Heading of the first column.
        columns: The other columns.
        items: The items in the rows, each with the label of its row.

    Returns:
        The table.
    """
    rows = tuple(
        Row(
            label,
            {column.key: Cell(column.value(item), column.published(item)) for column in columns},
        )
        for label, item in items
    )
    table = Table(first, tuple(columns), rows)
    kept = (
        column for column in columns if table.has_values(column) or table.has_published(column)
    )
    return replace(table, columns=tuple(kept))


def group_table(groups: Sequence[Group], keys: Sequence[str] | None = None) -> Table:
    """Build the table of results of some groups, with published numbers.

    Args:
        groups: The groups, one for each row.
        keys: Names of metrics and other columns to show, in this order. All if `None`.

    Returns:
        The table.

    Raises:
        LookupError: If no group has a number for one of the keys.
    """
    items = [(group.label, group) for group in groups]
    table = build_table("method", result_columns(groups), items)
    if keys is not None:
        table = table.select(keys)
    pairs = zip(table.rows, groups, strict=True)
    rows = tuple(replace(row, note=_unfinished(group)) for row, group in pairs)
    return replace(_explain(table, groups), rows=rows)


def result_columns(groups: Sequence[Group]) -> list[Column[Group]]:
    """Return all columns of a table of results: metrics, times, memory and facts of the runs."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    names |= dict.fromkeys(name for group in groups for name in group.info.published)
    costs = (STEP_TIME, STEP_TIME_WITH_VALIDATION, MEMORY)
    metrics = [_metric_column(name) for name in names if name not in costs]
    step, with_validation, memory = (_metric_column(name, "cost") for name in costs)
    bases = baselines(groups)
    columns = [
        *metrics,
        step,
        with_validation,
        _ratio_column("time_ratio", "time ratio", STEP_TIME, bases),
        memory,
        _ratio_column("memory_ratio", "memory ratio", MEMORY, bases),
        Column("iterations", "iterations", lambda group: _range(group, "iterations")),
        Column("seeds", "seeds", _seeds),
    ]
    if not groups[0].first.target:
        columns += [
            Column("parameters", "parameters", lambda group: _range(group, "parameters")),
            Column("training_time", "training time", _training_time),
        ]
    return columns


def main_results(groups: Sequence[Group]) -> Table:
    """Build the table of results with the main columns only, for the terminal.

    Args:
        groups: The groups, one for each row.

    Returns:
        The metrics and costs with published numbers to compare with, or all metrics and the time
        of a step if there are none, and the number of seeds.
    """
    table = group_table(groups)

    def select(kind: str, default: Sequence[str]) -> list[str]:
        columns = [column for column in table.columns if column.kind == kind]
        compared = [o.key for o in columns if table.has_published(o) and table.has_values(o)]
        return compared or [column.key for column in columns if column.key in default]

    every = [column.key for column in table.columns]
    keys = {*select("metric", every), *select("cost", (STEP_TIME, "time_ratio")), "seeds"}
    return _explain(table.select([key for key in every if key in keys]), groups)


def baselines(groups: Sequence[Group]) -> dict[str, Group]:
    """Return the group that the times and memory of each group are compared with, by label.

    In a target it is the group of the row's baseline. Elsewhere it is the first group.
    """
    if not groups[0].first.target:
        return {group.label: groups[0] for group in groups}
    by_row = {group.first.row: group for group in reversed(groups)}
    return {
        group.label: by_row[group.info.baseline]
        for group in groups
        if group.info.baseline in by_row
    }


def comparison_table(group: Group) -> Table:
    """Build the table of a group's metrics beside those of reference densities."""
    compared = {comparison.metric: comparison for comparison in group.comparisons}
    names = dict.fromkeys([*compared, *(name for run in group.runs for name in run.metrics)])
    references = dict.fromkeys(
        name for comparison in compared.values() for name in comparison.references
    )

    def model_value(name: str) -> str:
        mean = compared[name].model if name in compared else group.mean(name)[0]
        return metric_info(name).format(mean)

    def reference_column(reference: str) -> Column[str]:
        def value(name: str) -> str:
            measured = compared[name].references if name in compared else {}
            return metric_info(name).format(measured[reference]) if reference in measured else DASH

        return Column(f"reference {reference}", reference, value)

    columns = [Column("model", "model", model_value), *map(reference_column, references)]
    metrics = [metric_info(name) for name in names]
    table = build_table("metric", columns, [(metric.heading, metric.name) for metric in metrics])
    legend = tuple((m.heading, m.explanation) for m in metrics if m.explanation)
    over = "test rows" if len(group.counted) == 1 else "seeds"
    caption = f"± is the standard error over {over}."
    return replace(table, legend=legend, caption=caption)


def study_table(study: StudyRecord) -> Table:
    """Build the table of the numbers of a study."""

    def settings(measured: Measurement) -> str:
        return ", ".join(f"{k} {text(v)}" for k, v in measured.settings.items()) or DASH

    columns = [
        Column[Measurement]("value", "value", str),
        Column[Measurement]("settings", "measured with", settings),
    ]
    numbers = study.numbers.items()
    return build_table("number", columns, [(metric_info(k).heading, v) for k, v in numbers])


def format_mean(group: Group, name: str) -> str:
    """Format the mean over seeds of a metric. The error of a single seed is marked."""
    mean, count = group.mean(name)
    if not count:
        return DASH
    shown = metric_info(name).format(mean)
    return shown + ONE_SEED if count == 1 and "±" in shown else shown


def _metric_column(name: str, kind: Literal["metric", "cost"] = "metric") -> Column[Group]:
    metric = metric_info(name)

    def published(group: Group) -> str:
        numbers = group.info.published
        return metric.format_published(numbers[name]) if name in numbers else DASH

    return Column(
        name,
        metric.heading,
        lambda group: format_mean(group, name),
        published,
        metric.explanation,
        kind,
    )


def _ratio_column(
    key: str, heading: str, metric: str, bases: Mapping[str, Group]
) -> Column[Group]:
    """Return the column of a ratio to the baseline, empty if each group is its own baseline."""
    compares = any(base.label != label for label, base in bases.items())

    def value(group: Group) -> str:
        base = bases.get(group.label)
        if not compares or base is None or not group.is_timed_with(base):
            return DASH
        return format_ratio(group.mean(metric)[0].value, base.mean(metric)[0].value)

    def published(group: Group) -> str:
        base = bases.get(group.label)
        pair = [] if base is None or not compares else [group.info.published, base.info.published]
        numbers = [by_metric[metric].value for by_metric in pair if metric in by_metric]
        return format_ratio(*numbers) if len(numbers) == 2 else DASH

    return Column(key, heading, value, published, kind="cost")


def _seeds(group: Group) -> str:
    finished, count = len(group.finished), len(group.runs)
    return str(count) if finished == count else f"{finished} of {count}"


def _unfinished(group: Group) -> str:
    count = len(group.runs) - len(group.finished)
    return f"{count} unfinished" if count else ""


def _training_time(group: Group) -> str:
    seconds = [run.seconds for run in group.counted if not math.isnan(run.seconds)]
    return format_duration(fmean(seconds)) if seconds else DASH


def _range(group: Group, attribute: Literal["iterations", "parameters"]) -> str:
    values = [getattr(run, attribute) for run in group.counted]
    finite = [round(value) for value in values if math.isfinite(value)]
    if not finite:
        return DASH
    low, high = min(finite), max(finite)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _explain(table: Table, groups: Sequence[Group]) -> Table:
    """Return the table with a caption and a legend for its columns."""
    legend = tuple((column.heading, column.meaning) for column in table.columns if column.meaning)
    return replace(table, caption=_caption(groups, table), legend=legend)


def _caption(groups: Sequence[Group], table: Table) -> str:
    """Return sentences on the errors, times and ratios in a table."""
    keys = {column.key: column.heading for column in table.columns}
    means = [group.mean(key) for group in groups for key in keys]
    parts = []
    if any(count > 1 and mean.error is not None for mean, count in means):
        parts += ["Mean over seeds ± standard error over seeds.", _test_set_errors(groups, keys)]
    if any(count == 1 and mean.error is not None for mean, count in means):
        parts.append(
            f"{ONE_SEED} One seed: ± is the standard error of the measurement and excludes the "
            "variation between seeds."
        )
    if any(0 < len(group.finished) < len(group.runs) for group in groups):
        parts.append("Means exclude unfinished runs.")
    if "time_ratio" in keys or "memory_ratio" in keys:
        parts.append(_baseline_sentence(groups))
    untimed = [group.label for group in groups if not group.is_timed_with(group)]
    if untimed and STEP_TIME in keys:
        rows = "" if len(untimed) == len(groups) else f" of {', '.join(untimed)}"
        parts.append(f"Times{rows} were measured during training and cannot be compared.")
    if any(table.has_published(column) for column in table.columns):
        parts.append("Published numbers were measured at another scale or on another machine.")
    return " ".join(filter(None, parts))


def _test_set_errors(groups: Sequence[Group], keys: Mapping[str, str]) -> str:
    """Return the range of the errors that more seeds do not reduce, for each metric."""
    ranges = []
    for key, heading in keys.items():
        repeated = [group for group in groups if group.mean(key)[1] > 1]
        errors = [error for group in repeated if (error := group.test_set_error(key)) > 0]
        if errors and all(map(math.isfinite, errors)):
            ends = (format_number(float(f"{end(errors):.2g}")) for end in (min, max))
            ranges.append(f"{heading} ± {' to '.join(dict.fromkeys(ends))}")
    start = "This excludes test-set sampling error, which all seeds share"
    return f"{start}: {'; '.join(ranges)}." if ranges else ""


def _baseline_sentence(groups: Sequence[Group]) -> str:
    bases = baselines(groups)
    if len({base.label for base in bases.values()}) == 1:
        return f"Ratios are relative to {next(iter(bases.values())).label}."
    pairs = [f"{label} to {base.label}" for label, base in bases.items() if label != base.label]
    return f"Ratios are relative: {', '.join(pairs)}."
