"""Moments at which a process stops and waits to be killed. They are prepared in its process."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

PHASES = ("created", "half", "written", "flushed", "renamed")
"""Moments of a write: the draft is empty, half written, written, on the disk, and renamed."""


def pause(connection: Connection, moment: str) -> None:
    """Report that the moment has come, and wait to be killed."""
    connection.send(moment)
    time.sleep(600)


def pause_in_write(name: str, number: int, phase: str, connection: Connection) -> None:
    """Pause inside a write.

    Args:
        name: The file, as a pattern such as `*.json`.
        number: Which write of such a file, from 1 on.
        phase: One of `PHASES`.
        connection: The connection to the test.
    """
    from fdsm import atomic_io

    locked, flush, rename = atomic_io._locked, atomic_io.flush, os.replace
    numbers, chosen = count(1), False

    def reach(moment: str) -> None:
        if chosen and phase == moment:
            pause(connection, phase)

    def count_draft(draft: Path) -> AbstractContextManager[None]:
        nonlocal chosen
        matches = draft.with_name(draft.name[1:].rsplit(".", 2)[0]).match(name)
        chosen = matches and next(numbers) == number
        draft.touch()
        reach("created")
        return locked(draft)

    def slow_flush(draft: Path) -> None:
        if chosen and phase == "half":
            os.truncate(draft, draft.stat().st_size // 2)
        reach("half")
        reach("written")
        flush(draft)

    def slow_rename(draft: Path, path: Path) -> None:
        reach("flushed")
        rename(draft, path)
        reach("renamed")

    atomic_io._locked, atomic_io.flush, os.replace = count_draft, slow_flush, slow_rename  # type: ignore[assignment]


def pause_in_call(target: str, number: int, connection: Connection) -> None:
    """Pause at the beginning of a call of a function.

    Args:
        target: The function, as `module:name` or `module:class.name`.
        number: Which call, from 1 on.
        connection: The connection to the test.
    """
    numbers = count(1)
    _before_calls(target, lambda: next(numbers) == number and pause(connection, target))


def slow_calls(target: str, seconds: float, connection: Connection) -> None:
    """Wait before each call of a function."""
    _before_calls(target, lambda: time.sleep(seconds))


def all_of(faults: Sequence[Callable[[Connection], None]], connection: Connection) -> None:
    """Prepare several faults."""
    for fault in faults:
        fault(connection)


def _before_calls(target: str, action: Callable[[], object]) -> None:
    module, _, names = target.partition(":")
    *owners, name = names.split(".")
    owner: object = import_module(module)
    for inner in owners:
        owner = getattr(owner, inner)
    original = getattr(owner, name)

    def called(*args: object, **options: object) -> object:
        action()
        return original(*args, **options)

    setattr(owner, name, called)
