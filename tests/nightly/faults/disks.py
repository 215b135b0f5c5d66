"""Disks that are full, read-only, failing or slow, for the process that they are prepared in."""

import ctypes
import os
import resource
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

OVERRIDE_PERMISSIONS = 1
"""`CAP_DAC_OVERRIDE` of Linux."""


def limit_file_size(limit: int, connection: Connection) -> None:
    """Let every write beyond a number of bytes fail, as a quota does. Python ignores SIGXFSZ."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def obey_permissions(connection: Connection) -> None:
    """Take away the right of root to write where permissions forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0, os.strerror(ctypes.get_errno())
    for part in range(2):  # effective and permitted
        sets[part] &= ~(1 << OVERRIDE_PERMISSIONS)
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


def fail_to_flush(number: int, error: int, connection: Connection) -> None:
    """Let the disk report an error when files are flushed for the n-th time, and later."""
    flush, numbers = os.fsync, count(1)

    def fsync(file: int) -> None:
        if next(numbers) >= number:
            raise OSError(error, os.strerror(error))
        flush(file)

    os.fsync = fsync


class Recorder:
    """Records flushes, renames and deletions with the names of the files, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._fsync, self._replace, self._unlink = os.fsync, os.replace, os.unlink

    def fsync(self, file: int) -> None:
        self.calls.append(("flush", os.readlink(f"/proc/self/fd/{file}")))
        self._fsync(file)

    def replace(self, draft: Path, path: Path) -> None:
        self.calls.append(("rename", f"{draft} {path}"))
        self._replace(draft, path)

    def unlink(self, path: Path) -> None:
        self.calls.append(("delete", str(path)))
        self._unlink(path)
