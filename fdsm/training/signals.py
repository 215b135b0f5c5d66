"""Handling of SIGINT, SIGTERM and SIGHUP, so that training stops between two iterations."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["SIGNALS"]

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""Ctrl-C, `kill`, and a terminal that was closed, which Windows does not have."""


@contextmanager
def interruptible() -> Generator[list[int], None, None]:
    """Record the first SIGINT, SIGTERM or SIGHUP. A second signal has its usual effect.

    Signals that the process ignores, as `nohup` makes it ignore SIGHUP, stay ignored. Python
    allows signal handlers only in the main thread. Other threads record no signals.

    Yields:
        The signals received so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number in [n for n, handler in previous.items() if handler in {signal.SIG_IGN, None}]:
        del previous[number]

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        restore()

    for number in previous:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        restore()
