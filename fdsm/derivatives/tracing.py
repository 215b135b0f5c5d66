"""Whether the code is being traced, when the numbers in a tensor are not known."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

import torch


class _Thread(threading.local):
    tracing = False


_THREAD = _Thread()


def is_tracing() -> bool:
    """Return whether `torch.compile` or a tracer inside `tracing` follows the code.

    Checks of numbers, inspections of models and changes of global settings are left out then.
    """
    return torch.compiler.is_compiling() or _THREAD.tracing


@contextmanager
def tracing() -> Generator[None]:
    """Context manager for tracers other than `torch.compile`, such as `make_fx`.

    Example:
        >>> from torch.fx.experimental.proxy_tensor import make_fx
        >>> from fdsm import SSM, FiniteDifference
        >>> loss = lambda x, v: SSM(FiniteDifference()).at(lambda x: x.cos().sum(1), x, v)
        >>> with tracing():
        ...     graph = make_fx(loss)(torch.zeros(2, 3), torch.full((2, 3), 0.1))
        >>> graph(torch.full((2, 3), 0.5), torch.full((2, 3), 0.1)).shape
        torch.Size([2])
    """
    before, _THREAD.tracing = _THREAD.tracing, True
    try:
        yield
    finally:
        _THREAD.tracing = before
