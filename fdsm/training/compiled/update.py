"""Updates that are compiled when they are first needed."""

import warnings
from collections.abc import Callable

from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from ...derivatives.checks.findings import levels_to_caller
from ...typing import Objective
from ..update import EMA, Update
from .adam import AdamState
from .graph import Batch, StepGraph
from .trace import NotCompilable


class CompileWarning(UserWarning):
    """Why a step runs in eager torch: it cannot be compiled, or something has changed since."""


class CompiledUpdate(Update):
    """An `Update` as one compiled graph: loss, gradient, clipping, optimizer step and average.

    Random numbers are drawn outside of the graph, by the same calls and in the same order as in
    eager torch. Updates by `torch.optim.Adam` and `AdamW` are part of the graph; other optimizers,
    and those with hooks or a `step` of their own, run after it. Gradients are not stored in
    `p.grad` unless they do. If the loss or its gradient is not finite, weights, optimizer and
    average stay as they are.

    The graph computes what eager torch computes, up to rounding:

    - Batches, weights, buffers, learning rates, progress and tensors from elsewhere are inputs.
    - Attributes of the modules and of objects they refer to, modes, `requires_grad`, hooks,
      groups, settings and state of the optimizer, autocast and the default type are compared at
      every update. While something differs, updates run eagerly, after one `CompileWarning`.
    - A step is not compiled, and one `CompileWarning` says why, if the loss reads numbers from a
      tensor (`if x.sum() > 0`, `t.tolist()`), draws random numbers inside the model (dropout) or
      not with the generator of the step, changes buffers or attributes, has a gradient for
      parameters without optimizer, if modules or parameters have hooks, if the model is wrapped
      for several processes (DDP, FSDP2), or without a C++ compiler. Model, optimizer and random
      numbers are then as before.
    - When the step is compiled and before its 2nd, 4th, 8th, … update, loss and gradient are
      compared with those of eager torch. A difference beyond rounding raises `RuntimeError`.

    Between two comparisons it is not noticed if the loss reads Python state elsewhere and this
    changes: global variables, variables of functions, objects behind the attributes of an
    attribute, arrays of NumPy that are changed in place. Pass such numbers as a condition of the
    model, which is a tensor, or keep them in a buffer and change its value.

    Some updates run eagerly without a warning: the first one of Adam, which creates its state, and
    those of batches with another shape than the first, such as a smaller last batch.

    Attributes:
        reason: Why the update is not compiled, or `None`.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor],
        module: nn.Module,
        optimizer: Optimizer,
        clip: float | None = None,
        average: EMA | None = None,
    ) -> None:
        super().__init__(loss, module, optimizer, clip, average)
        self.reason: str | None = None
        self._graph: StepGraph | None = None
        self._updates = 0
        self._warned: set[str] = set()
        self.optimizer.register_load_state_dict_post_hook(self._forget)

    @property
    def is_compiled(self) -> bool:
        """Whether there is a compiled graph."""
        return self._graph is not None

    def __call__(
        self, batch: Batch, generator: Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Train on a batch. Return the loss and the norm of the gradient."""
        if self._graph is None and self.reason is None and not self._is_first():
            self._compile(batch, generator, progress)
        if self._graph is None or not self._graph.fits(batch):
            return super().__call__(batch, generator, progress)
        if change := self._graph.change():
            self._warn(
                f"{change} has changed since the step was compiled. Until it is as it was, the "
                "step runs eagerly; create a new one to compile it again"
            )
            return super().__call__(batch, generator, progress)
        self._updates += 1
        if self._updates > 1 and self._updates.bit_count() == 1:
            self._verify(self._graph, batch, generator, progress)
        return self._graph(batch, generator, progress)

    def _is_first(self) -> bool:
        """Return whether an eager update must create the state of Adam or of lazy modules."""
        return AdamState.is_missing(self.optimizer) or any(map(is_lazy, self.parameters))

    def _compile(self, batch: Batch, generator: Generator | None, progress: float) -> None:
        try:
            self._graph, self._updates = StepGraph(self, batch, generator, progress), 0
        except NotCompilable as error:
            self.reason = str(error)
            self._warn(f"the training step is not compiled and runs eagerly: {self.reason}")

    def _verify(
        self, graph: StepGraph, batch: Batch, generator: Generator | None, progress: float
    ) -> None:
        """Compare the graph with eager torch.

        Raises:
            RuntimeError: If they differ by more than rounding.
        """
        if difference := graph.difference(batch, generator, progress):
            self._graph, self.reason = None, difference
            raise RuntimeError(
                f"{difference}, before update {self._updates} of the compiled step. So the loss "
                "depends on something that is not a tensor and has changed, maybe some updates "
                "ago. This update was not made. Pass what changes as a tensor, for example as a "
                "condition of the model, or train without compiling"
            )

    def _warn(self, message: str) -> None:
        """Warn once."""
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, CompileWarning, stacklevel=levels_to_caller())

    def _forget(self, optimizer: Optimizer) -> None:
        """Forget the graph of an optimizer whose state was replaced."""
        self._graph = None


def compiled_step(
    objective: Objective,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    clip: float | None = None,
    average: EMA | None = None,
) -> Callable[..., dict[str, Tensor]]:
    """Return a training step, compiled as one graph, for a training loop of your own.

    With Adam the first call runs eagerly and the second compiles. For a small network that takes
    about 30 seconds, or 5 if the same step was compiled before on this machine.
    If the model or the optimizer changes later, the step runs eagerly, after a warning. Numbers
    that the loss reads elsewhere, such as global variables, must not change during training: pass
    them as a condition, a tensor. See `CompiledUpdate` for details.

    Args:
        objective: The objective to minimize.
        model: A log-density or a score.
        optimizer: An optimizer of `torch.optim` for the parameters of the model. Its learning rate
            can change at any time, for example by a scheduler of torch.
        clip: Maximum norm of the gradient, positive; None for no limit.
        average: Average of the weights to update after each step.

    Returns:
        A function `step(x, *cond, generator=None)` that trains on a batch and returns the mean
        loss and the norm of the gradient, `"loss"` and `"grad_norm"`.

    Example:
        >>> import torch
        >>> from fdsm import SSM, FiniteDifference
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
        >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        >>> step = compiled_step(SSM(FiniteDifference()), model, optimizer)
        >>> sorted(step(torch.randn(4, 2)))
        ['grad_norm', 'loss']
    """

    def loss(x: Tensor, *rest: object) -> Tensor:
        *cond, generator, _ = rest
        return objective(model, x, *cond, generator=generator)  # type: ignore[arg-type]

    update = CompiledUpdate(loss, model, optimizer, clip, average)

    def step(x: Tensor, /, *cond: Tensor, generator: Generator | None = None) -> dict[str, Tensor]:
        return update((x, *cond), generator, 0.0)

    return step
