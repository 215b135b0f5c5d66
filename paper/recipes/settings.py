"""Changing a setting deep inside a recipe by its path, such as `optimizer.lr=1e-3`."""

import dataclasses
import typing
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import paper
from fdsm.serialize import Json, RecordError, from_json, has_type, type_name
from fdsm.untrusted import MAX_QUOTE, InputError, parse_json, quote, shorten

T = TypeVar("T")


class SettingError(InputError):
    """A setting that does not exist, or a value that it cannot take."""


def change_settings(recipe: T, settings: Sequence[str]) -> T:
    """Return a recipe with some of its settings changed.

    Args:
        recipe: A recipe, a source or another frozen dataclass. Its fields may be dataclasses.
        settings: The changes, each as `path=value` with a dot for each level of the path. A value
            is written as in JSON; quotes around text and brackets around lists may be left out.

    Returns:
        The changed copy.

    Raises:
        SettingError: If a path does not exist or a value is not allowed. All problems are listed.

    Example:
        >>> from fdsm.objectives import SSM
        >>> change_settings(SSM(), ["projection.radius=0.05"]).projection
        Sphere(radius=0.05)
    """
    problems = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        names = path.strip().split(".")
        try:
            if not equals or not all(names):
                raise SettingError(
                    f"expected PATH=VALUE, such as optimizer.lr=1e-3: {quote(setting)}"
                )
            recipe = _change(recipe, names, text.strip(), recipe)
        except SettingError as error:
            problems.append(str(error))
    if problems:
        raise SettingError("; ".join(problems))
    return recipe


def _change(value: T, names: list[str], text: str, whole: object, inside: str = "") -> T:
    fields = _field_names(value)
    name, *rest = names
    path = f"{inside}.{name}" if inside else name
    if name not in fields:
        raise SettingError(_unknown(path, name, fields, whole))
    old = getattr(value, name)
    if rest:
        new = _change(old, rest, text, whole, path)
    else:
        new = _parse(text, typing.get_type_hints(type(value))[name], old, path)
    try:
        return dataclasses.replace(value, **{name: new})  # type: ignore[type-var]
    except Exception as error:  # the checks of a class may compute with the value
        raise SettingError(f"{path}={shorten(text, MAX_QUOTE)} is not allowed: {error}") from error


def _parse(text: str, hint: Any, old: object, path: str) -> object:  # ruff: ignore[any-type]
    """Return a value of the declared type from its text."""
    try:
        candidates = [
            from_json(_as_json(text, as_list=as_list), paper) for as_list in (False, True)
        ]
    except RecordError as error:
        raise SettingError(f"{path}={shorten(text, MAX_QUOTE)} is not allowed: {error}") from error
    for value in (*candidates, text):
        if has_type(value, hint):
            return value
    raise SettingError(
        f"{path} must be {type_name(hint)}, not {quote(text)}. It is {quote(old)} now"
    )


def _as_json(text: str, *, as_list: bool) -> Json:
    if as_list:
        parts = (part.strip().strip("\"'") for part in text.strip("()[] ").split(","))
        return [_as_json(part, as_list=False) for part in parts if part]
    words: dict[str, Json] = {"none": None, "true": True, "false": False}
    try:
        return parse_json(text)  # type: ignore[no-any-return]
    except InputError:
        return words.get(text.lower(), text)


def _unknown(path: str, name: str, fields: list[str], whole: object) -> str:
    """Return the error for a path that does not exist, with the nearest paths that do."""
    near = [setting for setting in setting_paths(whole) if setting.rpartition(".")[2] == name][:3]
    near = near or get_close_matches(path, list(setting_paths(whole)), n=1)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    allowed = ", ".join(fields) or "none"
    return f"there is no setting {shorten(path, MAX_QUOTE)}.{hint} Allowed here: {allowed}"


def setting_paths(value: object, inside: str = "") -> Iterator[str]:
    """Yield the paths of all settings of a recipe, such as `optimizer.lr`."""
    for name in _field_names(value):
        path, inner = f"{inside}.{name}" if inside else name, getattr(value, name)
        yield path
        yield from setting_paths(inner, path)


def _field_names(value: object) -> list[str]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return []
    return [field.name for field in dataclasses.fields(value) if field.repr and field.init]
