"""Time and memory of functions, measured so that they can be compared."""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


def time_interleaved(
    functions: Mapping[str, Callable[[], object]],
    repeats: int,
    device: torch.device,
    *,
    warm_up: int = 0,
    max_seconds: float = math.inf,
    wall_clock: bool = False,
    prepare: Callable[[str], object] = lambda name: None,
) -> dict[str, list[float]]:
    """Time several functions, alternating between them.

    Each round calls every function once, so that slow phases of the machine affect all of them.
    Every other round is in reverse order, so that no function always follows the same one.

    Args:
        functions: The functions to time, by name.
        repeats: Number of timed calls of each function, at most.
        device: The device on which they compute.
        warm_up: Number of rounds before, which are not timed.
        max_seconds: A function is not called again after this total time.
        wall_clock: Measure elapsed time. Otherwise the CPU time of the process is measured on a
            CPU, which other processes affect least. Other devices always use elapsed time.
        prepare: Called with the name before each call of a function, not timed.

    Returns:
        The seconds of each call, by name.
    """
    read_clock = time.perf_counter if wall_clock or device.type != "cpu" else time.process_time
    times: dict[str, list[float]] = {name: [] for name in functions}
    for i in range(-warm_up, repeats):
        for name in list(functions)[:: -1 if (i + warm_up) % 2 else 1]:
            if sum(times[name]) > max_seconds:
                continue
            prepare(name)
            _synchronize(device)
            start = read_clock()
            result = functions[name]()
            _synchronize(device)
            if i >= 0:
                times[name].append(read_clock() - start)
            del result
    return times


@contextmanager
def single_threaded() -> Generator[None, None, None]:
    """Limit torch to one CPU thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def peak_saved_bytes(function: Callable[[], object], ignore: Iterable[Tensor] = ()) -> int:
    """Return the peak memory of tensors that autograd saves for the backward pass.

    Args:
        function: The function to measure.
        ignore: Tensors that are not counted, such as parameters.

    Returns:
        The maximum number of bytes saved at the same time. Shared memory is counted once.

    Example:
        >>> a = torch.ones(10, dtype=torch.float32, requires_grad=True)
        >>> peak_saved_bytes(lambda: (a.exp() * a).sum(), ignore=[a])  # saves exp(a)
        40
    """
    memory = _Memory({_address(tensor) for tensor in ignore})
    with torch.autograd.graph.saved_tensors_hooks(lambda t: _Saved(t, memory), _Saved.unpack):
        function()
    return memory.peak


class _Memory:
    """Number of bytes that are saved now, and their maximum so far."""

    def __init__(self, ignored: set[int]) -> None:
        self.ignored = ignored
        self.references: Counter[int] = Counter()
        self.current = self.peak = 0

    def add(self, tensor: Tensor, references: int) -> None:
        address = _address(tensor)
        if address in self.ignored:
            return
        before = self.references[address] > 0
        self.references[address] += references
        after = self.references[address] > 0
        self.current += (after - before) * tensor.untyped_storage().nbytes()
        self.peak = max(self.peak, self.current)


class _Saved:
    """A saved tensor, counted until autograd releases it."""

    def __init__(self, tensor: Tensor, memory: _Memory) -> None:
        self.tensor, self.memory = tensor, memory
        memory.add(tensor, 1)

    def unpack(self) -> Tensor:
        return self.tensor

    def __del__(self) -> None:
        self.memory.add(self.tensor, -1)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()
