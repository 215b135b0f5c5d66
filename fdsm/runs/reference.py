"""Recipes by name: the rows of the tables in this package, and those in users' own files."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, cast

from ..data import Array, ImageArray, ImageFolder, Source, Table, from_path
from ..recipes.override import override
from ..recipes.recipe import Recipe

Scale = Literal["cpu", "paper"]
"""Minutes on two cores with the same structure, or the published setting."""

TABLES: dict[Scale, str] = {"cpu": "TABLE", "paper": "PAPER"}
"""What a module calls its recipes at each scale."""


KINDS: dict[str, Callable[[str], Source]] = {
    kind.__name__: kind for kind in (Array, ImageArray, ImageFolder, Table)
}
"""What the user's own data can be."""


class UnknownRecipeError(ValueError):
    """A recipe that cannot be found."""


class UntrustedRecipeError(ValueError):
    """A run that can only be opened by executing a file."""


@dataclass(frozen=True)
class Reference:
    """Where a recipe is and what was changed in it: enough to make it again.

    Attributes:
        recipe: `experiment/row`, an `experiment` for its first row, or `file.py:name`.
        scale: Of the recipes of this package, which.
        data: A file or folder of the user's own data, if it is to be used instead.
        overrides: Settings as `path=value`, applied in this order.
        kind: What the user's data is, if it was found out before and may be gone now.
    """

    recipe: str
    scale: Scale = "cpu"
    data: str | None = None
    overrides: tuple[str, ...] = ()
    kind: str | None = None

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the reference in a `config.json`."""
        overrides = tuple(str(setting) for setting in record["overrides"])
        kind = record["settings"]["data"]["class"] if record["own_data"] else None
        if record["scale"] not in TABLES or (kind is not None and kind not in KINDS):
            raise ValueError(f"no scale {record['scale']!r} of data {kind!r}")
        return cls(str(record["recipe"]), record["scale"], record["own_data"], overrides, kind)

    def record(self) -> dict[str, Any]:
        """Return what goes into a `config.json`."""
        return {
            "recipe": self.recipe,
            "scale": self.scale,
            "own_data": self.data,
            "overrides": list(self.overrides),
        }

    @property
    def file(self) -> Path | None:
        """The user's file the recipe is in, if it is not in this package."""
        path, colon, _ = self.recipe.rpartition(":")
        return Path(path) if colon else None

    def resolve(self) -> Recipe:
        """Return the recipe; if it is in a file, that is executed."""
        found = _in_file(self.recipe) if self.file else _in_package(self.recipe, self.scale)
        if self.data is not None:
            found = found.with_data(self._own(self.data))
        for setting in self.overrides:
            found = override(found, setting)
        return found

    def _own(self, path: str) -> Source:
        """Return the user's data; which array of several decides what they are."""
        if self.kind is not None:
            return KINDS[self.kind](path)
        settings = dict(setting.partition("=")[::2] for setting in self.overrides)
        return from_path(path, settings.get("data.key"))


def experiments() -> list[str]:
    """Return the names of the experiments, each a module of this package with a `TABLE`."""
    return [name for name in _modules() if hasattr(_module(name), TABLES["cpu"])]


def rows(experiment: str, scale: Scale = "cpu") -> tuple[Recipe, ...]:
    """Return the recipes of an experiment.

    Args:
        experiment: The name of its module.
        scale: Which of its tables.

    Returns:
        Its rows, of which there are none if it does not have that scale.

    Raises:
        UnknownRecipeError: If there is no such experiment.
    """
    if experiment not in _modules() or not hasattr(_module(experiment), TABLES["cpu"]):
        raise UnknownRecipeError(_unknown("experiment", experiment, experiments()))
    return cast(tuple[Recipe, ...], getattr(_module(experiment), TABLES[scale], ()))


_HOMES = {
    "autoencoder_celeba": "fdsm.paper.tables.table6_celeba",
    "autoencoder_mnist": "fdsm.paper.tables.table6_mnist",
    "deep_ebm": "fdsm.paper.tables.table2",
    "density": "fdsm.paper.tables.toy_densities",
    "digits": "fdsm.paper.tables.digits",
    "dkef_uci": "fdsm.paper.tables.table1",
    "figure3": "fdsm.paper.tables.figure3",
    "ncsn": "fdsm.paper.tables.table5",
    "nice_mnist": "fdsm.paper.tables.table3",
    "ood": "fdsm.paper.tables.table4",
}


def _modules() -> list[str]:
    return list(_HOMES)


def _module(experiment: str) -> ModuleType:
    return importlib.import_module(_HOMES[experiment])


def _in_package(name: str, scale: Scale) -> Recipe:
    experiment, _, row = name.partition("/")
    by_name = {recipe.name: recipe for recipe in rows(experiment, scale)}
    if not by_name:
        raise UnknownRecipeError(f"{experiment} has no recipes at the scale {scale!r}")
    if row and row not in by_name:
        raise UnknownRecipeError(_unknown(f"row of {experiment}", row, by_name))
    return by_name[row] if row else next(iter(by_name.values()))


def _in_file(reference: str) -> Recipe:
    path, _, name = reference.rpartition(":")
    if not Path(path).is_file():
        raise UnknownRecipeError(f"there is no file {path!r} to find the recipe {name!r} in")
    spec = importlib.util.spec_from_file_location(f"recipes of {path}", path)
    if spec is None or spec.loader is None:
        raise UnknownRecipeError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    recipes = {key: value for key, value in vars(module).items() if _is_recipe(value)}
    if name not in recipes:
        raise UnknownRecipeError(_unknown(f"recipe in {path}", name, recipes))
    return cast(Recipe, recipes[name])


def _is_recipe(value: object) -> bool:
    needed = ("name", "data", "plan", "build", "step")
    return not isinstance(value, type) and all(hasattr(value, each) for each in needed)


def _unknown(kind: str, name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"there is no {kind} {name!r}, but {', '.join(names) or 'nothing'}.{hint}"
