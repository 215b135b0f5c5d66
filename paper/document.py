r"""Generates a Markdown document in which every number comes from a file of results.

A jinja template calls functions that look up results. They fail if there is no such result:

    FD-SSM reaches {{ value("table1", "RedWine FD-SSM", "nll") }} nats. The paper reports
    {{ published("table1", "RedWine FD-SSM", "nll") }}.

    {{ table("table1", data="RedWine", columns=["nll", "milliseconds_per_iteration"]) }}

`python -m paper.document` writes docs/reproduction.md.
"""

import argparse
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from fdsm.atomic_io import replace_file
from fdsm.measurement import Measurement, format_number
from fdsm.serialize import Json

from .catalogue import claim, published, target_infos
from .report import (
    ONE_SEED,
    STEP_TIME,
    Collection,
    Experiment,
    Group,
    PublishedValue,
    RunRecord,
    StudyRecord,
    deviation_name,
    escape,
    format_duration,
    format_mean,
    format_published,
    format_ratio,
    group_table,
    markdown,
    mean_of_numbers,
    metric_info,
    period,
    read_folders,
    render_template,
    study_table,
    typeset,
)

GENERAL = (
    "Mean over seeds ± standard error over seeds.",
    "Published numbers were measured at another scale or on another machine.",
)
"""Sentences of captions that hold for all tables of the document."""


class MissingResultError(LookupError):
    """The document asks for a result that does not exist."""


def render(template: Path, results: Path, *, link_from: Path | None = None) -> str:
    """Return the document made from a template and a folder of results.

    Figures in the document are written to the subfolder `figures` of the results.

    Args:
        template: A jinja template that calls the methods of `Results`.
        results: The folder, `results/TARGET/ROW/SEED` for runs and `results/TARGET` for studies.
        link_from: The folder from which images are linked. Default: that of the template.

    Returns:
        The document in Markdown.

    Raises:
        MissingResultError: If it asks for a result that does not exist.
    """
    collection = _with_kernel_deviations(read_folders([results], target_infos()))
    document = Results(results, link_from or template.parent, collection)
    names = [name for name in vars(Results) if not name.startswith("_")]
    functions = {
        name: getattr(document, name) for name in names if callable(getattr(document, name))
    }
    return render_template(template, functions)


