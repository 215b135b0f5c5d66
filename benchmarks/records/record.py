"""Measured costs and their ratios, as files. This module does not need torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from typing import TypeVar

from fdsm.atomic_io import replace_file
from fdsm.serialize import Json, RecordError, from_json, to_json
from fdsm.untrusted import read_json

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """What was measured.

    Attributes:
        mode: What is included: the value, the gradient, the update of the parameters.
        method: Name of the loss or operator.
        by: The implementation: `fdsm`, `by hand`, or the name of another package.
    """

    mode: str
    method: str
    by: str = "fdsm"

    @property
    def label(self) -> str:
        """All three, as one text."""
        return f"{self.method}, {self.by}, {self.mode}"


@dataclass(frozen=True)
class Ratio:
    """The ratio of two costs from interleaved runs.

    Attributes:
        fastest: Ratio of the smallest costs.
        median: Median of the ratios of neighboring runs.
        low: Their lower quartile.
        high: Their upper quartile.
    """

    fastest: float
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.fastest:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True)
class Cost:
    """The cost of a case on a problem.

    Attributes:
        problem: Name of the problem.
        case: What was measured.
        samples: Seconds or bytes of each run.
    """

    problem: str
    case: Case
    samples: tuple[float, ...]

    def ratio_to(self, other: "Cost") -> Ratio:
        """Return the ratio of this cost to another one of the same run.

        Args:
            other: A cost with the same number of runs.

        Returns:
            The ratio, with its spread over the runs.

        Example:
            >>> case = Case("gradient", "SSM")
            >>> slow, fast = Cost("p", case, (4.0, 6.0, 5.0)), Cost("p", case, (2.0, 2.0, 2.5))
            >>> slow.ratio_to(fast)
            Ratio(fastest=2.0, median=2.0, low=2.0, high=2.5)
        """
        ratios = [a / b for a, b in zip(self.samples, other.samples, strict=True)]
        several = len(ratios) > 1
        low, middle, high = quantiles(ratios, n=4, method="inclusive") if several else ratios * 3
        return Ratio(min(self.samples) / min(other.samples), middle, low, high)


@dataclass(frozen=True)
class Record:
    """The results of a benchmark.

    Attributes:
        name: Name of the benchmark.
        unit: Unit of the samples, `seconds` or `bytes`.
        references: The case that ratios are relative to, for each mode.
        costs: The measured costs.
        date: Day of the measurement.
        machine: Processor and versions.
    """

    name: str
    unit: str
    references: Mapping[str, Case]
    costs: tuple[Cost, ...]
    date: str = ""
    machine: Mapping[str, Json] = field(default_factory=dict)

    def cost(self, problem: str, case: Case) -> Cost:
        """Return the cost of a case on a problem.

        Args:
            problem: Name of the problem.
            case: What was measured.

        Returns:
            The cost.

        Raises:
            LookupError: If it was not measured.
        """
        for cost in self.costs:
            if (cost.problem, cost.case) == (problem, case):
                return cost
        raise LookupError(f"{self.name} has no result for {case.label} on {problem}")

    def ratio(self, cost: Cost) -> Ratio:
        """Return the ratio of a cost to the reference of its mode on the same problem."""
        return cost.ratio_to(self.cost(cost.problem, self.references[cost.case.mode]))


def write_record(record: object, path: Path) -> Path:
    """Write a record as JSON, one cost per line.

    Args:
        record: A frozen dataclass of plain values.
        path: The file.

    Returns:
        The file.
    """
    fields = to_json(record)
    assert isinstance(fields, dict)
    lines = []
    for key, value in fields.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f" {json.dumps(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as draft:
        draft.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return path


def read_record(path: Path, kind: type[T]) -> T:
    """Return the record in a file.

    Args:
        path: The file.
        kind: The class of the record.

    Returns:
        The record that `write_record` wrote.

    Raises:
        RecordError: If it is not a record of this version.
    """
    content = read_json(path, RecordError)
    try:
        record = from_json(content, import_module(__package__.partition(".")[0]))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    if not isinstance(record, kind):
        raise RecordError(f"{path} is not a {kind.__name__}")
    return record
