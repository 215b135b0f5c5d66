"""The catalogue of the reproduction: one record for each table, figure and theorem."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, cast

from ..recipes import Recipe
from .study import Study

Scale = Literal["cpu", "paper"]
"""`"cpu"`: reduced settings, minutes on two cores. `"paper"`: the published settings."""

TABLES: dict[Scale, str] = {"cpu": "TABLE", "paper": "PAPER"}
STUDIES: dict[Scale, str] = {"cpu": "STUDY", "paper": "PAPER"}


class UnknownTargetError(ValueError):
    """A table, figure or row that is not in the catalogue."""


@dataclass(frozen=True)
class Table:
    """Rows of recipes, each trained with several seeds.

    Attributes:
        name: Name of the target.
        modules: The modules of `fdsm.paper.tables` with its rows.
        seeds: Number of seeds at each scale.
    """

    name: str
    modules: tuple[str, ...]
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"cpu": 3, "paper": 3})

    def recipes(self, scale: Scale) -> dict[str, Recipe]:
        """Return the recipes of all rows by name."""
        found: dict[str, Recipe] = {}
        for name in self.modules:
            module = importlib.import_module(f"{__package__}.tables.{name}")
            found |= {row.name: row for row in getattr(module, TABLES[scale], ())}
        return found


@dataclass(frozen=True)
class Figure:
    """A study without rows.

    Attributes:
        name: Name of the target.
        module: The module of `fdsm.paper.studies`.
    """

    name: str
    module: str

    def study(self, scale: Scale) -> Study:
        """Return the study at a scale."""
        module = importlib.import_module(f"{__package__}.studies.{self.module}")
        return cast(Study, getattr(module, STUDIES[scale]))


Target = Table | Figure

TARGETS: tuple[Target, ...] = (
    Table("table1", ("table1",)),
    Figure("sensitivity", "step_sensitivity"),
    Figure("gap", "parkinsons_gap"),
    Figure("normaliser", "log_partition"),
    Figure("table1_times", "table1_times"),
    Table("table2", ("table2",)),
    Table("table3", ("table3",), {"cpu": 3, "paper": 5}),
    Table("table4", ("table4",), {"cpu": 1, "paper": 1}),
    Table("table5", ("table5",), {"cpu": 2, "paper": 1}),
    Table("table6", ("table6_mnist", "table6_celeba"), {"cpu": 1, "paper": 1}),
    Figure("figure1", "figure1"),
    Figure("figure2", "figure2"),
    Table("figure3", ("figure3",), {"cpu": 1, "paper": 1}),
    Figure("figure4", "figure4"),
    Figure("lemma2", "lemma2"),
    Figure("theorem2", "theorem2"),
    Figure("nce_mpf", "nce_mpf"),
    Figure("sumo", "sumo"),
)
"""All targets, in the order of the paper."""


def target(name: str) -> Target:
    """Return a target by its name.

    Args:
        name: Such as `"table1"`.

    Returns:
        The target.

    Raises:
        UnknownTargetError: If there is none.
    """
    by_name = {one.name: one for one in TARGETS}
    if name not in by_name:
        close = get_close_matches(name, by_name, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownTargetError(f"unknown target {name!r}.{hint} Available: {', '.join(by_name)}")
    return by_name[name]


def recipe_of(name: str, row: str, scale: Scale) -> Recipe:
    """Return the recipe of a row of a table.

    Args:
        name: Name of the table.
        row: Name of the row.
        scale: The scale.

    Returns:
        The recipe.

    Raises:
        UnknownTargetError: If there is no such table or row.
    """
    table = target(name)
    recipes = table.recipes(scale) if isinstance(table, Table) else {}
    if row not in recipes:
        close = get_close_matches(row, recipes, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownTargetError(
            f"unknown row {row!r} of {name}.{hint} Available: {', '.join(recipes) or 'none'}"
        )
    return recipes[row]
