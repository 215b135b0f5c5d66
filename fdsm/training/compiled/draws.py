"""Random tensors of a loss, drawn outside of its graph.

A compiled graph has random numbers of its own. To get those of eager torch, the calls that create
random tensors are recorded once, repeated eagerly before each run, and their results are inputs of
the graph.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode

Draw = Callable[[Generator | None], Tensor]
"""Creates a random tensor from a generator."""

_FACTORIES = {torch.randn, torch.rand, torch.randint, torch.randperm, torch.normal}
_LIKE = {torch.randn_like: torch.randn, torch.rand_like: torch.rand}


def _as_factory(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """Return `randn_like(x)` as `randn(x.shape)`, and any other call unchanged."""
    if function not in _LIKE:
        return function, args, options
    x, *_ = args
    options.pop("memory_format", None)  # the tensors of a factory are contiguous
    return _LIKE[function], (x.shape,), {"dtype": x.dtype, "device": x.device, **options}


class RecordedDraws(TorchFunctionMode):
    """Context manager that records the calls which create random tensors.

    Attributes:
        draws: The calls, in order.
        others: Names of calls that use another generator or the numbers of a tensor.
    """

    def __init__(self, generator: Generator | None) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self.others: list[str] = []
        self._generator = generator

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call if it creates a random tensor."""
        function, args, options = _as_factory(function, args, dict(kwargs or {}))
        if function not in _FACTORIES:
            return function(*args, **options)
        generator = options.pop("generator", None)
        if generator is not self._generator or any(isinstance(a, Tensor) for a in args):
            self.others.append(function.__name__)
        self.draws.append(lambda generator: function(*args, generator=generator, **options))
        return self.draws[-1](generator)


class GivenDraws(TorchFunctionMode):
    """Context manager in which the calls that create random tensors return given ones."""

    def __init__(self, drawn: Iterable[Tensor]) -> None:
        super().__init__()
        self._drawn = iter(drawn)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the next tensor instead of a new one."""
        if function in _FACTORIES or function in _LIKE:
            return next(self._drawn)
        return function(*args, **(kwargs or {}))
