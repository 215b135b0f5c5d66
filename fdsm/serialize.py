"""Frozen dataclasses as JSON and back, and changes deep inside them.

Settings of this package are frozen dataclasses of plain values and of other such dataclasses. A
run records them in its `config.json` and is rebuilt from that record alone, so a default that
changes in the code later does not change the run. Reading a record only calls the constructors of
dataclasses of this package, or of modules and packages that the caller imported and passed on.
"""

import dataclasses
import importlib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .untrusted import MAX_QUOTE, InputError, quote, shorten

__all__ = [
    "Json",
    "RecordError",
    "differences",
    "find_fields",
    "from_json",
    "has_type",
    "replace_fields",
    "to_json",
    "type_name",
]

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
"""A value that a JSON file can hold."""

T = TypeVar("T")


class RecordError(InputError):
    """A JSON record that does not describe a value of this version of the package."""


def to_json(value: object) -> Json:
    """Return a value as JSON.

    A dataclass becomes its fields, with the public name of its class under `"class"`. Fields
    declared with `repr=False` are left out. A function or class becomes `{"import": ...}`.

    Args:
        value: A number, string, path, function or class, or a container or dataclass of these.

    Returns:
        The value in dictionaries, lists and scalars.

    Raises:
        TypeError: If the value holds anything else, such as a tensor.

    Example:
        >>> from fdsm.projections import Sphere
        >>> to_json({"projection": Sphere(0.1), "betas": (0.9, 0.95)})
        {'projection': {'class': 'fdsm.projections.Sphere', 'radius': 0.1}, 'betas': [0.9, 0.95]}
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, (type, types.FunctionType)):
        return {"import": public_name(value)}
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if f.repr]
        return {"class": public_name(type(value))} | {
            name: to_json(getattr(value, name)) for name in fields
        }
    raise TypeError(f"a {type(value).__name__} cannot be recorded as JSON: {value!r}")


def public_name(value: Any) -> str:  # ruff: ignore[any-type]
    """Return the name of a class or function in the public package that exports it.

    The name stays the same when a class moves to another file of that package.

    Args:
        value: A class or function.

    Returns:
        The name.

    Example:
        >>> from fdsm.training.optimizers import Adam
        >>> public_name(Adam)
        'fdsm.training.Adam'
    """
    name, parts = str(value.__name__), value.__module__.split(".")
    for count in range(2, len(parts)):
        package = ".".join(parts[:count])
        if getattr(importlib.import_module(package), name, None) is value:
            return f"{package}.{name}"
    return f"{'.'.join(parts)}.{name}"


def from_json(record: Json, *trusted: ModuleType) -> Any:  # ruff: ignore[any-type]
    """Return the value that `to_json` recorded.

    Args:
        record: The JSON value. Lists become tuples.
        trusted: Modules or packages outside this one whose classes and functions may be used too.

    Returns:
        The value.

    Raises:
        RecordError: If a class or field does not exist, or a field is missing or has a value of
            the wrong type.

    Example:
        >>> from fdsm.objectives import SSM
        >>> from_json(to_json(SSM())) == SSM()
        True
    """
    if isinstance(record, list):
        return tuple(from_json(item, *trusted) for item in record)
    if not isinstance(record, dict):
        return record
    if "class" in record:
        return _from_fields(dict(record), trusted)
    if set(record) == {"import"}:
        return _imported(str(record["import"]), trusted)
    return {key: from_json(item, *trusted) for key, item in record.items()}


def _from_fields(record: dict[str, Any], trusted: tuple[ModuleType, ...]) -> Any:  # ruff: ignore[any-type]
    name = str(record.pop("class"))
    kind = _imported(name, trusted)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise RecordError(f"{name} is not a class of settings")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    unknown = [key for key in record if key not in fields]
    missing = [key for key, field in fields.items() if key not in record and _is_required(field)]
    if unknown or missing:
        problems = [f"unknown field {quote(key)}" for key in unknown]
        problems += [f"missing field {key!r}" for key in missing]
        raise RecordError(f"{name}: {', '.join(problems)}")
    values = {key: from_json(item, *trusted) for key, item in record.items()}
    hints = _type_hints(kind)
    for key, value in values.items():
        if not has_type(value, hints[key]):
            raise RecordError(f"{name}.{key} must be {type_name(hints[key])}, got {quote(value)}")
    try:
        return kind(**values)
    except Exception as error:  # the checks of a class may compute with the values
        raise RecordError(f"{name}: {error}") from error


def _type_hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError as error:  # a type that is imported for type checkers only
        raise RecordError(f"{public_name(kind)} is not a class of settings") from error


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    absent = dataclasses.MISSING
    return field.default is absent and field.default_factory is absent


def _imported(name: str, trusted: tuple[ModuleType, ...]) -> Any:  # ruff: ignore[any-type]
    """Return a class or function of this package, or of a trusted module, by its full name."""
    module_name, _, attribute = name.rpartition(".")
    packages = ["fdsm", *(module.__name__ for module in trusted)]
    if any(_is_in(module_name, package) for package in packages):
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise RecordError(
                f"there is no module {shorten(module_name, MAX_QUOTE)} in this version"
            ) from error
    else:
        raise RecordError(f"{shorten(name, MAX_QUOTE)} is not part of this package")
    value = getattr(module, attribute, None)
    home = str(getattr(value, "__module__", ""))
    if not isinstance(value, (type, types.FunctionType)) or not any(
        _is_in(home, package) for package in packages
    ):
        raise RecordError(f"there is no {shorten(name, MAX_QUOTE)} in this version")
    return value


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def has_type(value: object, hint: Any) -> bool:  # ruff: ignore[any-type]
    """Return whether a value has a declared type.

    A value declared as a protocol must have the members of the protocol; their types are not
    checked, and neither are those of the items of dictionaries.

    Args:
        value: The value.
        hint: The annotation of a field.

    Returns:
        Whether the value is allowed there.

    Example:
        >>> has_type((1, 2.5), tuple[float, ...]), has_type(True, int), has_type(None, int | None)
        (True, False, True)
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return any(has_type(value, option) for option in options)
    if origin is typing.Literal:
        return value in options
    if origin is tuple:
        return isinstance(value, tuple) and _items_have_types(value, options)
    if origin is Callable:
        return callable(value)
    if hint in _PLAIN:
        return isinstance(value, _PLAIN[hint]) and (hint is bool or not isinstance(value, bool))
    if getattr(hint, "_is_protocol", False):
        members = [name for name in vars(hint) if name == "__call__" or name[0] != "_"]
        return all(hasattr(value, name) for name in members)
    return not isinstance(hint, type) or isinstance(value, hint)


