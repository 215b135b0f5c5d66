"""The page on performance, in which every number comes from a file of results.

Run it with `python -m benchmarks page`.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from fdsm.atomic_io import replace_file
from paper.report import render_template

from .curves import Trainings
from .goals import goal_table
from .record import Case, Record, read_record
from .tables import ratio_tables, training_tables

TRAINING = "time-to-loss"
NOT_MEASURED = "*Not measured yet.*"


def render(template: Path, results: Path, *, link_from: Path | None = None) -> str:
    """Return the page made from a template and a folder of results.

    Args:
        template: A jinja template that calls the methods of `Page`.
        results: The folder of JSON files.
        link_from: The folder from which plots are linked. Default: that of the template.

    Returns:
        The page in Markdown.
    """
    records = {
        path.stem: read_record(path, Record)
        for path in sorted(results.glob("*.json"))
        if path.stem != TRAINING
    }
    path = results / f"{TRAINING}.json"
    trainings = read_record(path, Trainings) if path.exists() else None
    page = Page(results, link_from or template.parent, records, trainings)
    names = [name for name in vars(Page) if not name.startswith("_")]
    functions = {name: getattr(page, name) for name in names if callable(getattr(page, name))}
    return render_template(template, functions)


@dataclass(frozen=True)
class Page:
    """Results as text for the page.

    Attributes:
        folder: The folder of results.
        link_from: The folder from which plots are linked.
        records: Costs by name of the benchmark.
        trainings: Held-out losses, if they were measured.
    """

    folder: Path
    link_from: Path
    records: dict[str, Record]
    trainings: Trainings | None

    def measured(self, name: str) -> bool:
        """Return whether a benchmark was measured."""
        return name in self.records or (name == TRAINING and self.trainings is not None)

    def tables(self, name: str, *modes: str) -> str:
        """Return the tables of a benchmark, of all or of some modes, with its plots."""
        results = self._results(name)
        if results is None:
            return NOT_MEASURED
        if isinstance(results, Record):
            shown = ratio_tables(results, quartiles=False)
            shown = [table for table in shown if not modes or table.head[0] in modes]
        else:
            shown = training_tables(results)
        texts = [f"**{table.title}**\n\n{table.markdown()}" for table in shown]
        return "\n\n".join([*texts, self.plots(name)])

    def plots(self, name: str) -> str:
        """Return the plots of a benchmark."""
        if self._results(name) is None:
            return NOT_MEASURED
        files = sorted(self.folder.glob(f"{name}*.svg"))
        return "\n\n".join(f"![{plot.stem}]({self._link(plot)})" for plot in files)

    def provenance(self) -> str:
        """Return when and where the benchmarks were measured."""
        results: dict[str, Record | Trainings] = dict(self.records)
        if self.trainings is not None:
            results[TRAINING] = self.trainings
        names: dict[str, list[str]] = {}
        for name, measured in results.items():
            machine = ", ".join(f"{key} {value}" for key, value in measured.machine.items())
            names.setdefault(f"measured on {measured.date}: {machine}.", []).append(name)
        lines = [f"- {', '.join(of_machine)}: {text}" for text, of_machine in names.items()]
        return "\n".join(lines) or NOT_MEASURED

    def goals(self) -> str:
        """Return the table of goals."""
        table = goal_table(self.records)
        return table.markdown() if table.rows else NOT_MEASURED

    def ratio(
        self, name: str, problem: str, mode: str, method: str, to: str, *, by: str = "fdsm",
        to_by: str = "fdsm", to_mode: str | None = None,
    ) -> str:  # fmt: skip
        """Return the ratio of a case to another one, as text.

        Args:
            name: Name of the benchmark.
            problem: Name of the problem.
            mode: Mode of the case.
            method: Method of the case.
            to: Method of the other case.
            by: Package of the case.
            to_by: Package of the other case.
            to_mode: Mode of the other case. Default: the same.

        Returns:
            The ratio of the fastest runs with its quartiles.
        """
        record = self.records[name]
        other = record.cost(problem, Case(to_mode or mode, to, to_by))
        return str(record.cost(problem, Case(mode, method, by)).ratio_to(other))

    def _link(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.link_from)).as_posix()

    def _results(self, name: str) -> Record | Trainings | None:
        return self.trainings if name == TRAINING else self.records.get(name)


def write(template: Path, results: Path, out: Path) -> Path:
    """Write the page made from a template and a folder of results."""
    page = render(template, results, link_from=out.parent)
    with replace_file(out) as draft:
        draft.write_text(page, encoding="utf-8")
    return out


def main(arguments: list[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page")
    root = Path(__file__).parents[2]
    paths = {
        "template": root / "docs/performance.md.jinja",
        "results": root / "benchmarks/results/costs",
        "out": root / "docs/performance.md",
    }
    for name, path in paths.items():
        parser.add_argument(f"--{name}", type=Path, default=path)
    given = parser.parse_args(arguments)
    print(write(given.template, given.results, given.out))
