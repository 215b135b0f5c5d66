"""The graph of an update, traced and compiled."""

import warnings
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from ...derivatives.checks.observation import random_state, restore_random_state
from ...derivatives.checks.precision import full_precision
from ...derivatives.checks.state import inspections_due
from ..update import EMA, Update
from . import rounding
from .adam import AdamState
from .draws import Draw, GivenDraws, RecordedDraws
from .state import Dependencies, preserved
from .trace import NotCompilable, RefusedReads, Traced, first_line

if TYPE_CHECKING:
    from torch.fx import GraphModule

Batch = tuple[Tensor, ...]
Run = Callable[..., Sequence[Tensor]]
"""A graph: the loss, the norm of the gradient and other results for given inputs."""


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
        """Trace and compile an update. Model, optimizer and random numbers stay as they are.

        Args:
            update: The update.
            batch: The tensors of a batch.
            generator: The generator that the loss draws from.
            progress: The progress of training.

        Raises:
            NotCompilable: If the graph would not compute what eager torch computes.
        """
        self._update, self._layouts = update, [_layout(t) for t in batch]
        self._device = batch[0].device
        self._weights = [p for p in update.parameters if p.requires_grad]
        self._names = _names(update, self._weights)
        self._dtype = self._weights[0].dtype
        tensors = chain(update.module.named_parameters(), update.module.named_buffers())
        self._fixed = {name: t for name, t in tensors if name not in self._names}
        self._dependencies = Dependencies(update, self._device)
        if obstacle := self._dependencies.obstacle():
            raise NotCompilable(obstacle)
        with preserved(self._dependencies.snapshot, batch) as change:
            self._draws, self._used = self._record(batch, generator, progress, change)
            used = [self._weights[i] for i in self._used]
            self._adam = AdamState.of(update.optimizer, used)
            self._means = [] if self._adam is None else _means(update, self._weights)
            self._lasting = [*chain(*self._lasting_groups())]
            dtype = torch.promote_types(self._dtype, torch.float32)  # NumPy has no bfloat16
            self._numbers = torch.tensor([*self._current_numbers(progress)], dtype=dtype)
            self._array = self._numbers.numpy()
            with random_state_kept(generator, self._device):
                graph = self._trace(batch, generator, progress)
            flipped = tuple(t.flip(0) for t in batch)
            if difference := self.difference(flipped, generator, (1 + progress) / 2, graph):
                raise NotCompilable(f"{difference}: it depends on something that is not a tensor")
            with random_state_kept(generator, self._device):
                self._run = _compiled(graph, self._inputs(batch, generator, progress))
            if difference := self.difference(batch, generator, progress):
                raise NotCompilable(f"compiled by torch, {difference}")
        if self._adam is not None:
            self._adam.adopt()

    def fits(self, batch: Batch) -> bool:
        """Return whether the graph is for batches of this shape."""
        return [_layout(t) for t in batch] == self._layouts

    def change(self) -> str | None:
        """Return what the graph depends on and has changed, or `None`."""
        return self._dependencies.change() or (None if self._adam is None else self._adam.change())

    def __call__(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> dict[str, Tensor]:
        """Run the graph on a batch. Return the loss and the norm of the gradient."""
        if any([p.grad is not None for p in self._update.parameters]):
            self._update.optimizer.zero_grad(set_to_none=True)  # gradients stay in the graph
        loss, norm, *gradients = self._results(self._run, self._inputs(batch, generator, progress))
        average = self._update.average
        if self._means and average is not None:
            average.count_update()
        elif (self._adam is None or average is not None) and bool((loss + norm).isfinite()):
            self._finish(gradients)
        return {"loss": loss, "grad_norm": norm}

    def difference(
        self,
        batch: Batch,
        generator: torch.Generator | None,
        progress: float,
        run: Run | None = None,
    ) -> str | None:
        """Compare the graph with eager torch for the same batch, weights and random numbers.

        Model, optimizer and random numbers stay as they are.

        Args:
            batch: The tensors of a batch.
            generator: The generator that the loss draws from.
            progress: The progress of training.
            run: The graph, if it is not compiled yet.

        Returns:
            How loss or gradient differ by more than rounding, or `None`.
        """
        with preserved(self._dependencies.snapshot, batch):
            with random_state_kept(generator, self._device), inspections_due():
                exact = self._evaluate(batch, generator, progress)
            others = []
            for seed in range(rounding.REPEATS):
                with random_state_kept(generator, self._device):
                    others.append(self._evaluate(batch, generator, progress, seed))
            with random_state_kept(generator, self._device):
                inputs = self._inputs(batch, generator, progress)
                loss, norm, *_ = self._results(
                    run or self._run, [t.detach().clone() for t in inputs]
                )
        return rounding.difference((loss, norm), exact, others, self._eps)

    def _evaluate(
        self,
        batch: Batch,
        generator: torch.Generator | None,
        progress: float,
        seed: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the losses of eager torch and their gradient, in double precision.

        With a seed, weights and data are perturbed as by rounding.
        """
        from torch.func import functional_call

        named = dict(zip(self._names, self._weights, strict=True)) | self._fixed
        x, *cond = (t.clone() for t in batch)
        if seed is not None:
            x = rounding.perturbed(x, self._eps, seed)
            named = {name: rounding.perturbed(t, self._eps, seed) for name, t in named.items()}
        leaves = [named[self._names[i]].requires_grad_() for i in self._used]
        arguments = (x, *cond, generator, progress)
        losses = functional_call(
            _Loss(self._update), {f"module.{k}": t for k, t in named.items()}, arguments
        )
        gradients = torch.autograd.grad(losses.mean(), leaves)
        return losses.detach().double(), torch.cat([g.flatten().double() for g in gradients])

    def _results(self, run: Run, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        context = full_precision(self._device) if self._full_precision else nullcontext()
        with torch.no_grad(), context:
            return run(*inputs)

    def _finish(self, gradients: Sequence[Tensor]) -> None:
        """Do the parts of the update that are not in the graph."""
        if self._adam is None:
            for i, gradient in zip(self._used, gradients, strict=True):
                self._weights[i].grad = gradient
            self._update.optimizer.step()
        if self._update.average is not None:
            self._update.average.update()

    def _lasting_groups(self) -> tuple[Collection[Tensor], ...]:
        """Return the inputs of the graph that are the same tensors at every step, in groups."""
        state = () if self._adam is None else self._adam.tensors
        return self._weights, self._fixed.values(), state, self._means

    def _current_numbers(self, progress: float) -> Iterator[float]:
        average = self._update.average
        yield progress
        yield 0.0 if average is None else average.next_weight
        if self._adam is not None:
            yield from self._adam.numbers()

    def _inputs(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> list[Tensor]:
        drawn = [draw(generator) for draw in self._draws]
        self._array[:] = [*self._current_numbers(progress)]  # faster than a new tensor
        numbers = self._numbers.to(self._device, self._dtype)
        return [*batch, *drawn, numbers, *self._lasting]

    def _step(self, groups: Sequence[Sequence[Tensor]], reads: RefusedReads) -> tuple[Tensor, ...]:
        """Update the weights in terms of operations on tensors alone, so that it can be traced."""
        from torch.func import functional_call

        batch, drawn, (numbers,), weights, fixed, state, means = groups
        progress, share = numbers[:2].unbind()
        leaves = [w.detach().requires_grad_() for w in weights]
        with torch.enable_grad(), GivenDraws(drawn), reads:
            named = zip((*self._names, *self._fixed), (*leaves, *fixed), strict=True)
            arguments = (*batch, torch.Generator(self._device), progress)
            loss = functional_call(
                _Loss(self._update), {f"module.{k}": t for k, t in named}, arguments
            )
            loss = loss.mean()
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
        self,
        batch: Batch,
        generator: torch.Generator | None,
        progress: float,
        change: Callable[[], str | None],
    ) -> tuple[list[Draw], list[int]]:
        """Return how the loss draws random tensors, and which weights have a gradient.

        Raises:
            NotCompilable: If drawing them again does not lead to the same random state and the
                same loss, an evaluation has changed the model, several processes share it, or the
                optimizer does not have all parameters with a gradient.
        """
        kinds: set[type] = set()
        called = register_module_forward_pre_hook(lambda module, _: kinds.add(type(module)))
        with random_state_kept(generator, self._device) as states, called:
            with RecordedDraws(generator) as record:
                losses = self._update.loss(*batch, generator, progress)
            after = states()
        if DistributedDataParallel in kinds:
            raise NotCompilable(
                "the loss calls DistributedDataParallel, which averages gradients of several "
                "processes, and a graph would not"
            )
        with random_state_kept(generator, self._device) as states:
            for draw in record.draws:
                draw(generator)
            if record.others or not all(map(torch.equal, states(), after)):
                raise NotCompilable(
                    "random numbers are drawn inside the model (dropout?) or not by torch.randn, "
                    "rand, randint, randperm or normal with the generator of the step"
                )
        if what := change():
            raise NotCompilable(f"the model changes its buffers or other state ({what})")
        with random_state_kept(generator, self._device):
            again = self._update.loss(*batch, generator, progress)
        if not rounding.is_same(again.detach(), losses.detach()):
            raise NotCompilable(
                "the loss differs between two evaluations with the same weights and random numbers"
            )
        loss = losses.mean()
        others = [t for t in self._fixed.values() if t.requires_grad]
        gradients = torch.autograd.grad(loss, [*self._weights, *others], allow_unused=True)
        used = [i for i, g in enumerate(gradients) if g is not None]
        if used and used[-1] >= len(self._weights):
            raise NotCompilable(
                "the loss has a gradient for parameters that the optimizer does not have: call "
                "`requires_grad_(False)` on them"
            )
        return record.draws, used

    def _trace(
        self, batch: Batch, generator: torch.Generator | None, progress: float
    ) -> "GraphModule":
        lengths = [len(batch), len(self._draws), 1, *map(len, self._lasting_groups())]

        def step(*inputs: Tensor) -> tuple[Tensor, ...]:
            remaining = iter(inputs)
            return self._step([list(islice(remaining, length)) for length in lengths], reads)

        reads = RefusedReads()
        traced = Traced(step, self._inputs(batch, generator, progress), reads)
        self._lasting += traced.captured
        self._full_precision = traced.full_precision
        self._eps = max(torch.finfo(dtype).eps for dtype in reads.dtypes)
        return traced.graph


class _Loss(nn.Module):
    """The loss as a module, for `functional_call`."""

    def __init__(self, update: Update) -> None:
        super().__init__()
        self.module, self.loss = update.module, update.loss

    def forward(self, *arguments: object) -> Tensor:
        return self.loss(*arguments)


def _names(update: Update, weights: Sequence[nn.Parameter]) -> list[str]:
    """Return the names of weights in the module.

    Raises:
        NotCompilable: If one of the optimizer is not part of it, or there is none.
    """
    names = {id(p): name for name, p in update.module.named_parameters()}
    if not all(id(p) in names for p in update.parameters):
        raise NotCompilable("the optimizer has a parameter that is not part of the module")
    if not weights:
        raise NotCompilable("no parameter of the optimizer requires a gradient")
    return [names[id(p)] for p in weights]


def _means(update: Update, weights: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the averages of the weights of an update, if its average has no other tensors."""
    average = update.average
    if type(average) is not EMA or list(average.model.buffers()):
        return []
    pairs = zip(average.source.parameters(), average.model.parameters(), strict=True)
    means = {id(p): mean for p, mean in pairs}
    return [means[id(p)] for p in weights] if means.keys() == set(map(id, weights)) else []


def _layout(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.stride(), x.dtype, x.device, x.requires_grad


def _compiled(graph: "GraphModule", inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Compile a graph for inputs of these shapes."""
    from torch._inductor import config, standalone_compile

    for node in graph.graph.find_nodes(op="placeholder"):
        node.meta.pop("val", None)  # torch 2.10 prefers these tensors of the trace to the inputs
    # A wrapper in C++ calls the kernels with less overhead than one in Python.
    patch = config.patch(cpp_wrapper=inputs[0].device.type == "cpu")
    with patch, warnings.catch_warnings(action="ignore"), torch.no_grad():
        try:
            return standalone_compile(graph, list(inputs), dynamic_shapes="from_example_inputs")
        except Exception as error:
            raise NotCompilable(f"torch cannot compile it ({first_line(error)})") from error
