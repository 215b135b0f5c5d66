"""The page: tables, figures, samples and settings of runs in one file that needs no other.

Whatever comes from a run folder is escaped; nothing in the page is loaded from elsewhere.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import replacing
from .collect import collect
from .runs import Collection, Experiment, Group, Run, differing, text
from .tables import Summary, duration, summary

if TYPE_CHECKING:
    from .figures import Drawing

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Section:
    """What the page says of an experiment.

    Attributes:
        experiment: The runs.
        summary: The table of results.
        drawings: The figures, each with its SVG.
        differing: The paths at which the settings of the groups differ.
        measured_differently: Those at which the settings of their measurements do.
    """

    experiment: Experiment
    summary: Summary
    drawings: "tuple[tuple[Drawing, str], ...]"
    differing: tuple[str, ...]
    measured_differently: tuple[str, ...]


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
    with replacing(out) as draft:
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

    from . import figures
    from .fields import fields

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        base64=_base64, duration=duration, text=text, typeset=typeset, when=when
    )
    colours = figures.palette(collection)
    sections = []
    for index, experiment in enumerate(collection.experiments):
        with figures.styled():
            learnt = fields(experiment.groups, colours)
        drawn = [*figures.drawings(experiment, colours), *([] if learnt is None else [learnt])]
        sections.append(
            Section(
                experiment,
                summary(experiment.groups),
                tuple((one, figures.svg(one.figure, f"{index} {one.title}")) for one in drawn),
                tuple(differing([group.settings for group in experiment.groups])),
                tuple(differing([group.measurement for group in _measured(experiment)])),
            )
        )
    return environment.get_template("page.html.jinja").render(
        title=text(title),
        collection=collection,
        sections=sections,
        colours=colours,
        light=figures.LIGHT,
        dark=figures.DARK,
        dashes=figures.DASHES,
        period=period(collection.runs),
        versions=_said(collection.runs, "versions"),
        machines=_said(collection.runs, "machine"),
    )


def typeset(cell: str) -> str:
    """Return a number with the signs of print: a true minus, and powers of ten.

    Args:
        cell: A number as the terminal shows it.

    Returns:
        The number as a page shows it.

    Example:
        >>> typeset("(-3.360 ± 0.021)e7")
        '(−3.360 ± 0.021) × 10⁷'
    """
    raised = lambda power: f" × 10{power[1].translate(_SUPERSCRIPT)}"
    return re.sub(r"(?<=[\d)])e(-?\d+)", raised, cell).replace("-", "−")


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


def period(runs: Sequence[Run]) -> str:
    """Return when the first and the last of some runs were started."""
    times = sorted(filter(None, (run.said("started") for run in runs)))
    first, *others = dict.fromkeys(when(time) for time in times[:1] + times[-1:] or [""])
    day = first.rpartition(", ")[0]
    return " – ".join([first, *(one.removeprefix(f"{day}, ") for one in others)])


def _base64(image: bytes) -> str:
    return base64.b64encode(image).decode()


def _measured(experiment: Experiment) -> list[Group]:
    return [group for group in experiment.groups if group.measurement]


def _said(runs: Sequence[Run], name: str) -> list[str]:
    """Return the different things that runs say of something."""
    said = (run.versions if name == "versions" else run.said(name) for run in runs)
    return list(dict.fromkeys(filter(None, said)))
