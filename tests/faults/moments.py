"""Moments at which a process stops and waits to be killed. They are prepared in its process."""

import os
import time
from contextlib import AbstractContextManager
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

    locked, flush, rename, count = atomic_io._locked, atomic_io.flush, os.replace, 0
    chosen = False

    def reach(moment: str) -> None:
        if chosen and phase == moment:
            pause(connection, phase)

    def count_draft(draft: Path) -> AbstractContextManager[None]:
        nonlocal count, chosen
        matches = draft.with_name(draft.name[1:].rsplit(".", 2)[0]).match(name)
        count += matches
        chosen = matches and count == number
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
    from importlib import import_module

    module, _, names = target.partition(":")
    *owners, name = names.split(".")
    owner: object = import_module(module)
    for inner in owners:
        owner = getattr(owner, inner)
    original, count = getattr(owner, name), 0

    def called(*args: object, **options: object) -> object:
        nonlocal count
        count += 1
        if count == number:
            pause(connection, name)
        return original(*args, **options)

    setattr(owner, name, called)
