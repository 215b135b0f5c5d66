"""Compare the methods over the tables, in Markdown and in the terminal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from scipy.stats import rankdata

from .methods import METHODS
from .run import LEVEL, Result, read_results, result_key
from .tables import Array

MANY_NORMALS = 200
FEW_ROWS = 150


@dataclass(frozen=True)
class Section:
    """A titled table of text, with a note below it.

    Attributes:
        title: The title.
        header: The names of the columns.
        rows: The cells. Two asterisks on each side of a cell are bold.
        note: Text below the table.
        labels: Number of columns that are labels, aligned to the left.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    labels: int = 1

    def markdown(self) -> str:
        """Return the section in Markdown."""
        rule = ["---"] * self.labels + ["---:"] * (len(self.header) - self.labels)
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, rule, *self.rows)]
        return "\n".join([f"## {self.title}", "", *lines, *(["", self.note] if self.note else [])])

    def show(self, console: Console) -> None:
        """Print the section, or where it can be read if the terminal is too narrow."""
        table = RichTable(title=self.title, title_justify="left")
        for index, name in enumerate(self.header):
            is_label = index < self.labels
            table.add_column(name, justify="left" if is_label else "right", no_wrap=is_label)
        for row in self.rows:
            cells = [(c.removeprefix("**").removesuffix("**"), c.startswith("**")) for c in row]
            table.add_row(*(Text(cell, "bold" if best else "") for cell, best in cells))
        unlimited = console.options.update(width=10_000)
        if console.measure(table, options=unlimited).maximum <= console.width:
            console.print(table)
            console.print(self.note)
        else:
            console.print(f"{self.title}: see the file of results, or use a wider terminal.")


@dataclass(frozen=True)
class Results:
    """The results of some methods on some tables.

    A method takes part in the comparison if it has a result, which may be an error, on every
    table for every seed. The comparison is over the tables on which none of them failed.

    Attributes:
        by_method: For each method and table one result per seed; methods without a random seed
            have one result. None where a result does not exist yet.
        tables: Names of the tables.
    """

    by_method: Mapping[str, Mapping[str, list[Result | None]]]
    tables: Sequence[str]

    @classmethod
    def read(
        cls, out: Path, tables: Sequence[str], methods: Sequence[str], seeds: int
    ) -> "Results":
        """Read the files of results.

        Args:
            out: The folder of the results.
            tables: Names of the tables.
            methods: Names of the methods.
            seeds: Number of random seeds.

        Returns:
            The results.
        """
        written = {table: read_results(out, table) for table in tables}
        by_method = {
            method: {
                table: [
                    written[table].get(result_key(method, seed))
                    for seed in range(seeds if METHODS[method].seeded else 1)
                ]
                for table in tables
            }
            for method in methods
        }
        return cls(by_method, tables)

    @cached_property
    def methods(self) -> list[str]:
        """The methods that have finished every table."""
        return [method for method in self.by_method if not self.unfinished(method)]

    def unfinished(self, method: str) -> int:
        """Return the number of tables without all results of a method."""
        return sum(None in results for results in self.by_method[method].values())

    def has_any(self, method: str) -> bool:
        """Whether a method has a result on any table."""
        return any(result for results in self.by_method[method].values() for result in results)

    @cached_property
    def failures(self) -> list[Result]:
        """The results that are errors."""
        return [
            result
            for method in self.methods
            for results in self.by_method[method].values()
            for result in results
            if result is not None and "error" in result
        ]

    @cached_property
    def compared(self) -> list[str]:
        """The tables on which no method failed."""
        failed = {failure["table"] for failure in self.failures}
        return [table for table in self.tables if table not in failed]

    def per_seed(self, method: str, key: str, tables: Sequence[str]) -> Array:
        """Return the values of a method, shape `(seeds, tables)`."""
        results = self.by_method[method]
        columns = [[result[key] for result in results[t] if result is not None] for t in tables]
        return np.array(columns, dtype=np.float64).T

    def means(self, method: str, key: str, tables: Sequence[str]) -> Array:
        """Return the mean over the seeds for each table."""
        means: Array = self.per_seed(method, key, tables).mean(0)
        return means

    def fact(self, table: str, key: str) -> int:
        """Return a size of a table."""
        result = self.by_method[self.methods[0]][table][0]
        return int(result[key]) if result else 0

    def have(self, key: str) -> list[str]:
        """Return the methods with this value in all results on the tables compared."""
        return [
            method
            for method in self.methods
            if all(
                result is not None and key in result
                for table in self.compared
                for result in self.by_method[method][table]
            )
        ]


def sections(results: Results, complete: Results | None = None) -> list[Section]:
    """Return the comparison.

    Args:
        results: The results.
        complete: The results without missing cells, if cells were deleted in `results`.

    Returns:
        A section for all tables and for each group of tables, then calibration, samples, failures
        and one row per table. Sections without content are left out.
    """
    if not results.methods or not results.compared:
        return []
    groups = {"All tables": results.compared}
    for table in results.compared:
        groups.setdefault(table.split("_", 1)[0], []).append(table)
    if len(groups) == 2:
        del groups[list(groups)[1]]
    made = [overall(results, title, tables, complete) for title, tables in groups.items()]
    made += [calibration(results), samples(results, groups), failures(results), each(results)]
    return [section for section in made if section.rows]


