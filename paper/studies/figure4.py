"""Loss against training time (Figure 4 of the paper).

The losses are those that training logged on validation rows, the same quantity for all rows of a
panel. Time is the number of iterations times the time of a step. Step times are measured
interleaved, because the durations of runs on a shared machine depend on its other load.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from fdsm.evaluation import Measurement
from fdsm.samplers import Progress
from fdsm.training import read_metrics

from ..report import Line, Panel
from ..run_store import RunStore
from ..runs import Run, measure_step_costs
from ..study import StudyResult

MAX_POINTS = 200
"""Maximum number of points of a curve."""


@dataclass(frozen=True)
class LossCurves:
    """Rows of a table whose losses are plotted in one panel.

    Attributes:
        title: Title of the panel.
        target: The table.
        rows: The rows. Times are compared with that of the first.
        metric: Name of the validation metric.
        label: Label of the vertical axis.
        log_scale: Whether the vertical axis is logarithmic.
    """

    title: str
    target: str
    rows: tuple[str, ...]
    metric: str
    label: str
    log_scale: bool = False


_DENSITIES = (
    LossCurves(
        "DSM on MNIST",
        "table2",
        ("DSM", "FD-DSM"),
        "dsm",
        "multi-scale DSM loss of validation images",
        log_scale=True,
    ),
    LossCurves(
        "SSM on MNIST",
        "table2",
        ("SSM", "FD-SSM", "Taylor-SSM"),
        "ssm",
        "SSMVR loss of validation images",
    ),
)


def _score_networks(metric: str) -> LossCurves:
    rows, label = ("SSMVR", "FD-SSMVR"), "Fréchet distance of samples"
    return LossCurves("Score networks", "table5", rows, metric, label, log_scale=True)


@dataclass(frozen=True)
class Figure4:
    """Curves of losses against time, and ratios of the times to reach the same loss.

    Attributes:
        panels: The panels.
    """

    panels: tuple[LossCurves, ...]
    provenance: ClassVar[str] = (
        "Figure 4 and Secs 6.1 and 6.4. The losses are computed on validation images with the "
        "same random numbers at each validation: multi-scale DSM with the exact gradient, SSMVR "
        "with the score, and the Fréchet distance of samples. The paper does not say how its "
        "losses are computed. The code logs the first two on the current training batch. Time is "
        "the number of iterations times the time of a training step, measured interleaved for the "
        "rows of a panel. The time of validation is not included."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the curves of the runs, training them first if necessary.

        Args:
            store: The runs of the tables.
            seed: Seed of the runs.
            progress: Wraps the loop over runs to show its progress.
        """
        wanted = [(panel, row) for panel in self.panels for row in panel.rows]
        runs: dict[LossCurves, dict[str, Run]] = {panel: {} for panel in self.panels}
        for i in progress(range(len(wanted))):
            panel, row = wanted[i]
            run = store.trained(panel.target, row, seed).run
            if logged_values(run.folder, panel.metric):
                runs[panel][row] = run
        numbers: dict[str, Measurement] = {}
        curves = {panel: loss_curves(panel, by_row) for panel, by_row in runs.items()}
        for panel, lines in curves.items():
            numbers |= time_ratios(panel, lines)
        plots = tuple(
            Panel(
                panel.title,
                "seconds of training",
                panel.label,
                tuple(map(thin_out, lines)),
                y_log=panel.log_scale,
            )
            for panel, lines in curves.items()
            if lines
        )
        return StudyResult(numbers, plots)


def logged_values(folder: Path, metric: str) -> list[tuple[int, float]]:
    """Return the logged values of a validation metric of a run.

    Args:
        folder: Directory of the run.
        metric: Name of the metric.

    Returns:
        Pairs of iteration and value, without values that are not finite.
    """
    return [
        (record["iteration"], record["validation"][metric])
        for record in read_metrics(folder / "metrics.jsonl")
        if record.get("validation", {}).get(metric) is not None
    ]


def loss_curves(panel: LossCurves, runs: Mapping[str, Run]) -> list[Line]:
    """Return the logged metric of each run against time. The step times are measured now.

    Args:
        panel: The panel.
        runs: The runs that logged its metric, by row.

    Returns:
        A curve for each run.
    """
    costs = measure_step_costs(list(runs.values()))
    return [
        curve(row, logged_values(run.folder, panel.metric), cost.milliseconds)
        for (row, run), cost in zip(runs.items(), costs, strict=True)
    ]


def curve(name: str, points: Sequence[tuple[int, float]], milliseconds: float) -> Line:
    """Return values against time.

    Args:
        name: Name of the curve.
        points: Pairs of iteration and value.
        milliseconds: Time of an iteration.

    Returns:
        The curve, with time in seconds.

    Example:
        >>> curve("loss", [(0, 3.0), (40, 1.0)], 50.0).x
        (0.0, 2.0)
    """
    seconds = tuple(iteration * milliseconds / 1000 for iteration, _ in points)
    return Line(name, seconds, tuple(value for _, value in points))


def time_to_reach(line: Line, level: float) -> float:
    """Return when a curve first reaches a level, with linear interpolation.

    Args:
        line: The curve.
        level: The level.

    Returns:
        The first time at which the curve is at or below the level, or infinity.

    Example:
        >>> time_to_reach(Line("loss", (0.0, 2.0, 4.0), (3.0, 1.0, 0.0)), 1.5)
        1.5
    """
    if line.y[0] <= level:
        return line.x[0]
    points = zip(line.x, line.y, strict=True)
    for (start, above), (end, below) in pairwise(points):
        if below <= level:
            return start + (end - start) * (above - level) / (above - below)
    return math.inf


def time_ratios(panel: LossCurves, lines: Sequence[Line]) -> dict[str, Measurement]:
    """Return the time of each row to reach a loss, relative to that of the first row.

    The loss is the higher of the final losses of both rows.

    Args:
        panel: The panel.
        lines: The curves of those of its rows that exist.

    Returns:
        A ratio for each row but the first. A row is left out if the first row has that loss from
        the start.
    """
    curves = {line.name: line for line in lines}
    first = curves.pop(panel.rows[0], None)
    if first is None:
        return {}
    ratios = {}
    for row, line in curves.items():
        level = max(first.y[-1], line.y[-1])
        seconds, first_seconds = time_to_reach(line, level), time_to_reach(first, level)
        if first_seconds > 0:
            ratios[f"{panel.metric}_time_{row}_over_{first.name}"] = Measurement(
                seconds / first_seconds,
                settings={"level": level, "seconds": [seconds, first_seconds]},
            )
    return ratios


def thin_out(line: Line, max_points: int = MAX_POINTS) -> Line:
    """Return a curve with a limited number of its points, including the first and the last.

    Example:
        >>> thin_out(Line("loss", (0.0, 1.0, 2.0, 3.0, 4.0), (5.0, 4.0, 3.0, 2.0, 1.0)), 3).x
        (0.0, 2.0, 4.0)
    """
    count = len(line.x)
    if count <= max_points:
        return line
    kept = [round(i * (count - 1) / (max_points - 1)) for i in range(max_points)]
    return Line(line.name, tuple(line.x[i] for i in kept), tuple(line.y[i] for i in kept))


CPU = Figure4((*_DENSITIES, _score_networks("frechet_classifier")))
"""Runs at the scale `cpu`."""

PAPER = Figure4((*_DENSITIES, _score_networks("fid")))
"""Runs at the scale of the paper, with the FID."""
