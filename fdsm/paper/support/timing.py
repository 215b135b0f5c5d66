"""Times that can be compared: of one thread, and taken in turn."""

import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import torch


def time_interleaved(
    works: Mapping[str, Callable[[], object]],
    repeats: int,
    device: torch.device,
    *,
    enough: float = math.inf,
) -> dict[str, list[float]]:
    """Return the seconds that several works take, each done again and again after the others.

    A slow spell of the machine then hits them all. On a CPU the seconds are those of the
    processor, which other work there lengthens least, and on any other device those on the clock.
    The order is reversed every other time, so that none is always the one after another.

    Args:
        works: What to time, by name.
        repeats: How often each is done, at most.
        device: Where they are done.
        enough: What has taken so many seconds in all is not done again.

    Returns:
        The seconds of each time, in their order.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for i in range(repeats):
        for name in list(works)[:: -1 if i % 2 else 1]:
            if sum(times[name]) <= enough:
                began = _clock(device)
                result = works[name]()
                times[name].append(_clock(device) - began)
                del result
    return times


@contextmanager
def single_threaded() -> Generator[None, None, None]:
    """Let torch have but one thread for a while."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _clock(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time()
    torch.get_device_module(device).synchronize()
    return time.perf_counter()
