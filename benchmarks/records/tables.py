"""Tables of ratios: methods in rows, problems in columns, one table for each mode."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from .check import Slower
from .curves import Trainings
from .record import Cost, Record

if TYPE_CHECKING:
    from rich.table import Table

MISSING = "-"


@dataclass(frozen=True)
class RatioTable:
    """A table of texts.

    Attributes:
        title: What is shown, and relative to what.
        head: Headings of the columns.
        rows: The rows, each with a label first.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.head, (":--", *["--:"] * (len(self.head) - 1)), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def terminal(self) -> "Table":
        """Return the table for the terminal."""
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        for index, heading in enumerate(self.head):
            table.add_column(heading, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def tables_of(results: Record | Trainings) -> list[RatioTable]:
    """Return the tables of costs or of trainings."""
    if isinstance(results, Record):
        return ratio_tables(results)
    return training_tables(results)


def ratio_tables(record: Record, *, quartiles: bool = True) -> list[RatioTable]:
    """Return one table for each mode of a record.

    A cell is the ratio of the fastest runs. The row of the reference shows its cost.

    Args:
        record: The results.
        quartiles: Whether cells also have the quartiles of the ratios of neighboring runs.

    Returns:
        The tables.
    """
    tables = []
    for mode, reference in record.references.items():
        costs = {(c.problem, c.case): c for c in record.costs if c.case.mode == mode}
        problems = list(dict.fromkeys(problem for problem, _ in costs))
        rows = []
        for case in dict.fromkeys(case for _, case in costs):
            cells = [
                _cell(record, costs.get((problem, case)), quartiles=quartiles)
                for problem in problems
            ]
            rows.append((f"{case.method}, {case.by}", *cells))
        title = f"{mode}: {record.unit} relative to {reference.label}"
        if rows:
            tables.append(RatioTable(title, (mode, *problems), tuple(rows)))
    return tables


def _cell(record: Record, cost: Cost | None, *, quartiles: bool) -> str:
    if cost is None:
        return MISSING
    if cost.case == record.references[cost.case.mode]:
        return format_amount(min(cost.samples), record.unit)
    ratio = record.ratio(cost)
    return str(ratio) if quartiles else f"{ratio.fastest:.2f}"


def format_amount(amount: float, unit: str) -> str:
    """Return seconds in milliseconds, and bytes in megabytes.

    Example:
        >>> format_amount(0.0123, "seconds"), format_amount(3_400_000, "bytes")
        ('12.3 ms', '3.4 MB')
    """
    return f"{amount * 1e3:.3g} ms" if unit == "seconds" else f"{amount / 1e6:.3g} MB"


def training_tables(trainings: Trainings) -> list[RatioTable]:
    """Return a table for each problem: held-out losses at equal CPU time, and times.

    The loss to reach is the lowest that torchebm ends with, or the lowest written by hand if
    torchebm was not measured.

    Args:
        trainings: The results.

    Returns:
        The tables.
    """
    return [_training_table(trainings, problem) for problem in trainings.problems]


def _training_table(trainings: Trainings, problem: str) -> RatioTable:
    budget, target = trainings.seconds, target_loss(trainings, problem)
    head = (problem, f"loss after {budget:g} s", "compilation counted", "first steps",
            "time to the loss of others", "steps")  # fmt: skip
    rows = []
    for method in trainings.methods(problem):
        reached = trainings.seconds_to(problem, method, target)
        steps = fmean(curve.steps for curve in trainings.of(problem, method))
        rows.append((
            method,
            str(trainings.final_loss(problem, method, count_compilation=False)),
            str(trainings.final_loss(problem, method, count_compilation=True)),
            f"{trainings.compile_seconds(problem, method):.1f} s",
            MISSING if reached is None else f"{reached:.2f} s ({reached / budget:.3f})",
            f"{steps:,.0f}",
        ))  # fmt: skip
    title = f"{problem}: exact score-matching loss of test data, mean ± standard error over seeds"
    return RatioTable(title, head, tuple(rows))


def target_loss(trainings: Trainings, problem: str) -> float:
    """Return the lowest mean final loss of torchebm, or of the loss written by hand."""
    methods = trainings.methods(problem)
    others = [m for m in methods if m.endswith("torchebm")]
    others = others or [m for m in methods if m.endswith("by hand")]
    finals = (trainings.final_loss(problem, m, count_compilation=False) for m in others)
    return min(final.value for final in finals)


def slower_table(slower: Sequence[Slower]) -> RatioTable:
    """Return a table of cases that have become slower."""
    rows = tuple(
        (item.case.label, item.problem, f"{item.before:.2f}", f"{item.after:.2f}",
         f"{item.after / item.before - 1:+.0%}")
        for item in slower
    )  # fmt: skip
    return RatioTable("Slower", ("case", "problem", "committed", "now", "change"), rows)
