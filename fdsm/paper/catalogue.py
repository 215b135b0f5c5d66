"""What can be reproduced: the tables and figures of the paper, and its theorems as experiments."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from ..recipes.recipe import Recipe
from ..runs.reference import Scale, UnknownRecipeError, rows
from .study import Study

STUDIES: dict[Scale, str] = {"cpu": "STUDY", "paper": "PAPER"}
"""What a module calls its study at each scale."""


_MODULES = {
    "sensitivity": "step_sensitivity",
    "gap": "parkinsons_gap",
    "normaliser": "log_partition",
}


@dataclass(frozen=True)
class Table:
    """Rows of recipes, each trained with several seeds.

    Attributes:
        name: What it is asked for by.
        experiments: The modules whose rows it has.
        seeds: How many seeds at each scale, unless it is said otherwise.
    """

    name: str
    experiments: tuple[str, ...]
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"cpu": 3, "paper": 3})

    def recipes(self, scale: Scale) -> dict[str, Recipe]:
        """Return the recipes of all rows by `experiment/row`."""
        found = {name: rows(name, scale) for name in self.experiments}
        return {f"{name}/{row.name}": row for name, many in found.items() for row in many}


@dataclass(frozen=True)
class Figure:
    """A study, which needs no rows of its own.

    Attributes:
        name: What it is asked for by: that of its module.
    """

    name: str

    def study(self, scale: Scale) -> Study:
        """Return the study at a scale."""
        module = importlib.import_module(
            f"{__package__}.studies.{_MODULES.get(self.name, self.name)}"
        )
        return cast(Study, getattr(module, STUDIES[scale]))


Target = Table | Figure

TARGETS: tuple[Target, ...] = (
    Table("table1", ("dkef_uci",)),
    Figure("sensitivity"),
    Figure("gap"),
    Figure("normaliser"),
    Figure("table1_times"),
    Table("table2", ("deep_ebm",)),
    Table("table3", ("nice_mnist",), {"cpu": 3, "paper": 5}),
    Table("table4", ("ood",), {"cpu": 1, "paper": 1}),
    Table("table5", ("ncsn",), {"cpu": 2, "paper": 1}),
    Table(
        "table6",
        ("autoencoder_mnist", "autoencoder_celeba"),
        {"cpu": 1, "paper": 1},
    ),
    Figure("figure1"),
    Figure("figure2"),
    Table("figure3", ("figure3",), {"cpu": 1, "paper": 1}),
    Figure("figure4"),
    Figure("lemma2"),
    Figure("theorem2"),
    Figure("nce_mpf"),
    Figure("sumo"),
)
"""All of it, in the order of the paper, then its theory."""


def target(name: str) -> Target:
    """Return a target by its name.

    Args:
        name: Such as `"table1"`.

    Returns:
        The target.

    Raises:
        UnknownRecipeError: If there is none.
    """
    by_name = {one.name: one for one in TARGETS}
    if name not in by_name:
        close = get_close_matches(name, by_name, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UnknownRecipeError(
            f"there is nothing called {name!r} to reproduce, but {', '.join(by_name)}.{hint}"
        )
    return by_name[name]
