"""Handling of SIGINT and SIGTERM, so that training stops between two iterations."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Generator[list[int], None, None]:
    """Record the first SIGINT or SIGTERM. A second signal has its usual effect.

    Python allows signal handlers only in the main thread. Other threads record no signals.

    Yields:
        The signals received so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in SIGNALS:
            signal.signal(each, previous[each])

    for number in SIGNALS:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number in SIGNALS:
            signal.signal(number, previous[number])
