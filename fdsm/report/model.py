"""What a run, a group of seeds and an experiment are to the report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from ..serialize import Json
from .json_values import Measured, flat, real, text
from .labels import TARGETS
from .studies import Study


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
class Run:
    """What one run left behind.

    Attributes:
        folder: Its folder, from the one that was asked for on.
        config: `config.json` as it is.
        target: The table or figure that it is for, if its folder says so.
        settings: What was configured, by path: `{"optimizer.lr": 0.001}`; what is not a
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
    target: str = ""
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
    def milliseconds_with_validation(self) -> float:
        """The time of an iteration with its share of the validations; NaN if it is not known."""
        every = real(self.settings.get("plan.validate_every"))
        validation = self._final("milliseconds_of_validation", math.nan)
        return self.milliseconds + validation / every if every > 0 else math.nan

    @property
    def bytes(self) -> float:
        """The bytes that a step keeps for its backward pass; NaN if they were not counted."""
        return self._final("bytes", math.nan)

    @property
    def row(self) -> str:
        """The name of its recipe, without that of the experiment."""
        return self.said("recipe").rpartition("/")[2]

    @property
    def data(self) -> str:
        """The name of its data, empty if it is not known."""
        data = self.config.get("data")
        name = data.get("name") if isinstance(data, dict) else None
        return "" if name is None else text(name)

    @property
    def timed_with(self) -> frozenset[str]:
        """The recipes whose steps were timed in turn with its own, itself among them."""
        names = (self.result or {}).get("timed_with")
        return frozenset(map(text, names)) if isinstance(names, list) else frozenset()

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
    def target(self) -> str:
        """The table or figure that it is for, if any."""
        return self.runs[0].target

    @property
    def row(self) -> str:
        """The name of the recipe, which other groups may have too."""
        return self.runs[0].row

    @property
    def published(self) -> Mapping[str, Measured]:
        """The published numbers by name."""
        return {name: one for run in reversed(self.runs) for name, one in run.published.items()}

    @property
    def data(self) -> str:
        """The name of the data, empty if it is not known."""
        return self.runs[0].data

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

    def timed_in_turn_with(self, other: "Group") -> bool:
        """Return whether the times of two groups can be compared.

        In a reproduction they can if steps of both were taken in turn; elsewhere nothing is
        known of that, and they always can.
        """
        recipes = {one.runs[0].said("recipe") for one in (self, other)}
        runs = (*self.counted, *other.counted)
        return not self.target or all(recipes <= run.timed_with for run in runs)

    @property
    def counted(self) -> tuple[Run, ...]:
        """The runs that enter averages: those that have finished, or all if none has."""
        return tuple(run for run in self.runs if run.finished) or self.runs


@dataclass(frozen=True)
class Experiment:
    """Groups whose numbers can be compared.

    Attributes:
        target: The table or figure that they are for, if any.
        family: The recipes' common name.
        data: The name of the data.
        scale: The scale of the recipes.
        groups: The groups, in the order in which they were found; the first is the baseline.
    """

    target: str
    family: str
    data: str
    scale: str
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """What to call it."""
        family = TARGETS.get(self.target, self.family)
        return " · ".join(filter(None, (family, self.data, self.scale))) or "runs"

    @property
    def brief(self) -> "Experiment":
        """The same without the name of the data in labels, where all start with it."""
        words = [group.label.partition(" ") for group in self.groups]
        if not all(rest and _plain(first) == _plain(self.data) for first, _, rest in words):
            return self
        pairs = zip(self.groups, words, strict=True)
        return replace(self, groups=tuple(replace(one, label=rest) for one, (_, _, rest) in pairs))

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)


def _plain(name: str) -> str:
    return name.replace("-", "").lower()


@dataclass(frozen=True)
class Collection:
    """All that was found.

    Attributes:
        experiments: The experiments, in the order in which they were found.
        notes: What could not be read, or was left out.
        studies: The studies, in the order in which they were found.
    """

    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...] = ()
    studies: tuple[Study, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of all experiments."""
        return tuple(group for one in self.experiments for group in one.groups)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for group in self.groups for run in group.runs)
