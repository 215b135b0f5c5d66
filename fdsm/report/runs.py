"""What a run, a group of seeds and an experiment are to the report."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..record import Json

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Curve:
    """A number logged during training.

    Attributes:
        iterations: When, in iterations.
        seconds: When, in seconds of training; NaN where it was not logged.
        values: The number itself; NaN where it was not one.
    """

    iterations: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A number of `result.json`.

    Attributes:
        value: The number.
        error: Its standard error as the run itself estimated it, if it did.
        settings: What decides it, by path.
    """

    value: float
    error: float | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """What one run left behind.

    Attributes:
        folder: Its folder, from the one that was asked for on.
        config: `config.json` as it is.
        settings: What was configured, by path: `{"optimiser.lr": 0.001}`; what is not a
            setting of the recipe has a path that starts with `config.`.
        loss: The loss of training.
        step_times: The milliseconds of the steps that were logged.
        validation: The numbers of validation by name.
        result: `result.json`, or none if the run has not finished.
        metrics: The final numbers by name.
        published: The published numbers by name, for comparison.
        samples: The bytes of `samples.png`.
        size: Width and height of the samples.
        field: Log-density and score on a grid, of a model on the plane.
        notes: What could not be read.
    """

    folder: str
    config: Mapping[str, Any]
    settings: Mapping[str, Json] = field(default_factory=dict)
    loss: Curve = Curve()
    step_times: tuple[float, ...] = ()
    validation: Mapping[str, Curve] = field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    metrics: Mapping[str, Measured] = field(default_factory=dict)
    published: Mapping[str, Measured] = field(default_factory=dict)
    samples: bytes | None = None
    size: tuple[int, int] = (0, 0)
    field: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    @property
    def seed(self) -> str:
        """The seed."""
        return self.said("seed")

    @property
    def iterations(self) -> float:
        """How long the run trained, or how far it has come; NaN if nothing is known."""
        return self._final("iterations", max(self.loss.iterations, default=math.nan))

    @property
    def seconds(self) -> float:
        """The seconds of training, so far if it has not finished; NaN if nothing is known."""
        return self._final("seconds", max(self.loss.seconds, default=math.nan))

    @property
    def milliseconds(self) -> float:
        """The median time of an iteration; NaN if nothing is known."""
        so_far = median(self.step_times) if self.step_times else math.nan
        return self._final("milliseconds_per_iteration", so_far)

    @property
    def parameters(self) -> float:
        """The number of parameters; NaN if it is not known."""
        return real(self.config.get("parameters"))

    @property
    def versions(self) -> str:
        """The versions of what it ran on."""
        versions = self.config.get("versions")
        return ", ".join(f"{k} {text(v)}" for k, v in flat(versions).items()) if versions else ""

    def said(self, name: str) -> str:
        """Return an entry of `config.json` as text, empty if it is not there."""
        value = self.config.get(name)
        return "" if value is None else text(value)

    def _final(self, name: str, so_far: float) -> float:
        return so_far if self.result is None else real(self.result.get(name, so_far))


@dataclass(frozen=True)
class Group:
    """Runs that differ only by seed.

    Attributes:
        label: A name that no other group of the experiment has.
        runs: The runs, by seed.
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def settings(self) -> Mapping[str, Json]:
        """What was configured, by path."""
        return self.runs[0].settings

    @property
    def measurement(self) -> Mapping[str, Json]:
        """What decides the final numbers, by path: `{"nll.samples": 1000}`."""
        return {
            f"{name}.{path}": value
            for run in reversed(self.runs)
            for name, metric in run.metrics.items()
            for path, value in metric.settings.items()
        }

    @property
    def counted(self) -> tuple[Run, ...]:
        """The runs that enter averages: those that have finished, or all if none has."""
        return tuple(run for run in self.runs if run.finished) or self.runs


@dataclass(frozen=True)
class Experiment:
    """Groups whose numbers can be compared.

    Attributes:
        family: The recipes' common name.
        data: The name of the data.
        scale: The scale of the recipes.
        groups: The groups, in the order in which they were found; the first is the baseline.
    """

    family: str
    data: str
    scale: str
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """What to call it."""
        return " · ".join(filter(None, (self.family, self.data, self.scale))) or "runs"

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)


@dataclass(frozen=True)
class Collection:
    """All that was found.

    Attributes:
        experiments: The experiments, in the order in which they were found.
        notes: What could not be read, or was left out.
    """

    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of all experiments."""
        return tuple(group for one in self.experiments for group in one.groups)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)


def flat(value: Json, path: str = "") -> dict[str, Json]:
    """Return the leaves of a JSON value by path; lists of scalars are leaves.

    Args:
        value: A JSON value.
        path: What its own path is.

    Returns:
        The leaves by their paths.

    Example:
        >>> flat({"optimiser": {"lr": 0.001, "betas": [0.9, 0.95]}, "ema": None})
        {'optimiser.lr': 0.001, 'optimiser.betas': [0.9, 0.95], 'ema': None}
    """
    if isinstance(value, Mapping) and value:
        items: Iterable[tuple[str, Json]] = ((text(key), item) for key, item in value.items())
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items = ((str(index), item) for index, item in enumerate(value))
    else:
        return {path: value}
    leaves: dict[str, Json] = {}
    for key, item in items:
        leaves |= flat(item, f"{path}.{key}" if path else key)
    return leaves


def text(value: Json) -> str:
    """Return a JSON value as printable text."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))


def differing(settings: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the paths at which settings differ, or that some of them lack.

    Args:
        settings: Settings by path.

    Returns:
        The paths, in the order in which they first appear.

    Example:
        >>> differing([{"lr": 0.1, "steps": 9}, {"lr": 0.2, "steps": 9, "ema": None}])
        ['lr', 'ema']
    """
    paths = dict.fromkeys(path for one in settings for path in one)
    written = [{path: json.dumps(value) for path, value in one.items()} for one in settings]
    return [path for path in paths if len({one.get(path) for one in written}) > 1]


def real(value: Json) -> float:
    """Return a JSON value as a number, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
