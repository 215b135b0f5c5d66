"""Random tensors of a loss, drawn outside of its graph.

A compiled graph has random numbers of its own. To get those of eager torch, the calls that create
random tensors are recorded once, repeated eagerly before each run, and their results are inputs of
the graph.
"""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode

FACTORIES = {torch.randn, torch.rand, torch.randint, torch.randperm, torch.normal}
"""Functions that create random tensors."""
LIKE = {torch.randn_like: torch.randn, torch.rand_like: torch.rand}
"""Functions that create random tensors with the shape of another tensor, and those without it."""
Draw = Callable[[Generator | None], Tensor]
"""Creates a random tensor from a generator."""


class RecordedDraws(TorchFunctionMode):
    """Context manager that records the calls which create random tensors.

    Attributes:
        draws: The calls, in order.
        others: Names of calls that use another generator, whose state is restored on exit, or the
            numbers of a tensor.
    """

    def __init__(self, generator: Generator | None) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self.others: list[str] = []
        self._generator = generator
        self._states: dict[Generator, Tensor] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the states of other generators."""
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        for generator, state in self._states.items():
            generator.set_state(state)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call if it creates a random tensor."""
        options = dict(kwargs or {})
        generator = options.get("generator")
        is_other = generator is not self._generator
        if is_other and isinstance(generator, Generator):
            self._states.setdefault(generator, generator.get_state())
        if function in LIKE:
            x, *_ = args
            options.pop("memory_format", None)  # the tensors of a factory are contiguous
            options = {"dtype": x.dtype, "device": x.device, **options}
            function, args = LIKE[function], (x.shape,)
        if function not in FACTORIES:
            self.others += [function.__name__] * (generator in self._states)
            return function(*args, **options)
        options.pop("generator", None)
        if is_other or any(isinstance(a, Tensor) for a in args):
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
        if function in FACTORIES or function in LIKE:
            return next(self._drawn)
        return function(*args, **(kwargs or {}))