def write(template: Path, results: Path, out: Path) -> Path:
    """Write the document made from a template and a folder of results.

    Args:
        template: The template.
        results: The folder of results.
        out: The file to write. Images are linked from its folder.

    Returns:
        The file.

    Raises:
        MissingResultError: If it asks for a result that does not exist. Then `out` is unchanged.
    """
    document = render(template, results, link_from=out.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft:
        draft.write_text(document, encoding="utf-8")
    return out


@dataclass(frozen=True)
class Results:
    """Results by target, row and metric, as text for a document.

    Attributes:
        folder: The folder of results.
        link_from: The folder from which images are linked.
        collection: The runs and studies in the folder.
    """

    folder: Path
    link_from: Path
    collection: Collection

    def table(
        self,
        target: str,
        data: str | None = None,
        columns: Sequence[str] | None = None,
        rows: Sequence[str] | None = None,
    ) -> str:
        """Return a table of results with published numbers.

        Args:
            target: Name of the table or study.
            data: Name of the data, to show only rows on these data.
            columns: Names of the columns. Default: all.
            rows: Names of the rows. Default: all, in the order of the paper.

        Returns:
            The table with its caption. For a study, the table of its numbers.

        Raises:
            MissingResultError: If a row or column does not exist.
        """
        is_study = any(study.target == target for study in self.collection.studies)
        if is_study and not data and not rows:
            numbers = study_table(self._study(target))
            return markdown(numbers.select(["value"]))
        groups = self._groups(target, data)
        if rows is not None:
            groups = [self._group(target, row) for row in rows]
        try:
            shown = group_table(groups, columns)
            return markdown(replace(shown, caption=_without_general(shown.caption)))
        except LookupError as error:
            raise MissingResultError(f"{target} in {self.folder}: {error}") from error

    def legend(self, *names: str) -> str:
        """Return a list of metrics with their meaning."""
        metrics = map(metric_info, names)
        return "\n".join(f"- *{escape(m.heading)}*: {escape(m.explanation)}" for m in metrics)

    def value(self, target: str, row: str, metric: str) -> str:
        """Return the mean over seeds ± its standard error."""
        self.mean(target, row, metric)
        text = typeset(format_mean(self._group(target, row), metric))
        return text.replace(ONE_SEED, " (one seed)")

    def mean(self, target: str, row: str, metric: str) -> float:
        """Return the mean over seeds as a number."""
        group = self._group(target, row)
        mean, count = group.mean(metric)
        if not count or not group.finished:
            metrics = _list(name for run in group.runs for name in run.metrics)
            raise MissingResultError(
                f"{metric!r} of {row!r} of {target} was not measured. In {self.folder}: {metrics}"
            )
        return mean.value

    def seeds(self, target: str, row: str) -> int:
        """Return the number of finished seeds of a row."""
        return len(self._group(target, row).finished)

    def spread(self, target: str, row: str, metric: str) -> str:
        """Return the smallest and the largest value over seeds."""
        self.mean(target, row, metric)
        values = [measured.value for measured in self._group(target, row).by_seed(metric).values()]
        finite = [value for value in values if not math.isnan(value)]
        return typeset(f"{format_number(min(finite))} to {format_number(max(finite))}")

    def test_set_error(self, target: str, row: str, metric: str) -> str:
        """Return the standard error of a measurement, which more seeds do not reduce."""
        self.mean(target, row, metric)
        error = self._group(target, row).test_set_error(metric)
        if math.isnan(error):
            raise MissingResultError(f"{metric!r} of {row!r} of {target} has no error of its own")
        return format_number(float(f"{error:.2g}"))

    def published(self, target: str, row: str, metric: str) -> str:
        """Return the number in the paper."""
        value = self._published(target, row, metric)
        return typeset(metric_info(metric).format_published(value))

    def ratio(self, target: str, row: str, other: str, metric: str = STEP_TIME) -> str:
        """Return the ratio of our numbers of two rows. Times must have been interleaved."""
        first, second = (self._group(target, name) for name in (row, other))
        if metric == STEP_TIME and not first.is_timed_with(second):
            raise MissingResultError(
                f"the steps of {row!r} and {other!r} of {target} were not timed interleaved, so "
                "their times cannot be compared"
            )
        return format_ratio(self.mean(target, row, metric), self.mean(target, other, metric))

    def published_ratio(self, target: str, row: str, other: str, metric: str = STEP_TIME) -> str:
        """Return the ratio of the published numbers of two rows."""
        return format_ratio(
            *(self._published(target, name, metric).value for name in (row, other))
        )

    def difference(self, target: str, row: str, other: str, metric: str) -> str:
        """Return the mean over seeds of the difference between two rows.

        Differences are taken seed by seed. The error is the standard error over seeds. A single
        seed has no error: both rows share the test data, so that their errors are not independent.

        Raises:
            MissingResultError: If the rows have no seed in common.
        """
        return typeset(str(self._difference(target, row, other, metric)))

    def differs(self, target: str, row: str, other: str, metric: str) -> bool:
        """Return whether the difference between two rows exceeds two of its errors.

        Conclusions in a template depend on it.
        """
        difference = self._difference(target, row, other, metric)
        return abs(difference.value) > 2 * (difference.error or math.inf)

    def has(self, study: str, name: str) -> bool:
        """Return whether a study has been run and has a number."""
        studies = [record for record in self.collection.studies if record.target == study]
        return any(name in record.numbers for record in studies)

    def is_published(self, target: str, row: str, metric: str) -> bool:
        """Return whether the paper has a number."""
        return metric in published(target, row)

    def measured(self, target: str, row: str, metric: str) -> bool:
        """Return whether all finished seeds of a row have a metric."""
        finished = self._group(target, row).finished
        return bool(finished) and all(metric in run.metrics for run in finished)

    def agreement(self, target: str, data: str, metric: str) -> str:
        """Return in how many runs on some data the estimates behind a metric agree."""
        runs = [run for group in self._groups(target, data) for run in group.finished]
        verdicts = [run.metrics[metric].settings.get("consistent") for run in runs]
        return f"{verdicts.count(True)} of {len(verdicts)}"

    def setting(self, study: str, name: str, setting: str) -> Json:
        """Return a setting of a number of a study, such as the number of timed steps."""
        return self._number(study, name).settings[setting]

    def _difference(self, target: str, row: str, other: str, metric: str) -> Measurement:
        for name in (row, other):
            self.mean(target, name, metric)
        first, second = (self._group(target, name).by_seed(metric) for name in (row, other))
        differences = [first[seed].value - second[seed].value for seed in first if seed in second]
        if not differences:
            raise MissingResultError(f"{row!r} and {other!r} of {target} have no seed in common")
        difference = mean_of_numbers(differences)
        for group in (self._group(target, row), self._group(target, other)):
            difference = group.with_deviation(difference, metric, len(differences))
        return difference

    def claim(self, subject: str, quantity: str) -> str:
        """Return a number that the text of the paper claims, such as a speed-up."""
        try:
            value = claim(subject, quantity)
        except LookupError as error:
            raise MissingResultError(str(error)) from error
        return typeset(format_published(value))

    def number(self, study: str, name: str) -> str:
        """Return a number of a study, with its error if it has one."""
        return typeset(str(self._number(study, name)))

    def real(self, study: str, name: str) -> float:
        """Return a number of a study as a float."""
        return self._number(study, name).value

    def figure(self, study: str) -> str:
        """Write the panels of a study as SVG files, and return links to them."""
        from .report.plots import plot_panels, svg_file

        links = []
        for number, plot in enumerate(plot_panels(self._study(study).panels), 1):
            path = self.folder / "figures" / f"{study}-{number}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as draft:
                draft.write_text(svg_file(plot.figure, f"{study} {number}"), encoding="utf-8")
            caption = f"\n\n{escape(plot.caption)}" if plot.caption else ""
            image = f"![{_plain(plot.title)}]({self._link(path)})"
            links.append(f"**{escape(plot.title)}**\n\n{image}{caption}")
        if not links:
            raise MissingResultError(f"{study} in {self.folder} has nothing to plot")
        return "\n\n".join(links)

    def picture(self, study: str, name: str) -> str:
        """Return a link to a picture in the folder of a study, without its ending."""
        path = self.folder / study / f"{name}.png"
        if not path.is_file():
            raise MissingResultError(f"there is no picture {path}")
        return f"![{_plain(name)}]({self._link(path)})"

    def samples(self, target: str, row: str, seed: int | None = None) -> str:
        """Return an image of the samples of a row. Default: of its first seed with samples."""
        for run in self._group(target, row).runs:
            if run.samples is not None and (seed is None or run.seed == str(seed)):
                path = self.folder / Path(run.folder).relative_to(self.folder.resolve().name)
                return f"![{_plain(row)}, seed {run.seed}]({self._link(path / 'samples.png')})"
        asked = "" if seed is None else f" with seed {seed}"
        raise MissingResultError(
            f"there are no samples of {row!r}{asked} in {self.folder / target}"
        )

    def provenance(self, target: str) -> str:
        """Return when and with which versions the results of a target were made.

        For a study it includes the source of its settings. Those of a row are in its
        `config.json`.
        """
        studies = [study for study in self.collection.studies if study.target == target]
        runs = [] if studies else [run for group in self._groups(target) for run in group.runs]
        sources = [escape(study.entry("provenance")) for study in studies]
        return "\n\n".join(filter(None, [*sources, escape(_made_on([*studies, *runs]))]))

    def duration(self, target: str, row: str) -> str:
        """Return the mean time of training of the finished runs of a row."""
        seconds = [run.seconds for run in self._group(target, row).finished]
        return format_duration(mean_of_numbers(seconds).value)

    def durations(self) -> str:
        """Return a table of the time of each target: of training, or of the whole study."""
        rows = [
            f"| {target} | {format_duration(seconds)} |"
            for target, seconds in sorted(self.collection.seconds.items())
        ]
        return "\n".join(["| target | time |", "| :-- | --: |", *rows])

    def _groups(self, target: str, data: str | None = None) -> list[Group]:
        of_target = [
            experiment for experiment in self.collection.experiments if experiment.target == target
        ]
        chosen = [experiment for experiment in of_target if data in {None, experiment.data}]
        if not chosen:
            available = _list(experiment.data for experiment in of_target)
            on = "" if data is None else f" on {data!r} (available: {available})"
            raise MissingResultError(f"there is no run of {target}{on} in {self.folder}")
        if len({experiment.scale for experiment in chosen}) > 1:
            raise MissingResultError(f"{self.folder / target} has runs of more than one scale")
        return [group for experiment in chosen for group in experiment.groups]

    def _group(self, target: str, row: str) -> Group:
        groups = self._groups(target)
        matching = [group for group in groups if row in {group.first.row, group.label}]
        if not matching:
            raise MissingResultError(
                f"there is no row {row!r} of {target} in {self.folder}. "
                f"Available: {_list(group.first.row for group in groups)}"
            )
        exact = [group for group in matching if group.label == row]
        if len(matching) > 1 and len(exact) != 1:
            raise MissingResultError(
                f"there are several rows {row!r} of {target} in {self.folder}: "
                f"{_list(group.label for group in matching)}"
            )
        return (exact or matching)[0]

    def _published(self, target: str, row: str, metric: str) -> PublishedValue:
        values = published(target, row)
        if metric not in values:
            raise MissingResultError(
                f"the paper has no {metric!r} of {row!r} in {target}. It has: {_list(values)}"
            )
        return values[metric]

    def _study(self, name: str) -> StudyRecord:
        matching = [study for study in self.collection.studies if study.target == name]
        if len(matching) != 1:
            available = _list(study.folder for study in matching or self.collection.studies)
            count = "more than one study" if matching else "no study"
            raise MissingResultError(
                f"there is {count} {name!r} in {self.folder}. Available: {available}"
            )
        return matching[0]

    def _number(self, study: str, name: str) -> Measurement:
        numbers = self._study(study).numbers
        if name not in numbers:
            raise MissingResultError(
                f"there is no number {name!r} in {study} of {self.folder}. "
                f"Available: {_list(numbers)}"
            )
        return numbers[name]

    def _link(self, path: Path) -> str:
        return quote(Path(os.path.relpath(path, self.link_from)).as_posix())


def _with_kernel_deviations(collection: Collection) -> Collection:
    """Return the results with the sensitivity to CPU kernels in the errors of Table 1."""
    kernels = {
        name: number.value
        for study in collection.studies
        if study.target == "kernels"
        for name, number in study.numbers.items()
    }

    def completed(group: Group, data: str) -> Group:
        metrics = {metric for run in group.runs for metric in run.metrics}
        names = {metric: deviation_name(data, metric) for metric in metrics}
        return replace(group, deviations={m: kernels[n] for m, n in names.items() if n in kernels})

    sections = tuple(
        replace(
            section,
            groups=tuple(completed(group, section.data) for group in section.groups),
        )
        if isinstance(section, Experiment) and section.target == "table1"
        else section
        for section in collection.sections
    )
    return replace(collection, sections=sections)


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, names))) or "nothing"


