r"""A document in Markdown whose every number comes from a file of results.

A template of jinja has functions that look up what was measured, and that fail if it was not:

    FD-SSM reaches {{ value("table1", "RedWine FD-SSM", "nll") }} nats, the paper
    {{ published("table1", "RedWine FD-SSM", "nll") }}.

    {{ table("table1", data="RedWine", metrics=["nll", "milliseconds_per_iteration"]) }}

`python -m fdsm.report.document TEMPLATE RESULTS OUT` writes it.
"""

import argparse
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..atomic_io import replace_file
from ..report.aggregate import by_seed, mean, over_seeds, own_error
from ..report.captions import OWN
from ..report.format import duration, number, quoted, size, typeset
from ..report.json_values import Measured
from ..report.labels import BYTES, PACE
from ..report.markdown import escaped, markdown, markdown_study
from ..report.model import Collection, Group, Run
from ..report.page import drawings, period, sources
from ..report.read import collect
from ..report.studies import Study
from ..report.tables import cell
from .published import claim
from .published import published as published_numbers


class MissingError(LookupError):
    """A document asks for something of which there is no result."""


def render(template: Path, results: Path, *, beside: Path | None = None) -> str:
    """Return a document made from a template and a folder of results.

    Figures that it shows are written to `figures` in the folder of results.

    Args:
        template: The template, in jinja, with the functions that `Results` has.
        results: The folder, `results/TARGET/ROW/SEED` for runs and `results/TARGET` for studies.
        beside: The folder from which images are linked; that of the template by default.

    Returns:
        The document in Markdown, the same whenever the results are.

    Raises:
        MissingError: If it asks for what was not measured.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    found = Results(results, beside or template.parent, collect([results]))
    names = [name for name in vars(Results) if not name.startswith("_")]
    functions = {name: getattr(found, name) for name in names if callable(getattr(found, name))}
    return environment.get_template(template.name).render(functions)


def write(template: Path, results: Path, out: Path) -> Path:
    """Write a document made from a template and a folder of results.

    Args:
        template: The template.
        results: The folder of results.
        out: The file to make or replace; images are linked from its folder.

    Returns:
        The file.

    Raises:
        MissingError: If it asks for what was not measured; `out` is then as it was.
    """
    document = render(template, results, beside=out.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft:
        draft.write_text(document, encoding="utf-8")
    return out


@dataclass(frozen=True)
class Results:
    """Results by target, row and metric, as text for a document.

    Attributes:
        folder: Where they are.
        beside: The folder from which images are linked.
        collection: What was collected in the folder.
    """

    folder: Path
    beside: Path
    collection: Collection

    def table(
        self,
        target: str,
        data: str | None = None,
        metrics: Sequence[str] | None = None,
        rows: Sequence[str] | None = None,
    ) -> str:
        """Return a table of results beside the published.

        Args:
            target: The table of the paper, or the study.
            data: The name of the data, if only rows on that are wanted.
            metrics: Which numbers, if not all.
            rows: Which rows and in which order, if not all as in the paper.

        Returns:
            The table and its caption; for a study, that of its numbers.

        Raises:
            MissingError: If something of it is not there.
        """
        if not data and not rows and any(one.target == target for one in self.collection.studies):
            return markdown_study(self._study(target))
        groups = self._groups(target, data)
        if rows is not None:
            groups = [self._group(target, row) for row in rows]
        try:
            return markdown(groups, metrics)
        except LookupError as error:
            raise MissingError(f"{target} in {self.folder}: {error}") from error

    def value(self, target: str, row: str, metric: str) -> str:
        """Return what was measured: the mean over seeds ± its standard error."""
        self.mean(target, row, metric)
        text = typeset(cell(self._group(target, row), metric))
        return text.replace(OWN, " (one seed)")

    def mean(self, target: str, row: str, metric: str) -> float:
        """Return the mean over seeds as a number, to compare or to count with."""
        return self._measured(target, row, metric).value

    def seeds(self, target: str, row: str) -> int:
        """Return how many seeds of a row have finished."""
        return sum(run.finished for run in self._group(target, row).runs)

    def spread(self, target: str, row: str, metric: str) -> str:
        """Return the smallest and the largest value over seeds."""
        self.mean(target, row, metric)
        values = [one.value for one in by_seed(self._group(target, row), metric).values()]
        known = [value for value in values if not math.isnan(value)]
        return typeset(f"{number(min(known))} to {number(max(known))}")

    def own_error(self, target: str, row: str, metric: str) -> str:
        """Return the error of a measurement itself, which is the same for any number of seeds."""
        self.mean(target, row, metric)
        error = own_error(self._group(target, row), metric)
        if math.isnan(error):
            raise MissingError(f"{metric!r} of {row!r} of {target} has no error of its own")
        return number(float(f"{error:.2g}"))

    def published(self, target: str, row: str, metric: str) -> str:
        """Return what the paper says."""
        one = self._published(target, row, metric)
        return size(one.value) if metric == BYTES else typeset(quoted(one))

    def ratio(self, target: str, row: str, other: str, metric: str = PACE) -> str:
        """Return the measured number of a row over that of another; times if taken in turn."""
        one, two = (self._group(target, name) for name in (row, other))
        if metric == PACE and not one.timed_in_turn_with(two):
            raise MissingError(
                f"the times of {row!r} and {other!r} of {target} were not taken in turn, so they "
                "cannot be compared"
            )
        return f"{self.mean(target, row, metric) / self.mean(target, other, metric):.2f}"

    def published_ratio(self, target: str, row: str, other: str, metric: str = PACE) -> str:
        """Return the published number of a row over that of another."""
        above, below = (self._published(target, one, metric).value for one in (row, other))
        return f"{above / below:.2f}"

    def difference(self, target: str, row: str, other: str, metric: str) -> str:
        """Return the mean over seeds of the number of a row less that of another.

        Seed by seed, since what both rows share goes with the seed. The error is the standard one
        over seeds, and there is none of a single seed: rows share test data, so that adding
        the errors of their own measurements in squares would only give an upper bound.

        Raises:
            MissingError: If they have no seed in common.
        """
        for name in (row, other):
            self.mean(target, name, metric)
        one, two = (by_seed(self._group(target, name), metric) for name in (row, other))
        differences = [one[seed].value - two[seed].value for seed in one if seed in two]
        if not differences:
            raise MissingError(f"{row!r} and {other!r} of {target} have no seed in common")
        found = mean(differences)
        return typeset(number(found.value, found.error))

    def claim(self, subject: str, what: str) -> str:
        """Return a number that the text of the paper claims, such as a speed-up."""
        try:
            return typeset(quoted(Measured(claim(subject, what).value)))
        except LookupError as error:
            raise MissingError(str(error)) from error

    def number(self, study: str, name: str) -> str:
        """Return a number of a study, with its error if it has one."""
        one = self._number(study, name)
        return typeset(number(one.value, one.error))

    def real(self, study: str, name: str) -> float:
        """Return a number of a study to compare or to count with."""
        return self._number(study, name).value

    def figure(self, study: str) -> str:
        """Return images of the panels and graphs of a study, which are written now."""
        from ..report.training_plot import svg_file

        links = []
        for place, one in enumerate(drawings(self._study(study)), 1):
            path = self.folder / "figures" / f"{study}-{place}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as draft:
                draft.write_text(svg_file(one.figure, f"{study} {place}"), encoding="utf-8")
            caption = f"\n\n{escaped(one.caption)}" if one.caption else ""
            image = f"![{_plain(one.title)}]({self._link(path)})"
            links.append(f"**{escaped(one.title)}**\n\n{image}{caption}")
        if not links:
            raise MissingError(f"{study} in {self.folder} has nothing to draw")
        return "\n\n".join(links)

    def samples(self, target: str, row: str, seed: int | None = None) -> str:
        """Return an image of the samples of a row, of its first seed if none is given."""
        for run in self._group(target, row).runs:
            if run.samples is not None and seed in {None, _seed(run)}:
                path = self.folder / Path(run.folder).relative_to(self.folder.resolve().name)
                return f"![{_plain(row)}, seed {run.seed}]({self._link(path / 'samples.png')})"
        asked = "" if seed is None else f" with seed {seed}"
        raise MissingError(f"there are no samples of {row!r}{asked} in {self.folder / target}")

    def provenance(self, target: str) -> str:
        """Return when, where and with what the results of a target were made."""
        studies = [one for one in self.collection.studies if one.target == target]
        groups = [] if studies else self._groups(target, None)
        runs = [run for group in groups for run in group.runs]
        lines = [f"- {escaped(labels)}: {escaped(said)}" for labels, said in sources(groups)]
        lines += [
            f"- {escaped(one.said('provenance'))}" for one in studies if one.said("provenance")
        ]
        return "\n\n".join(filter(None, [escaped(_made([*studies, *runs])), "\n".join(lines)]))

    def _groups(self, target: str, data: str | None) -> list[Group]:
        of_target = [one for one in self.collection.experiments if one.target == target]
        chosen = [one for one in of_target if data in {None, one.data}]
        if not chosen:
            on = (
                ""
                if data is None
                else f" on {data!r} (there is {_list(e.data for e in of_target)})"
            )
            raise MissingError(f"there is no run of {target}{on} in {self.folder}")
        if len({one.scale for one in chosen}) > 1:
            raise MissingError(f"{self.folder / target} has runs of more than one scale")
        return [group for one in chosen for group in one.groups]

    def _group(self, target: str, row: str) -> Group:
        groups = self._groups(target, None)
        found = [group for group in groups if row in {group.row, group.label}]
        if not found:
            there = _list(group.row for group in groups)
            raise MissingError(
                f"there is no row {row!r} of {target} in {self.folder}; there is {there}"
            )
        exact = [group for group in found if group.label == row]
        if len(found) > 1 and len(exact) != 1:
            raise MissingError(
                f"there are several rows {row!r} of {target} in {self.folder}: "
                f"{_list(group.label for group in found)}"
            )
        return (exact or found)[0]

    def _measured(self, target: str, row: str, metric: str) -> Measured:
        group = self._group(target, row)
        mean, count = over_seeds(group, metric)
        if not count or not any(run.finished for run in group.runs):
            there = _list(name for run in group.runs for name in run.metrics)
            raise MissingError(
                f"{metric!r} of {row!r} of {target} was not measured; in {self.folder} there is "
                f"{there}"
            )
        return mean

    def _published(self, target: str, row: str, metric: str) -> Measured:
        known = published_numbers(target, row)
        if metric not in known:
            raise MissingError(
                f"the paper has no {metric!r} of {row!r} in {target}; it has {_list(known)}"
            )
        return Measured(known[metric].value, known[metric].error)

    def _study(self, name: str) -> Study:
        found = [one for one in self.collection.studies if one.target == name]
        if len(found) != 1:
            there = _list(one.folder for one in found or self.collection.studies)
            many = "no study" if not found else "more than one study"
            raise MissingError(f"there is {many} {name!r} in {self.folder}; there is {there}")
        return found[0]

    def _number(self, study: str, name: str) -> Measured:
        numbers = self._study(study).numbers
        if name not in numbers:
            raise MissingError(
                f"there is no number {name!r} in {study} of {self.folder}; "
                f"there is {_list(numbers)}"
            )
        return numbers[name]

    def _link(self, path: Path) -> str:
        return quote(Path(os.path.relpath(path, self.beside)).as_posix())


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, names))) or "nothing"


def _seed(run: Run) -> int | None:
    return int(run.seed) if run.seed.isdigit() else None


def _plain(title: str) -> str:
    return title.translate({ord(sign): None for sign in "[]\\"})


def _made(parts: Sequence[Run | Study]) -> str:
    said = {
        "Made": period(parts),
        "with": _list(part.versions for part in parts),
        "on": _list(part.said("machine") for part in parts),
    }
    seconds = sum(part.seconds for part in parts if not math.isnan(part.seconds))
    seeds = len(dict.fromkeys(part.said("seed") for part in parts))
    start = ", ".join(
        f"{word} {text}" for word, text in said.items() if text not in {"", "nothing"}
    )
    what = "of training" if any(isinstance(part, Run) for part in parts) else "in all"
    return f"{start}; {seeds} seed{'' if seeds == 1 else 's'}, {duration(seconds)} {what}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document that the command line asks for."""
    parser = argparse.ArgumentParser(description="Make a document from a template and results.")
    for name, what in (("template", "in jinja"), ("results", "a folder"), ("out", "in Markdown")):
        parser.add_argument(name, type=Path, help=what)
    asked = parser.parse_args(arguments)
    print(write(asked.template, asked.results, asked.out))


if __name__ == "__main__":
    main()
