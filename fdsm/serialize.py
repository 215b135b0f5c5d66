"""Plain values for the record: what a frozen dataclass was made of, as JSON can hold it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
"""Whatever a JSON file can hold."""


def to_json(value: object) -> Json:
    """Return a value as JSON: a dataclass becomes its fields, with its class under `"class"`.

    Args:
        value: A number, a string, a path, a function or class, or a container or dataclass of
            these.

    Returns:
        The same in dictionaries, lists and scalars.

    Raises:
        TypeError: If something in it is none of these, say a tensor.

    Example:
        >>> from fdsm.projections import Sphere
        >>> to_json({"projection": Sphere(0.1), "betas": (0.9, 0.95)})
        {'projection': {'class': 'Sphere', 'radius': 0.1}, 'betas': [0.9, 0.95]}
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return _of_object(value)


def _of_object(value: object) -> Json:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value) if f.repr]
        return {"class": type(value).__name__} | {
            name: to_json(getattr(value, name)) for name in fields
        }
    if isinstance(value, (type, Callable)):  # type: ignore[arg-type]
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    raise TypeError(f"a {type(value).__name__} cannot be put on record: {value!r}")


def differences(before: Json, after: Json, path: str = "") -> list[str]:
    """Return in what two records differ, each as `path: before -> after`.

    Args:
        before: A record.
        after: Another.
        path: Where in a larger record they are.

    Returns:
        A line for each leaf that differs.

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
