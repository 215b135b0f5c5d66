"""A limit of the memory of the process that it is prepared in."""

import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path


def limit_memory(more: int, connection: Connection) -> None:
    """Let allocations fail that need more than a number of bytes beyond what is used now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
