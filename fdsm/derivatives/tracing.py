"""Whether the code is being traced, when the numbers in a tensor are not known."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass
class Trace:
    """What a tracer must know about the code that it follows.

    Attributes:
        full_precision: Whether matrix products must not be computed in reduced precision.
    """

    full_precision: bool = False


class _Thread(threading.local):
    trace: Trace | None = None


_THREAD = _Thread()


def is_tracing() -> bool:
    """Return whether `torch.compile` or a tracer inside `tracing` follows the code.

    Checks of numbers, inspections of models and changes of global settings are left out then.
    """
    return torch.compiler.is_compiling() or _THREAD.trace is not None


@contextmanager
def tracing() -> Generator[Trace]:
    """Context manager for tracers other than `torch.compile`, such as `make_fx`.

    Yields:
        What the tracer must take care of.

    Example:
        >>> from torch.fx.experimental.proxy_tensor import make_fx
        >>> from fdsm import SSM, FiniteDifference
        >>> loss = lambda x, v: SSM(FiniteDifference()).at(lambda x: x.cos().sum(1), x, v)
        >>> with tracing():
        ...     graph = make_fx(loss)(torch.zeros(2, 3), torch.full((2, 3), 0.1))
        >>> graph(torch.full((2, 3), 0.5), torch.full((2, 3), 0.1)).shape
        torch.Size([2])
    """
    before, _THREAD.trace = _THREAD.trace, Trace()
    try:
        yield _THREAD.trace
    finally:
        _THREAD.trace = before


def request_full_precision() -> None:
    """Tell the tracer that matrix products must not be computed in reduced precision."""
    if _THREAD.trace is not None:
        _THREAD.trace.full_precision = True
