"""Losses against time while models are trained (Figure 4 of the paper).

The losses are those that were logged on validation rows, the same quantity for all rows of a
panel. Time is that of an iteration, measured in turn with the other rows of the panel, since the
seconds of runs on a shared machine say more about the others on it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ...evaluation import Measurement
from ...runs.run import Run
from ...samplers import Progress
from ...training.loggers import records
from ..run_store import RunStore
from ..study import Findings, Line, Panel
from ..support.step_cost import pace

POINTS = 200
"""How many points a curve has at most."""


@dataclass(frozen=True)
class Race:
    """Rows of a table whose losses are drawn together.

    Attributes:
        title: What it shows.
        target: The table.
        experiment: The module with its recipes.
        rows: The rows; times are compared with that of the first.
        logged: What is drawn, one of the validation numbers.
        label: What that is.
        log: Whether to draw it on a logarithmic axis.
    """

    title: str
    target: str
    experiment: str
    rows: tuple[str, ...]
    logged: str
    label: str
    log: bool = False


_DENSITIES = (
    Race(
        "DSM on MNIST",
        "table2",
        "deep_ebm",
        ("DSM", "FD-DSM"),
        "dsm",
        "multi-scale DSM loss of validation images",
        log=True,
    ),
    Race(
        "SSM on MNIST",
        "table2",
        "deep_ebm",
        ("SSM", "FD-SSM", "Taylor-SSM"),
        "ssm",
        "SSMVR loss of validation images",
    ),
)


def _scores(logged: str) -> Race:
    rows, label = ("SSMVR", "FD-SSMVR"), "Fréchet distance of samples"
    return Race("Score networks", "table5", "ncsn", rows, logged, label, log=True)


@dataclass(frozen=True)
class LossAgainstTime:
    """Curves of losses against time, and how much sooner one gets to where the other does.

    Attributes:
        races: What is drawn.
        title: What it shows.
        provenance: Where in the paper it is, and what was chosen where that leaves it open.
    """

    races: tuple[Race, ...]
    title: str = field(default="Loss against time of training", repr=False)
    provenance: str = field(
        default="Figure 4 and Secs 6.1 and 6.4, with losses of validation images under the same "
        "random numbers: multi-scale DSM by the exact gradient, SSMVR by the score, and the "
        "Fréchet distance of samples. The paper does not say what its losses are; the code logs "
        "these two of the current training batch. Time is iterations times that of a training "
        "step, measured in turn for the rows of a panel; that of validating is left out.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return the curves of the runs, which are trained now if they have not been.

        Args:
            store: Where the runs of the tables are.
            seed: Of which seed.
            progress: Watches the runs.
        """
        wanted = [(race, row) for race in self.races for row in race.rows]
        runs: dict[Race, dict[str, Run]] = {race: {} for race in self.races}
        for i in progress(range(len(wanted))):
            race, row = wanted[i]
            run = store.trained(race.target, f"{race.experiment}/{row}", seed).run
            if logs(run.folder, race.logged):
                runs[race][row] = run
        numbers: dict[str, Measurement] = {}
        found = {race: curves(race, running) for race, running in runs.items()}
        for race, lines in found.items():
            numbers |= ratios(race, lines)
        drawn = tuple(
            Panel(
                race.title,
                "seconds of training",
                race.label,
                tuple(map(thinned, lines)),
                y_log=race.log,
            )
            for race, lines in found.items()
            if lines
        )
        return Findings(numbers, drawn)


def logs(folder: Path, logged: str) -> list[tuple[int, float]]:
    """Return a validation number of a run and the iterations after which it was logged.

    Args:
        folder: The folder of the run.
        logged: Which number.

    Returns:
        Pairs of both, without what was not finite.
    """
    return [
        (record["iteration"], record["validation"][logged])
        for record in records(folder / "metrics.jsonl")
        if record.get("validation", {}).get(logged) is not None
    ]


def curves(race: Race, runs: Mapping[str, Run]) -> list[Line]:
    """Return what runs logged against the time of their steps, which is measured now, in turn.

    Args:
        race: What is drawn.
        runs: The runs that logged it, by row.

    Returns:
        A curve for each.
    """
    paces = pace(list(runs.values()))
    return [
        curve(row, logs(run.folder, race.logged), its.milliseconds)
        for (row, run), its in zip(runs.items(), paces, strict=True)
    ]


def curve(name: str, points: Sequence[tuple[int, float]], milliseconds: float) -> Line:
    """Return numbers after some iterations against time.

    Args:
        name: What to call it.
        points: Pairs of iterations and numbers.
        milliseconds: The time of an iteration.

    Returns:
        The curve, in seconds.

    Example:
        >>> curve("loss", [(0, 3.0), (40, 1.0)], 50.0).x
        (0.0, 2.0)
    """
    seconds = tuple(iteration * milliseconds / 1000 for iteration, _ in points)
    return Line(name, seconds, tuple(value for _, value in points))


def reached(line: Line, level: float) -> float:
    """Return when a curve is first at or below a level, straight between its points.

    Args:
        line: The curve.
        level: The level.

    Returns:
        The time; infinite if it never is.

    Example:
        >>> reached(Line("loss", (0.0, 2.0, 4.0), (3.0, 1.0, 0.0)), 1.5)
        1.5
    """
    if line.y[0] <= level:
        return line.x[0]
    points = zip(line.x, line.y, strict=True)
    for (start, above), (end, below) in pairwise(points):
        if below <= level:
            return start + (end - start) * (above - level) / (above - below)
    return math.inf


def ratios(race: Race, lines: Sequence[Line]) -> dict[str, Measurement]:
    """Return by how much sooner rows get to where the worse of them and the first ends.

    Args:
        race: What is compared.
        lines: The curves of its rows, those that there are.

    Returns:
        For each row but the first, its time over that of the first; none for a first that is
        there from the beginning.
    """
    curves = {line.name: line for line in lines}
    first = curves.pop(race.rows[0], None)
    if first is None:
        return {}
    found = {}
    for row, line in curves.items():
        level = max(first.y[-1], line.y[-1])
        mine, its = reached(line, level), reached(first, level)
        if its > 0:
            found[f"{race.logged}_time_{row}_over_{first.name}"] = Measurement(
                mine / its, settings={"level": level, "seconds": [mine, its]}
            )
    return found


def thinned(line: Line, points: int = POINTS) -> Line:
    """Return a curve with at most so many of its points, the first and the last among them.

    Example:
        >>> thinned(Line("loss", (0.0, 1.0, 2.0, 3.0, 4.0), (5.0, 4.0, 3.0, 2.0, 1.0)), 3).x
        (0.0, 2.0, 4.0)
    """
    count = len(line.x)
    if count <= points:
        return line
    kept = [round(i * (count - 1) / (points - 1)) for i in range(points)]
    return Line(line.name, tuple(line.x[i] for i in kept), tuple(line.y[i] for i in kept))


STUDY = LossAgainstTime((*_DENSITIES, _scores("frechet_classifier")))
"""From runs at the scale of minutes."""

PAPER = LossAgainstTime((*_DENSITIES, _scores("fid")))
"""From runs at the scale of the paper, whose distances are by Inception's features."""
