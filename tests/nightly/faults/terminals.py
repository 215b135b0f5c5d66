"""A terminal that a command runs in, and that can be closed."""

import os
import signal
from multiprocessing.connection import Connection


def in_terminal(name: str, connection: Connection) -> None:
    """Make a terminal the controlling one of this process, and its input and output.

    Args:
        name: The path of the terminal.
        connection: The connection to the test.
    """
    os.setsid()
    number = os.open(name, os.O_RDWR)  # the first terminal that is opened becomes controlling
    for stream in range(3):
        os.dup2(number, stream)
    os.environ["TERM"] = "xterm"


def ignoring_hang_up(connection: Connection) -> None:
    """Ignore SIGHUP, as `nohup` does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
