"""Typed records of the files that runs and studies write."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from statistics import median
from typing import Any

from fdsm.measurement import Measurement
from fdsm.serialize import Json
from fdsm.untrusted import printable

from .figure import Panel

Arrays = Mapping[str, Any]
"""NumPy arrays by name."""

STEP_TIME = "milliseconds_per_iteration"
STEP_TIME_WITH_VALIDATION = "milliseconds_with_validation"
MEMORY = "bytes"


def text(value: Json) -> str:
    """Return a JSON value as printable text."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(plain)


def real(value: Json) -> float:
    """Return a JSON value as a number, or NaN if it is not one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def flatten(value: Json, path: str = "") -> dict[str, Json]:
    """Return the leaves of a JSON value by path. Lists of scalars are leaves.

    Args:
        value: A JSON value.
        path: Path of the value itself.

    Returns:
        The leaves by path.

    Example:
        >>> flatten({"optimizer": {"lr": 0.001, "betas": [0.9, 0.95]}, "ema": None})
        {'optimizer.lr': 0.001, 'optimizer.betas': [0.9, 0.95], 'ema': None}
    """
    if isinstance(value, Mapping) and value:
        items: Iterable[tuple[str, Json]] = ((text(key), item) for key, item in value.items())
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items = ((str(index), item) for index, item in enumerate(value))
    else:
        return {path: value} if path else {}
    leaves: dict[str, Json] = {}
    for key, item in items:
        leaves |= flatten(item, f"{path}.{key}" if path else key)
    return leaves


def differing_paths(settings: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the paths whose values differ, or that some of the settings do not have.

    Args:
        settings: Several settings by path.

    Returns:
        The paths, in the order in which they first appear.

    Example:
        >>> differing_paths([{"lr": 0.1, "steps": 9}, {"lr": 0.2, "steps": 9, "ema": None}])
        ['lr', 'ema']
    """
    paths = dict.fromkeys(path for flat in settings for path in flat)
    written = [{path: json.dumps(value) for path, value in flat.items()} for flat in settings]
    return [path for path in paths if len({texts.get(path) for texts in written}) > 1]


def measurement_from_json(value: Json) -> Measurement:
    """Return the measurement in `{"value": …, "error": …, "settings": …}` or in a plain number."""
    record = value if isinstance(value, dict) else {"value": value}
    error = real(record.get("error"))
    settings = flatten(record.get("settings"))
    return Measurement(
        real(record.get("value")), error if math.isfinite(error) else None, settings
    )


def measurements_from_json(values: Json) -> dict[str, Measurement]:
    """Return measurements by name. A value that is not an object holds none."""
    items = values.items() if isinstance(values, dict) else ()
    return {text(name): measurement_from_json(value) for name, value in items}


