"""The graph of an update, traced and compiled."""

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ...derivatives.guards import random_state, restore_random_state
from ...derivatives.precision import full_precision
from ...derivatives.tracing import tracing
from ..update import Update
from .adam import AdamState
from .draws import Draw, GivenDraws, RecordedDraws

if TYPE_CHECKING:
    from torch.fx import GraphModule

TOLERANCE = 1e-4
"""Largest accepted relative difference between the losses of the graph and of eager torch."""

Batch = tuple[Tensor, ...]


class NotCompilable(Exception):
    """The reason why an update cannot be compiled."""


@contextmanager
def random_state_kept(
    generator: torch.Generator | None, device: torch.device
) -> Generator[Callable[[], list[Tensor]]]:
    """Restore the states of a generator and of torch's own on exit.

    Args:
        generator: A generator.
        device: The device whose global generator is kept.

    Yields:
        A function that returns the states.
    """

    def states() -> list[Tensor]:
        own = [] if generator is None else [generator.get_state()]
        return [*random_state(device), *own]

    before = states()
    try:
        yield states
    finally:
        if generator is not None:
            generator.set_state(before.pop())
        restore_random_state(tuple(before), device)


class StepGraph:
    """An update as one compiled function of the tensors that it reads and writes."""

    def __init__(
        self, update: Update, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> None:
        """Trace and compile an update.

        Args:
            update: The update.
            batch: The tensors of a batch.
            generator: The generator that the loss draws from.
            progress: The progress of training.

        Raises:
            NotCompilable: If the graph would not compute what eager torch computes.
        """
        self._update, self._layouts = update, [_layout(t) for t in batch]
        self._device, self._training = batch[0].device, update.module.training
        if torch.is_autocast_enabled(self._device.type):
            raise NotCompilable("autocast is enabled")
        self._weights, self._names = update.parameters, _names(update)
        self._dtype = self._weights[0].dtype
        tensors = chain(update.module.named_parameters(), update.module.named_buffers())
        self._fixed = {name: t for name, t in tensors if name not in self._names}
        self._captured: list[Tensor] = []
        self._draws, self._used = self._record(batch, generator, progress)
        used = [self._weights[i] for i in self._used]
        self._adam = AdamState.of(update.optimizer, used)
        self._means = [] if self._adam is None else _means(update)
        self._num_groups = len(update.optimizer.param_groups)
        update.optimizer.zero_grad(set_to_none=True)  # gradients stay in the graph
        with random_state_kept(generator, self._device):
            graph = self._trace(batch, generator, progress)
            self._check(graph, batch, generator, progress)
            self._run = _compiled(graph, self._inputs(batch, generator, progress))

    def fits(self, batch: Batch) -> bool:
        """Return whether the graph is valid for a batch and the current model and optimizer."""
        return (
            [_layout(t) for t in batch] == self._layouts
            and self._update.module.training is self._training
            and all([p.requires_grad and p.dtype is self._dtype for p in self._weights])
            and len(self._update.optimizer.param_groups) == self._num_groups
            and (self._adam is None or self._adam.is_unchanged)
        )

    def __call__(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Run the graph on a batch. Return the loss and the norm of the gradient."""
        context = full_precision(self._device) if self._full_precision else nullcontext()
        with torch.no_grad(), context:
            loss, norm, *gradients = self._run(*self._inputs(batch, generator, progress))
        average = self._update.average
        if self._means and average is not None:
            average.count_update()
        elif (self._adam is None or average is not None) and bool((loss + norm).isfinite()):
            self._finish(gradients)
        return {"loss": loss, "grad_norm": norm}

    def _finish(self, gradients: Sequence[Tensor]) -> None:
        """Do the parts of the update that are not in the graph."""
        if self._adam is None:
            for i, gradient in zip(self._used, gradients, strict=True):
                self._weights[i].grad = gradient
            self._update.optimizer.step()
        if self._update.average is not None:
            self._update.average.update()

    def _groups(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> tuple[Iterable[Tensor], ...]:
        """Return the inputs of the graph in groups."""
        average, adam = self._update.average, self._adam
        share = 0.0 if average is None else average.next_weight
        numbers = [progress, share, *(() if adam is None else adam.numbers())]
        return (
            batch,
            [draw(generator) for draw in self._draws],
            [torch.tensor(numbers, dtype=self._dtype, device=self._device)],
            self._weights,
            self._fixed.values(),
            () if adam is None else adam.tensors,
            self._means,
            self._captured,
        )

    def _inputs(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> list[Tensor]:
        return list(chain(*self._groups(batch, generator, progress)))

    def _step(self, groups: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """Update the weights in terms of operations on tensors alone, so that it can be traced."""
        from torch.func import functional_call

        batch, drawn, (numbers,), weights, fixed, state, means, _ = groups
        progress, share = numbers[:2].unbind()
        leaves = [w.detach().requires_grad_() for w in weights]
        with torch.enable_grad(), GivenDraws(drawn):
            named = zip((*self._names, *self._fixed), (*leaves, *fixed), strict=True)
            arguments = (*batch, torch.Generator(self._device), progress)
            loss = functional_call(
                _Loss(self._update), {f"module.{k}": t for k, t in named}, arguments
            )
            gradients = torch.autograd.grad(loss, [leaves[i] for i in self._used])
        loss = loss.detach()
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(g) for g in gradients])
        )
        if self._update.clip is not None:
            scale = (self._update.clip / (norm + 1e-6)).clamp(max=1)  # as in clip_grad_norm_
            gradients = tuple(g * scale for g in gradients)
        if self._adam is None:
            return loss, norm, *gradients
        trained = [weights[i] for i in self._used]
        old = [*trained, *state]
        new = list(self._adam.step(trained, gradients, state, numbers[2:]))
        if means:
            latest = list(weights)
            for i, weight in zip(self._used, new[: len(trained)], strict=True):
                latest[i] = weight
            old += means
            new += [mean.lerp(w, share) for mean, w in zip(means, latest, strict=True)]
        finite = (loss + norm).isfinite()
        for before, after in zip(old, new, strict=True):
            before.copy_(torch.where(finite, after, before))
        return loss, norm

    def _record(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> tuple[list[Draw], list[int]]:
        """Return how the loss draws random tensors, and which weights have a gradient.

        Raises:
            NotCompilable: If drawing them again does not lead to the same random state, or a
                buffer has changed.
        """
        buffers = [(b, b._version) for b in self._update.module.buffers()]
        with random_state_kept(generator, self._device) as states:
            with RecordedDraws(generator) as record:
                loss = self._update.loss(*batch, generator, progress).mean()
            after = states()
        with random_state_kept(generator, self._device) as states:
            for draw in record.draws:
                draw(generator)
            if record.others or not all(map(torch.equal, states(), after)):
                raise NotCompilable(
                    "random numbers are drawn inside the model (dropout?) or not by torch.randn, "
                    "rand, randint, randperm or normal with the generator of the step"
                )
        if any(b._version != version for b, version in buffers):
            raise NotCompilable("the model changes its buffers")
        gradients = torch.autograd.grad(loss, self._weights, allow_unused=True)
        return record.draws, [i for i, g in enumerate(gradients) if g is not None]

    def _trace(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> "GraphModule":
        from torch.fx.experimental.proxy_tensor import make_fx

        groups = [list(group) for group in self._groups(batch, generator, progress)]

        def step(*inputs: Tensor) -> tuple[Tensor, ...]:
            remaining = iter(inputs)
            return self._step([list(islice(remaining, len(group))) for group in groups])

        copies = [t.detach().clone() for t in chain(*groups)]  # tracing computes the update
        with torch.no_grad(), tracing() as trace:
            try:
                graph = make_fx(step)(*copies)
            except Exception as error:
                raise NotCompilable(
                    "torch cannot trace it. It may depend on numbers in a tensor, or on a step "
                    f"size that changes during training ({_first_line(error)})"
                ) from error
            self._full_precision = trace.full_precision
            self._captured = _as_inputs(graph)
            if any(t.requires_grad for t in self._captured):
                raise NotCompilable("the loss uses a parameter that is not part of the module")
            return make_fx(graph)(*copies, *self._captured)

    def _check(
        self,
        graph: "GraphModule",
        batch: Batch,
        generator: torch.Generator | None,
        progress: float,
    ) -> None:
        """Compare the losses of the graph and of eager torch for other numbers.

        Raises:
            NotCompilable: If they differ.
        """
        batch, progress = tuple(t.flip(0) for t in batch), (1 + progress) / 2
        with random_state_kept(generator, self._device):
            expected = self._update.loss(*batch, generator, progress).mean().detach()
        copies = [t.detach().clone() for t in self._inputs(batch, generator, progress)]
        with torch.no_grad():
            loss, *_ = graph(*copies)
        if not (loss - expected).abs() <= TOLERANCE * expected.abs().clamp(min=1):
            raise NotCompilable(
                f"the traced loss is {loss.item():.6g} where the loss is {expected.item():.6g}: "
                "it depends on something that is not a tensor"
            )


class _Loss(nn.Module):
    """The mean loss as a module, for `functional_call`."""

    def __init__(self, update: Update) -> None:
        super().__init__()
        self.module, self.loss = update.module, update.loss

    def forward(self, *arguments: object) -> Tensor:
        return self.loss(*arguments).mean()


def _names(update: Update) -> list[str]:
    """Return the names of the parameters of the optimizer in the module.

    Raises:
        NotCompilable: If one is not part of it.
    """
    names = {id(p): name for name, p in update.module.named_parameters()}
    if not all(id(p) in names for p in update.parameters):
        raise NotCompilable("the optimizer has a parameter that is not part of the module")
    return [names[id(p)] for p in update.parameters]


def _means(update: Update) -> list[Tensor]:
    """Return the averages of the parameters of an update, if its average has no other tensors."""
    average = update.average
    if average is None or list(average.model.buffers()):
        return []
    pairs = zip(average.source.parameters(), average.model.parameters(), strict=True)
    means = {id(p): mean for p, mean in pairs}
    if means.keys() != set(map(id, update.parameters)):
        return []
    return [means[id(p)] for p in update.parameters]


def _first_line(error: Exception) -> str:
    text, *_ = str(error).strip().split("\n")
    return f"{type(error).__name__}: {text}"


def _layout(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.stride(), x.dtype, x.device


def _as_inputs(graph: "GraphModule") -> list[Tensor]:
    """Make the tensors that a graph has captured its last inputs, and return them."""
    nodes = [node for node in graph.graph.nodes if node.op == "get_attr"]
    *_, last = (node for node in graph.graph.nodes if node.op == "placeholder")
    captured: dict[str, Tensor] = {}
    for node in nodes:
        if node.target not in captured:
            captured[node.target] = getattr(graph, node.target)
            with graph.graph.inserting_after(last):
                last = graph.graph.placeholder(f"captured_{len(captured)}")
        node.replace_all_uses_with(last)
        graph.graph.erase_node(node)
    graph.recompile()
    return list(captured.values())


def _compiled(graph: "GraphModule", inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Compile a graph for inputs of these shapes."""
    from torch._inductor import config, standalone_compile

    # A wrapper in C++ calls the kernels with less overhead than one in Python.
    patch = config.patch(cpp_wrapper=inputs[0].device.type == "cpu")
    with patch, warnings.catch_warnings(action="ignore"), torch.no_grad():
        try:
            return standalone_compile(graph, list(inputs), dynamic_shapes="from_example_inputs")
        except Exception as error:
            raise NotCompilable(f"torch cannot compile it ({_first_line(error)})") from error