_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    Path: (str, Path),
    types.NoneType: (types.NoneType,),
}


def _items_have_types(values: tuple[object, ...], hints: tuple[Any, ...]) -> bool:
    if hints[-1] is Ellipsis:
        return all(has_type(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(has_type, values, hints))


def type_name(hint: Any) -> str:  # ruff: ignore[any-type]
    """Return a type as it is written in code, such as `float | None`."""
    return str(getattr(hint, "__name__", hint)) if isinstance(hint, type) else str(hint)


def differences(before: Json, after: Json, path: str = "") -> list[str]:
    """Return the differences between two records, each as `path: before -> after`.

    Args:
        before: A record.
        after: Another record.
        path: Path of both records inside a larger record.

    Returns:
        One line for each leaf that differs.

    Example:
        >>> differences({"a": 1, "b": {"c": [2, 3]}}, {"a": 1, "b": {"c": [2, 4]}})
        ['b.c: [2, 3] -> [2, 4]']
    """
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [] if before == after else [f"{path}: {before} -> {after}"]
    lines = []
    for key in dict.fromkeys([*before, *after]):
        inner = f"{path}.{key}" if path else str(key)
        lines += differences(before.get(key), after.get(key), inner)
    return lines


def replace_fields(value: T, name: str, change: Callable[[Any], Any]) -> T:
    """Return a dataclass in which every field with a given name, at any depth, is changed.

    Args:
        value: A frozen dataclass. Anything else is returned unchanged.
        name: Name of the fields.
        change: Maps the old value of a field to the new one.

    Returns:
        A copy, or the same object if there is no such field.

    Example:
        >>> from fdsm.objectives import SSM
        >>> replace_fields(SSM(), "radius", lambda radius: radius / 2).projection
        Sphere(radius=0.05)
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changes = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        new = change(old) if field.name == name else replace_fields(old, name, change)
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(value, **changes) if changes else value


def find_fields(value: object, name: str) -> Iterator[Any]:
    """Yield the values of all fields with a given name in a dataclass, at any depth."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if field.name == name:
            yield inner
        else:
            yield from find_fields(inner, name)