def _plain(title: str) -> str:
    return title.translate({ord(sign): None for sign in "[]\\"})


def _without_general(caption: str) -> str:
    """Return a caption without the sentences that the document states once for all tables."""
    for sentence in GENERAL:
        caption = caption.replace(sentence, "")
    return " ".join(caption.replace("This excludes", "Errors exclude").split())


def _made_on(records: Sequence[RunRecord | StudyRecord]) -> str:
    """Return one sentence on the time, versions and duration of some results."""
    entries = {
        "Run on": period(records),
        "with": ", ".join(dict.fromkeys(record.versions for record in records if record.versions)),
    }
    start = ", ".join(f"{word} {text}" for word, text in entries.items() if text)
    seconds = sum(record.seconds for record in records if not math.isnan(record.seconds))
    seeds = len(dict.fromkeys(record.entry("seed") for record in records))
    total = (
        "of training" if any(isinstance(record, RunRecord) for record in records) else "in total"
    )
    plural = "" if seeds == 1 else "s"
    return f"{start}. {seeds} seed{plural}, {format_duration(seconds)} {total}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document. Without arguments it is the page on the reproduction."""
    parser = argparse.ArgumentParser(
        prog="python -m paper.document",
        description="Write a document from a template and results.",
    )
    root = Path(__file__).parents[1]
    paths = {
        "template": root / "docs/reproduction.md.jinja",
        "results": root / "paper/results",
        "out": root / "docs/reproduction.md",
    }
    for name, path in paths.items():
        parser.add_argument(f"--{name}", type=Path, default=path)
    given = parser.parse_args(arguments)
    print(write(given.template, given.results, given.out))


if __name__ == "__main__":
    main()
