"""The page: tables, figures, samples and settings of runs in one file that needs no other.

Whatever comes from a run folder is escaped; nothing in the page is loaded from elsewhere.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..atomic_io import replace_file
from .format import duration, number, typeset
from .json_values import differing, text
from .labels import rank
from .labels import title as titled
from .model import Collection, Experiment, Group, Run
from .read import collect
from .studies import Study
from .tables import Summary, summary

if TYPE_CHECKING:
    from .training_plot import Drawing


OUTCOMES = ("log_partition", "effective_sample_size")
"""What is noted beside the settings of a measurement, but is none."""

_SENTENCE = re.compile(r"(?<=\.)(?<!Sec\.)(?<!App\.)(?<!Eq\.)(?<!Fig\.) ")


@dataclass(frozen=True)
class Section:
    """What the page says of an experiment.

    Attributes:
        experiment: The runs.
        colours: The place in the palette of each group, by label.
        summary: The table of results.
        drawings: The figures, each with its SVG.
        differing: The paths at which the settings of the groups differ.
        measured_differently: Those at which the settings of their measurements do.
        sources: Where settings come from, with the labels of the groups.
    """

    experiment: Experiment
    colours: Mapping[str, int]
    summary: Summary
    drawings: "tuple[tuple[Drawing, str], ...]"
    differing: tuple[str, ...]
    measured_differently: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """What to call it."""
        return self.experiment.name


@dataclass(frozen=True)
class StudySection:
    """What the page says of a study.

    Attributes:
        study: The study.
        drawings: The figures, each with its SVG.
    """

    study: Study
    drawings: "tuple[tuple[Drawing, str], ...]"

    @property
    def name(self) -> str:
        """What to call it."""
        return self.study.name


def write_page(folders: Sequence[Path], out: Path, title: str = "Score matching runs") -> Path:
    """Write the report on the runs in some folders as one HTML file.

    The page is the same to the last byte if the runs are. Files that cannot be read are named
    in notes on it.

    Args:
        folders: Run folders, or folders above them; their order is that of the page, and the
            first group is the baseline of times.
        out: The file to write.
        title: What to call it.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If a folder does not exist, or there is no run in any of them.
        ImportError: If matplotlib is not installed.
        IsADirectoryError: If `out` is a folder.
    """
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder: name the file, say {out / 'report.html'}")
    html = page(collect(folders), title)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(out) as draft:
        draft.write_bytes(html.encode())
    return out


def page(collection: Collection, title: str) -> str:
    """Return the report on what was collected as HTML.

    Args:
        collection: The runs.
        title: What to call it.

    Returns:
        The whole page.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from . import training_plot as figures

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        base64=_base64,
        duration=duration,
        number=number,
        text=text,
        titled=titled,
        typeset=typeset,
        when=when,
    )
    sections = _sections(collection)
    everything: list[Run | Study] = [*collection.runs, *collection.studies]
    return environment.get_template("page.html.jinja").render(
        title=text(title),
        collection=collection,
        sections=sections,
        light=figures.LIGHT,
        dark=figures.DARK,
        dashes=figures.DASHES,
        period=period(everything),
        versions=_said(everything, "versions"),
        machines=_said(everything, "machine"),
    )


def drawings(study: Study) -> "list[Drawing]":
    """Return the figures of a study: its panels, then its graphs.

    Args:
        study: The study.

    Returns:
        What there is to draw.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    from .graphs import graph
    from .study_plot import panels

    graphs = [graph(one) for one in study.graphs]
    return [*panels(study.panels), *(one for one in graphs if one is not None)]


def when(started: str) -> str:
    """Return a time of `config.json` for people, in UTC; as it is if it is not a time.

    Args:
        started: The time in the format of ISO 8601.

    Returns:
        The time as text.

    Example:
        >>> when("2026-11-16T01:02:03+00:00")
        '16 November 2026, 01:02'
    """
    try:
        time = datetime.fromisoformat(started)
    except ValueError:
        return started
    time = time.astimezone(UTC) if time.tzinfo else time
    return f"{time.day} {time:%B %Y, %H:%M}"


def period(runs: Sequence[Run | Study]) -> str:
    """Return when the first and the last of some runs and studies were started."""
    times = sorted(filter(None, (run.said("started") for run in runs)))
    first, *others = dict.fromkeys(when(time) for time in times[:1] + times[-1:] or [""])
    day = first.rpartition(", ")[0]
    return " – ".join([first, *(one.removeprefix(f"{day}, ") for one in others)])


def _sections(collection: Collection) -> list[Section | StudySection]:
    """Return the sections in order: the targets as in the paper, then the rest as found."""
    from .training_plot import palette, svg

    shared = palette(collection)
    parts: list[Experiment | Study] = [*collection.experiments, *collection.studies]
    sections: list[Section | StudySection] = []
    for index, part in enumerate(sorted(parts, key=lambda part: rank(part.target))):
        if isinstance(part, Study):
            drawn = drawings(part)
            pairs = tuple((one, svg(one.figure, f"{index} {one.title}")) for one in drawn)
            sections.append(StudySection(part, pairs))
        else:
            brief = part.brief if part.target else part
            own = {group.label: place for place, group in enumerate(brief.groups)}
            sections.append(_section(brief, own if part.target else shared, index))
    return sections


def _section(experiment: Experiment, colours: Mapping[str, int], index: int) -> Section:
    from . import training_plot as figures
    from .density_plot import fields

    groups = experiment.groups
    with figures.styled():
        learnt = fields(groups, colours)
    drawn = [*figures.drawings(experiment, colours), *([] if learnt is None else [learnt])]
    return Section(
        experiment,
        colours,
        summary(groups),
        tuple((one, figures.svg(one.figure, f"{index} {one.title}")) for one in drawn),
        tuple(_differing(groups)),
        tuple(_measured_differently(groups)),
        sources(groups),
    )


def _differing(groups: Sequence[Group]) -> list[str]:
    """Return the paths at which settings differ, without the name, which labels say."""
    paths = differing([group.settings for group in groups])
    return [path for path in paths if path != "name"]


def sources(groups: Sequence[Group]) -> tuple[tuple[str, str], ...]:
    """Return where the settings of groups come from, each sentence once.

    Args:
        groups: The groups of an experiment.

    Returns:
        The labels of the groups that say the same, and what they say; first what is said of all.
    """
    said: dict[str, list[str]] = {}
    for group in groups:
        for sentence in filter(None, _SENTENCE.split(group.runs[0].said("provenance"))):
            said.setdefault(sentence, []).append(group.label)
    texts: dict[tuple[str, ...], list[str]] = {}
    for sentence, labels in said.items():
        texts.setdefault(tuple(labels), []).append(sentence)
    longest_first = sorted(texts.items(), key=lambda item: -len(item[0]))
    return tuple(
        ("All" if 1 < len(labels) == len(groups) else ", ".join(labels), " ".join(sentences))
        for labels, sentences in longest_first
    )


def _base64(image: bytes) -> str:
    return base64.b64encode(image).decode()


def _measured_differently(groups: Sequence[Group]) -> list[str]:
    """Return the paths at which settings of measurements differ, where there are any."""
    paths = differing([group.measurement for group in groups if group.measurement])
    return [path for path in paths if path.rpartition(".")[2] not in OUTCOMES]


def _said(runs: Sequence[Run | Study], name: str) -> list[str]:
    """Return the different things that runs and studies say of something."""
    said = (run.versions if name == "versions" else run.said(name) for run in runs)
    return list(dict.fromkeys(filter(None, said)))
