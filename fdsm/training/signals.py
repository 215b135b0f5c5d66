"""Stopping between iterations rather than in the middle of one."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Generator[list[int], None, None]:
    """Collect SIGINT and SIGTERM instead of dying of them; a second one counts as usual.

    OODSource the main thread, where Python does not allow it, nothing is changed.

    Yields:
        The signals received so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in SIGNALS:
            signal.signal(each, before[each])

    for number in SIGNALS:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number in SIGNALS:
            signal.signal(number, before[number])