def _objects(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class FolderRecord:
    """A folder and its JSON file.

    Attributes:
        folder: Path of the folder, relative to the parent of the folder that was read.
        record: Content of `config.json` or `study.json`.
    """

    folder: str
    record: Mapping[str, Any]

    def entry(self, name: str) -> str:
        """Return an entry of the JSON file as text. Empty if it is missing."""
        value = self.record.get(name)
        return "" if value is None else text(value)

    @property
    def versions(self) -> str:
        """Versions of the software that was used."""
        return ", ".join(f"{k} {text(v)}" for k, v in flatten(self.record.get("versions")).items())


@dataclass(frozen=True)
class Curve:
    """A number logged during training.

    Attributes:
        iterations: Iteration of each value.
        seconds: Training time of each value in seconds. NaN where it was not logged.
        values: The logged values. NaN where the value was not a number.
    """

    iterations: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A metric of the model and of reference densities fitted to the same data.

    Attributes:
        metric: Name of the metric.
        model: Value of the model.
        references: Values of the references by name.
    """

    metric: str
    model: Measurement
    references: Mapping[str, Measurement]


@dataclass(frozen=True)
class RunRecord(FolderRecord):
    """The files of one run.

    Attributes:
        result: Content of `result.json`, or `None` if the run has not finished.
        metrics: Final metrics by name.
        comparisons: Comparisons with reference densities.
        loss: Training loss.
        step_times: Logged times of a training step, in milliseconds.
        validation: Validation metrics by name.
        samples: Content of `samples.png`.
        samples_size: Width and height of `samples.png`.
        density_grid: Arrays of `density_grid.npz`.
        notes: Problems found while reading.
    """

    result: Mapping[str, Any] | None = None
    metrics: Mapping[str, Measurement] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    loss: Curve = Curve()
    step_times: tuple[float, ...] = ()
    validation: Mapping[str, Curve] = field(default_factory=dict)
    samples: bytes | None = None
    samples_size: tuple[int, int] = (0, 0)
    density_grid: Arrays | None = None
    notes: tuple[str, ...] = ()

    def origin(self, name: str) -> str:
        """Return an entry of the origin of the recipe as text. Empty if it is missing."""
        value = _objects(self.record.get("origin")).get(name)
        return "" if value is None else text(value)

    @property
    def target(self) -> str:
        """Name of the published table or figure that the run reproduces, or empty."""
        return self.origin("target")

    @property
    def row(self) -> str:
        """Name of the row of the target, or name of the recipe."""
        name = _objects(self.record.get("recipe")).get("name")
        return self.origin("row") or (text(name) if name else "") or "run"

    @property
    def seed(self) -> str:
        """Random seed."""
        return self.entry("seed")

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    @property
    def iterations(self) -> float:
        """Number of iterations, so far if the run has not finished. NaN if it is not known."""
        return self._final("iterations", max(self.loss.iterations, default=math.nan))

    @property
    def seconds(self) -> float:
        """Training time in seconds, so far if the run has not finished. NaN if not known."""
        return self._final("seconds", max(self.loss.seconds, default=math.nan))

    @property
    def parameters(self) -> float:
        """Number of parameters. NaN if it is not known."""
        return real(self.record.get("parameters"))

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to trust the model, as sentences."""
        problems = (self.result or {}).get("problems")
        return tuple(map(text, problems)) if isinstance(problems, list) else ()

    @property
    def timed_with(self) -> frozenset[str]:
        """Rows, as `TARGET/ROW`, whose steps were timed interleaved with those of this run."""
        names = (self.result or {}).get("timed_with")
        return frozenset(map(text, names)) if isinstance(names, list) else frozenset()

    def measurement(self, name: str) -> Measurement | None:
        """Return a metric, a time per iteration or the memory of a step.

        Args:
            name: Name of a metric, or one of `STEP_TIME`, `STEP_TIME_WITH_VALIDATION`, `MEMORY`.

        Returns:
            The measurement, or `None` if it is not known. Without a result, the time per
            iteration is the median of the logged times.
        """
        if name in self.metrics:
            return self.metrics[name]
        step = self._final(STEP_TIME, median(self.step_times) if self.step_times else math.nan)
        plan = _objects(_objects(self.record.get("recipe")).get("plan"))
        every = real(plan.get("validate_every"))
        validation = self._final("milliseconds_of_validation", math.nan)
        values = {
            STEP_TIME: step,
            STEP_TIME_WITH_VALIDATION: step + validation / every if every > 0 else math.nan,
            MEMORY: self._final(MEMORY, math.nan),
        }
        value = values.get(name, math.nan)
        return None if math.isnan(value) else Measurement(value)

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings by path. Those that are not part of the recipe start with `config.`."""
        names = ("device", "shape", "data", "parameters")
        rest = {name: self.record[name] for name in names if name in self.record}
        scale = {"scale": self.origin("scale")} if self.origin("scale") else {}
        return flatten(self.record.get("recipe")) | flatten({**scale, **rest}, "config")

    @property
    def data(self) -> str:
        """Name of the data: of the data set for a target, and of the files for a user's data."""
        record = _objects(self.record.get("data"))
        files = record.get("files")
        listed = [] if self.target or not isinstance(files, list) else files
        names = [text(_objects(file).get("file") or "") for file in listed]
        short = [PurePosixPath(name).name for name in names if name]
        if 0 < len(short) <= 3:
            return ", ".join(short)
        return text(record["name"]) if record.get("name") else ""

    @property
    def description(self) -> dict[str, str]:
        """Data, model and training of a user's run, as text by name."""
        recipe, data = _objects(self.record.get("recipe")), _objects(self.record.get("data"))
        plan, origin = _objects(recipe.get("plan")), self.origin
        recipe_file = " ".join(filter(None, (origin("file"), origin("name"))))
        batch = real(plan.get("batch"))
        training = f"{self.iterations:,.0f} iterations" if self.iterations >= 0 else ""
        if training and batch > 0:
            training += f" with batches of {batch:,.0f}"
        facts = {
            "data": ": ".join(filter(None, (self.data, _size(data, self.record.get("shape"))))),
            "recipe": origin("recipe"),
            "recipe file": recipe_file,
            "model": _class_name(recipe),
            "objective": _objective(_objects(recipe.get("objective"))),
            "training": training,
        }
        return {name: value for name, value in facts.items() if value}

    def _final(self, name: str, so_far: float) -> float:
        return so_far if self.result is None else real(self.result.get(name, so_far))


def _size(data: Mapping[str, Any], shape: Json) -> str:
    """Return the number of rows in each split, and of columns or the shape of an event."""
    rows = {name: real(count) for name, count in _objects(data.get("rows")).items()}
    counts = {text(name): count for name, count in rows.items() if math.isfinite(count)}
    splits = [f"{count:,.0f} {name}" for name, count in counts.items() if count]
    split = f" ({', '.join(splits)})" if splits else ""
    columns = data.get("columns")
    event = ""
    if isinstance(columns, list):
        event = f"{len(columns):,} column{'' if len(columns) == 1 else 's'}"
    elif isinstance(shape, list) and shape:
        event = " × ".join(map(text, shape)) + " values per row"
    count = f"{sum(counts.values()):,.0f} rows{split}" if splits else ""
    return ", ".join(filter(None, (count, event)))


def _class_name(record: Mapping[str, Any]) -> str:
    return text(record["class"]).rpartition(".")[2] if record.get("class") else ""


def _objective(record: Mapping[str, Any]) -> str:
    """Return the objective and its derivative. A wrapped objective is that inside the wrapper."""
    if isinstance(record.get("objective"), dict):
        return _objective(record["objective"])
    derivative = _class_name(_objects(record.get("derivative")))
    with_derivative = f"derivatives with {derivative}" if derivative else ""
    return ", ".join(filter(None, (_class_name(record), with_derivative)))


@dataclass(frozen=True)
class StudyRecord(FolderRecord):
    """The result of a study.

    Attributes:
        target: Name of the figure or theorem, such as `figure2`.
        title: Title in reports.
        numbers: Numbers by name.
        panels: Panels to plot.
    """

    target: str
    title: str
    numbers: Mapping[str, Measurement] = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()

    @property
    def seconds(self) -> float:
        """Duration in seconds. NaN if it is not known."""
        return real(self.record.get("seconds"))

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings by path."""
        return flatten(self.record.get("settings"))
