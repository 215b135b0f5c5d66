"""Fields of frozen dataclasses inside frozen dataclasses."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def replaced(value: T, name: str, new: Callable[[Any], Any]) -> T:
    """Return a dataclass with all fields of a name, here and further in, made new.

    Args:
        value: A frozen dataclass; anything else is returned as it is.
        name: The name of the fields.
        new: Makes the new value from the old one.

    Returns:
        A copy, or the same object if there is no such field.

    Example:
        >>> from fdsm.objectives import SSM
        >>> replaced(SSM(), "radius", lambda radius: radius / 2).projection
        Sphere(radius=0.05)
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changes = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        changed = new(old) if field.name == name else replaced(old, name, new)
        if changed is not old:
            changes[field.name] = changed
    return dataclasses.replace(value, **changes) if changes else value


def found(value: object, name: str) -> Iterator[Any]:
    """Yield all fields of a name in a dataclass and further in, from the outside.

    Args:
        value: A dataclass; in anything else there is nothing to be found.
        name: The name of the fields.

    Yields:
        Their values.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if field.name == name:
            yield inner
        else:
            yield from found(inner, name)
