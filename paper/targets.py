"""The records of the catalogue: a table of recipes, or a study."""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from .report import PublishedValue, RowInfo

if TYPE_CHECKING:
    from .recipes import Recipe
    from .study import Study

Scale = Literal["cpu", "paper"]
"""`"cpu"`: reduced settings, for two cores. `"paper"`: the published settings."""


@dataclass(frozen=True)
class TableTarget:
    """A table of recipes, each trained with several seeds.

    Attributes:
        name: Name of the target.
        title: Title in reports.
        modules: The modules of `paper.tables` that define its recipes, as `CPU` and `PAPER`.
        rows: Baseline and published numbers of each row, in the order of the paper.
        seeds: Number of seeds at each scale.
    """

    name: str
    title: str
    modules: tuple[str, ...]
    rows: Mapping[str, RowInfo]
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"cpu": 3, "paper": 3})

    @property
    def has_rows(self) -> bool:
        """Whether the target consists of rows."""
        return True

    def recipes(self, scale: Scale) -> "dict[str, Recipe]":
        """Return the recipes of all rows by name."""
        recipes: dict[str, Recipe] = {}
        for name in self.modules:
            module = importlib.import_module(f"{__package__}.tables.{name}")
            recipes |= {recipe.name: recipe for recipe in getattr(module, scale.upper())}
        return recipes


@dataclass(frozen=True)
class StudyTarget:
    """A figure or theorem that is measured by a study.

    Attributes:
        name: Name of the target.
        title: Title in reports.
        module: The module of `paper.studies` that defines the study, as `CPU` and `PAPER`.
        published: Published numbers by name and metric.
    """

    name: str
    title: str
    module: str
    published: Mapping[str, Mapping[str, PublishedValue]] = field(default_factory=dict)

    @property
    def has_rows(self) -> bool:
        """Whether the target consists of rows."""
        return False

    def study(self, scale: Scale) -> "Study":
        """Return the study at a scale."""
        module = importlib.import_module(f"{__package__}.studies.{self.module}")
        return cast("Study", getattr(module, scale.upper()))


Number = float | tuple[float, float]


def table_rows(
    place: str, metrics: tuple[str, ...], rows: Mapping[str, tuple[str, *tuple[Number, ...]]]
) -> dict[str, RowInfo]:
    """Return the rows of a table.

    Args:
        place: Where in the paper the numbers are.
        metrics: The metrics of its columns.
        rows: For each row the name of its baseline, then its numbers, one for each metric. A pair
            is a number and its error. A row without numbers is not in the paper.

    Returns:
        The rows by name.
    """
    return {
        name: RowInfo(baseline, published_values(place, metrics, numbers) if numbers else {})
        for name, (baseline, *numbers) in rows.items()
    }


def published_values(
    place: str, metrics: Iterable[str], numbers: Iterable[Number]
) -> dict[str, PublishedValue]:
    """Return published numbers by metric. A pair is a number and its error."""
    pairs = [number if isinstance(number, tuple) else (number, None) for number in numbers]
    return {
        metric: PublishedValue(float(value), None if error is None else float(error), place)
        for metric, (value, error) in zip(metrics, pairs, strict=True)
    }