def overall(
    results: Results, title: str, tables: Sequence[str], complete: Results | None = None
) -> Section:
    """Return the means, ranks, wins and times of all methods, the best method first."""
    roc = np.array([results.means(m, "auc_roc", tables) for m in results.methods])
    ranks = rankdata(-roc.round(6), axis=0).mean(1)
    wins = (roc.round(6) == roc.round(6).max(0)).sum(1)
    rows = []
    for index in np.argsort(-roc.mean(1), kind="stable"):
        method = results.methods[index]
        per_seed = results.per_seed(method, "auc_roc", tables).mean(1)
        seconds = results.means(method, "fit_seconds", tables)
        row = [
            METHODS[method].title,
            percent(per_seed.mean()) + deviation(per_seed),
            percent(results.means(method, "auc_pr", tables).mean()),
            f"{ranks[index]:.2f}",
            str(wins[index]),
            f"{np.median(seconds):.2f}",
            f"{seconds.mean():.2f}",
        ]
        if complete is not None:
            row.insert(2, change(per_seed.mean(), complete, method, tables))
        rows.append(row)
    header = ["method", "AUC-ROC", "AUC-PR", "mean rank", "wins", "median s", "mean s"]
    if complete is not None:
        header.insert(2, "change")
    return Section(f"{title} ({len(tables)})", header, rows)


def change(mean: float, complete: Results, method: str, tables: Sequence[str]) -> str:
    """Return the difference from the mean AUC-ROC on the same tables without missing cells."""
    if method not in complete.methods or not set(tables) <= set(complete.compared):
        return "—"
    return f"{100 * (mean - complete.means(method, 'auc_roc', tables).mean()):+.2f}"


def calibration(results: Results) -> Section:
    """Return the shares of p-values of normal test rows that are below 0.05."""
    tables = results.compared
    large = [t for t in tables if results.fact(t, "test_normals") >= MANY_NORMALS]
    small = [t for t in tables if results.fact(t, "train_rows") < FEW_ROWS]

    def share(method: str, some: Sequence[str], reduce: Callable[[Array], float]) -> str:
        values = results.per_seed(method, "p_below_level", some)
        return f"{reduce(values):.3f}" if values.size else "—"

    rows = [
        [
            METHODS[method].title,
            share(method, tables, np.mean),
            share(method, large, np.min),
            share(method, large, np.max),
            share(method, small, np.mean),
        ]
        for method in results.have("p_below_level")
    ]
    header = [
        "method",
        f"mean ({len(tables)} tables)",
        f"smallest ({len(large)} large tables)",
        f"largest ({len(large)} large tables)",
        f"mean ({len(small)} small tables)",
    ]
    note = (
        f"Share of normal test rows with a p-value below {LEVEL}. It should be {LEVEL}. Large: at "
        f"least {MANY_NORMALS} normal test rows; the smallest and largest are over single runs. "
        f"Small: fewer than {FEW_ROWS} training rows."
    )
    return Section("Calibration of the p-values", header, rows, note)


def samples(results: Results, groups: Mapping[str, Sequence[str]]) -> Section:
    """Return the AUC of a random forest that separates samples from held-out normal rows."""
    rows = []
    for method in results.have("sample_auc"):
        cells = []
        for tables in groups.values():
            per_seed = results.per_seed(method, "sample_auc", tables).mean(1)
            cells.append(f"{per_seed.mean():.3f}" + deviation(per_seed, scale=1, digits=3))
        rows.append([METHODS[method].title, *cells])
    note = (
        "Mean AUC of a random forest that separates samples from held-out normal rows. 0.5: it "
        "cannot separate them. 1: it always can."
    )
    return Section("Samples", ["method", *groups], rows, note)


def failures(results: Results) -> Section:
    """Return the errors, one row for each."""
    rows = [
        [f["table"], METHODS[f["method"]].title, str(f["seed"]), f["error"].replace("\n", " ")]
        for f in results.failures
    ]
    note = "These tables are left out of the means, ranks and wins of all methods."
    return Section("Failures", ["table", "method", "seed", "error"], rows, note, labels=4)


def each(results: Results) -> Section:
    """Return one row per table with the AUC-ROC of every method, the highest in bold."""
    rows = []
    for table in results.tables:
        values = {
            method: results.means(method, "auc_roc", [table])[0]
            for method in results.methods
            if not any(result and "error" in result for result in results.by_method[method][table])
        }
        best = max(values.values(), default=0.0)
        cells = [
            cell(values[method], best) if method in values else "failed"
            for method in results.methods
        ]
        sizes = [str(results.fact(table, key)) for key in ("train_rows", "columns")]
        rows.append([table, *sizes, *cells])
    header = ["table", "rows", "columns", *(METHODS[method].title for method in results.methods)]
    return Section("AUC-ROC of each table", header, rows, "Rows are training rows.")


def cell(value: float, best: float) -> str:
    """Return an AUC in percent, in bold if it is the best."""
    text = f"{100 * value:.1f}"
    return f"**{text}**" if round(value, 6) == round(best, 6) else text


def percent(value: float) -> str:
    """Return a fraction in percent."""
    return f"{100 * value:.2f}"


def deviation(per_seed: Array, scale: float = 100, digits: int = 2) -> str:
    """Return the standard deviation over the seeds, or nothing if there is one seed."""
    return f" ± {scale * per_seed.std(ddof=1):.{digits}f}" if len(per_seed) > 1 else ""
