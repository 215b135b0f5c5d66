"""Recipes that users define in Python files of their own: `file.py:name`."""

import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from fdsm.untrusted import InputError

from ..recipes.recipe import Recipe


class UnknownRecipeError(InputError):
    """A recipe that cannot be found."""


def load_file(path: Path) -> ModuleType:
    """Execute a Python file and return it as a module.

    Args:
        path: The file.

    Returns:
        The module. Its name depends on the stem of the file alone, so that a run can name
        classes of the file wherever the file is.

    Raises:
        UnknownRecipeError: If there is no such file.
    """
    if not path.is_file():
        raise UnknownRecipeError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"recipe_file.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UnknownRecipeError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses resolve their annotations there
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def recipe_from_file(reference: str) -> tuple[Recipe, dict[str, str]]:
    """Return a recipe that is defined in a Python file, which is executed.

    Args:
        reference: `file.py:name`, the name being that of a variable.

    Returns:
        The recipe, and the record of its origin for `Run.create`.

    Raises:
        UnknownRecipeError: If there is no such file or variable.
    """
    file, colon, name = reference.rpartition(":")
    if not colon:
        raise UnknownRecipeError(f"a recipe is given as file.py:name, but got {reference!r}")
    module = load_file(Path(file))
    recipes = {key: value for key, value in vars(module).items() if isinstance(value, Recipe)}
    if name not in recipes:
        near = get_close_matches(name, recipes, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownRecipeError(
            f"{file} defines no recipe {name!r}.{hint} Available: {', '.join(recipes) or 'none'}"
        )
    return recipes[name], {"file": str(Path(file).resolve()), "name": name}
