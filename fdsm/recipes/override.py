"""Replacing a field of a recipe by name, with a value of the right type."""

import dataclasses
import types
import typing
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class OverrideError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


def override(recipe: T, setting: str) -> T:
    """Return a recipe with one field replaced.

    Args:
        recipe: A frozen dataclass, with more of them in its fields.
        setting: `path=value`, the path with a dot for each level.

    Returns:
        The changed copy.

    Raises:
        OverrideError: If there is no such field, or the value is not of its type.

    Example:
        >>> from fdsm.objectives import SSM
        >>> override(SSM(), "projection.radius=0.05").projection
        Sphere(radius=0.05)
    """
    path, equals, text = setting.partition("=")
    if not equals:
        raise OverrideError(f"expected path=value but got {setting!r}, e.g. plan.iterations=500")
    return _replaced(recipe, path.strip().split("."), text.strip(), path.strip())


def _replaced(value: T, path: list[str], text: str, whole: str) -> T:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise OverrideError(f"cannot set {whole}: there is nothing inside {value!r}")
    names = [field.name for field in dataclasses.fields(value)]
    name, *rest = path
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise OverrideError(
            f"cannot set {whole}: {type(value).__name__} has no {name!r}, "
            f"but {', '.join(names)}.{hint}"
        )
    old = getattr(value, name)
    if rest:
        new = _replaced(old, rest, text, whole)
    else:
        new = _parsed(text, typing.get_type_hints(type(value))[name], old, whole)
    try:
        return dataclasses.replace(value, **{name: new})
    except (ValueError, TypeError) as error:
        raise OverrideError(f"cannot set {whole} to {text}: {error}") from error


def _parsed(text: str, kind: Any, old: object, whole: str) -> object:  # ruff: ignore[any-type]
    """Return the text as a value of a type such as `int`, `float | None` or `tuple[int, ...]`."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for option in options:
        try:
            return _as(text, option)
        except ValueError:
            continue
    wanted = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise OverrideError(f"cannot set {whole} to {text!r}: it takes {wanted}, and is now {old!r}")


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _as(text: str, kind: Any) -> object:  # ruff: ignore[any-type]
    if typing.get_origin(kind) is tuple:
        return _as_tuple(text, typing.get_args(kind))
    if kind is types.NoneType and text.lower() in {"none", "null"}:
        return None
    if kind is bool and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if kind in {int, float, str, Path}:
        return kind(text)
    raise ValueError(f"not a {kind}")


def _as_tuple(text: str, kinds: tuple[Any, ...]) -> tuple[object, ...]:
    cells = (part.strip().strip("\"'") for part in text.strip("()[] ").split(","))
    parts = [cell for cell in cells if cell]
    if kinds[-1] is Ellipsis:
        return tuple(_as(part, kinds[0]) for part in parts)
    if len(parts) != len(kinds):
        raise ValueError(f"expected {len(kinds)} values")
    return tuple(_as(part, kind) for part, kind in zip(parts, kinds, strict=True))
