"""The HTML page: tables, plots, samples and settings in one self-contained file.

Text from a run folder is escaped, and the page loads no other files.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fdsm.atomic_io import replace_file
from fdsm.extras import name_missing_extra

from .aggregate import Collection, Experiment, Group
from .format import DASH, format_duration, format_time, typeset
from .records import FolderRecord, StudyRecord, differing_paths, text
from .tables import Table, comparison_table, group_table, study_table

if TYPE_CHECKING:
    from .plots import Plot

ESTIMATES = ("log_partition", "effective_sample_size")
"""Entries recorded beside the settings of a measurement that are estimates and not settings."""


@dataclass(frozen=True)
class Section:
    """The part of the page on an experiment or a study.

    Attributes:
        content: The experiment or study.
        table: The main table.
        plots: The plots, each with its SVG element.
    """

    content: Experiment | StudyRecord
    table: Table
    plots: "tuple[tuple[Plot, str], ...]"

    @property
    def is_study(self) -> bool:
        """Whether the content is a study."""
        return isinstance(self.content, StudyRecord)


def write_page(collection: Collection, path: Path, title: str = "fdsm report") -> Path:
    """Write the report on runs and studies as one HTML file.

    The same runs give the same bytes.

    Args:
        collection: The runs and studies.
        path: The file to write.
        title: Title of the page.

    Returns:
        The file.

    Raises:
        ImportError: If matplotlib is not installed.
        IsADirectoryError: If `path` is a folder.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file, such as {path / 'report.html'}")
    html = render_page(collection, title)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as draft:
        draft.write_bytes(html.encode())
    return path


def render_page(collection: Collection, title: str) -> str:
    """Return the report on runs and studies as HTML.

    Args:
        collection: The runs and studies.
        title: Title of the page.

    Returns:
        The content of the page.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    with name_missing_extra("a report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from . import plots

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        base64=lambda image: base64.b64encode(image).decode(),
        duration=format_duration,
        text=text,
        typeset=typeset,
        time=format_time,
    )
    records: list[FolderRecord] = [*collection.runs, *collection.studies]
    return environment.get_template("page.html.jinja").render(
        title=text(title),
        collection=collection,
        sections=[_section(part, index) for index, part in enumerate(collection.sections)],
        light=plots.LIGHT,
        dark=plots.DARK,
        dashes=plots.DASHES,
        dash=DASH,
        period=period(records),
        versions=_distinct(record.versions for record in records),
        machines=_distinct(record.entry("machine") for record in records),
        comparison_table=comparison_table,
        differing=_differing,
        measured_differently=_measured_differently,
    )


def period(records: Sequence[FolderRecord]) -> str:
    """Return when the first and the last of some runs and studies were started."""
    times = sorted(filter(None, (record.entry("started") for record in records)))
    first, *others = _distinct(format_time(time) for time in times[:1] + times[-1:]) or [""]
    day = first.rpartition(", ")[0]
    return " – ".join([first, *(time.removeprefix(f"{day}, ") for time in others)])


def _section(content: Experiment | StudyRecord, index: int) -> Section:
    from .plots import plot_densities, plot_panels, svg_element
    from .training_curves import plot_training

    if isinstance(content, StudyRecord):
        table, plots = study_table(content), plot_panels(content.panels)
    else:
        table, plots = group_table(content.groups), plot_training(content.groups)
        densities = plot_densities(content.groups)
        plots += [] if densities is None else [densities]
    pairs = ((plot, svg_element(plot.figure, f"{index} {plot.title}")) for plot in plots)
    return Section(content, table, tuple(pairs))


def _differing(groups: Sequence[Group]) -> list[str]:
    """Return the paths whose settings differ, without the name, which is in the labels."""
    paths = differing_paths([group.settings for group in groups])
    return [path for path in paths if path != "name"]


def _measured_differently(groups: Sequence[Group]) -> list[str]:
    """Return the paths whose settings of measurements differ."""
    measured = [group.measurement_settings for group in groups if group.measurement_settings]
    return [p for p in differing_paths(measured) if p.rpartition(".")[2] not in ESTIMATES]


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, values)))
