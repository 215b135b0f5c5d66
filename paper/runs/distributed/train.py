"""Training a run by several processes: the first writes all files."""

import re
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fdsm.atomic_io import create_folder
from fdsm.training import (
    AlternatingSteps,
    Callback,
    GradientStep,
    IterationEvent,
    NonFiniteLossError,
    ShuffledBatches,
    Update,
    derived_seed,
)
from fdsm.training.loggers import Log
from fdsm.training.signals import SIGNALS
from fdsm.typing import Step

from ...data import Dataset
from ...lock import exclusive
from ..run import Run
from ..saved_model import SavedModel
from ..train import Training, TrainingInterrupted, train
from .update import DistributedUpdate
from .world import (
    SINGLE_PROCESS,
    AgreedStop,
    FailedElsewhere,
    LaunchError,
    World,
    is_lost,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fdsm.training.distributed.fully_sharded import Units


FEW_ROWS = 11
"""Number of rows on which a loss is tried before training."""


class LostProcessError(RuntimeError):
    """Another process has ended or does not answer.

    Attributes:
        run: The run.
    """

    def __init__(self, run: Run, world: World, error: RuntimeError) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of torchrun, until this is printed
        reason = re.sub(r"^\[[^]]*\] ", "", str(error).splitlines()[0]).split(". ")[0]
        super().__init__(
            f"process {world.rank} of {world.size} lost another one, which has ended or does not "
            f"answer ({reason})"
        )
        self.run = run


@contextmanager
def lost_processes_explained(run: Run, world: World) -> Generator[None]:
    """Raise `LostProcessError` where torch reports that another process does not answer."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost(error):
            raise
        raise LostProcessError(run, world, error) from error


@dataclass(frozen=True)
class Parallel:
    """How a run is divided among processes.

    Attributes:
        world: The processes.
        fsdp: Which weights are gathered at once if they are divided among the processes (FSDP2).
            `None` for a copy of the weights in each process (DDP).
        accumulate: Number of parts of a batch that each process computes one after the other.
        launch: A name that restarted processes share.
    """

    world: World = SINGLE_PROCESS
    fsdp: "Units | None" = None
    accumulate: int = 1
    launch: str = ""

    @property
    def parts(self) -> int:
        """Number of parts of a batch."""
        return self.world.size * self.accumulate


def train_together(
    run: Run,
    data: Dataset,
    parallel: Parallel,
    *,
    console: "Console | None" = None,
    tensorboard: bool = False,
) -> SavedModel | None:
    """Train a run to the end by several processes; see `paper.runs.train`.

    All processes call this function. Each trains on its rows of a batch, with a generator of its
    own, and their gradients are averaged. The first process validates, and reads and writes the
    folder of the run.

    A run can be continued by another number of processes. The generators of several processes
    start again from the seed, the rank and the iteration, so the result differs from that of a
    training without interruption as it does between two seeds.

    Args:
        run: The run.
        data: Its data set.
        parallel: How it is divided.
        console: Console for a progress bar in the first process.
        tensorboard: Whether to write TensorBoard event files too.

    Returns:
        The trained model in the first process, `None` in all others.

    Raises:
        LaunchError: If the run cannot be divided, before anything is written.
        TrainingInterrupted: After a signal to any process. A checkpoint has been written.
        LostProcessError: If another process has ended or does not answer.
        FailedElsewhere: If another process has failed.
    """
    world = parallel.world
    if world.broadcast(run.is_trained):
        return world.by_leader(lambda: train(run, data))
    training = world.together(lambda: DistributedTraining(run, data, parallel))
    with _lock(run, world):
        world.by_leader(training.start_or_restore)
        training.copy_state_of_leader()
        if training.ended is None:
            training.divide()
            training.run_iterations(console if world.is_leader else None, tensorboard=tensorboard)
        return world.by_leader(training.save_model)


@contextmanager
def _lock(run: Run, world: World) -> Generator[None]:
    """Lock the folder in the first process. All processes fail if it is locked."""
    with ExitStack() as stack:

        def lock() -> None:
            create_folder(run.folder)
            stack.enter_context(exclusive(run.folder))

        world.by_leader(lock)
        yield


class DistributedTraining(Training):
    """The state of a run in one of several processes.

    Attributes:
        parallel: How the run is divided.
    """

    def __init__(self, run: Run, data: Dataset, parallel: Parallel) -> None:
        """Build everything, and check that the run can be divided.

        Args:
            run: The run.
            data: Its data set.
            parallel: How it is divided.

        Raises:
            LaunchError: If it cannot be divided.
        """
        super().__init__(run, data)
        self.parallel, self.settings = parallel, ""
        self._updates: list[DistributedUpdate] = []
        if parallel.world.size > 1:
            self.stop = AgreedStop()
        with torch.random.fork_rng(devices=[]):
            self._require_divisible()

    def _require_divisible(self) -> None:
        """Try a few rows, before anything is written."""
        name, generator = self.run.name, self.run.generator("try")
        batch = self.batches(0, generator)
        if len(batch) < self.parallel.parts:
            raise LaunchError(
                f"a batch of {len(batch):,} rows cannot be divided into {self.parallel.parts:,} "
                "parts: use fewer processes, a smaller --accumulate or a larger --set plan.batch"
            )
        few = batch[:FEW_ROWS]
        for step in _gradient_steps(self.step, name):
            shape = step.update.loss(few, generator, 0.0).shape
            if shape[:1] != few.shape[:1]:
                raise LaunchError(
                    f"{name} cannot be trained in parts: its loss of {len(few)} rows has shape "
                    f"{tuple(shape)} and not one value per row"
                )
        if self.parallel.fsdp is not None:
            try:
                self._try_to_divide_weights(few, generator)
            except (ValueError, RuntimeError) as error:
                reason = str(error).splitlines()[0]
                raise LaunchError(f"{name} cannot be trained with --fsdp: {reason}") from error

    def _try_to_divide_weights(self, rows: Tensor, generator: torch.Generator) -> None:
        """Divide the weights of another model of the same recipe, and compute a gradient."""
        model = self.run.build(self.data.shape)
        self.run.recipe.before_training(model, self.data, self.run.generator("start"))
        step = self.run.recipe.step(model, self.data)
        if not isinstance(step, GradientStep):
            raise ValueError("its step has several optimizers")
        update = self._divided(step.update)
        update.backward((rows,), generator, 0.0)

    def start_or_restore(self) -> None:
        """Write `config.json` and `launch.json`, or restore the last checkpoint."""
        super().start_or_restore()
        if self.parallel.launch:
            processes = self.parallel.world.size
            self.run.write("launch.json", {"name": self.parallel.launch, "processes": processes})

    def copy_state_of_leader(self) -> None:
        """Restore the state that the first process has restored in all others.

        Then each process starts a generator of its own.
        """
        world, seed = self.parallel.world, self.run.seed
        state = self._state() if world.is_leader and self.iteration else None
        state, self.settings = world.broadcast((state, self.settings))
        if not world.is_leader and state is not None:
            self._load(state)
        if world.size > 1:
            self.generator = self.run.generator("train", world.rank, self.iteration)
            torch.manual_seed(derived_seed(seed, "torch", world.rank, self.iteration))

    def divide(self) -> None:
        """Divide batches and steps among the processes."""
        rank, size = self.parallel.world.rank, self.parallel.world.size
        if isinstance(self.batches, ShuffledBatches):
            self.batches = self.batches.of_process(rank, size)
        else:
            whole = self.batches

            def rows(iteration: int, generator: torch.Generator) -> Tensor:
                batch = whole(iteration, generator)
                return batch[rank::size][: len(batch) // size]

            self.batches = rows
        for step in _gradient_steps(self.step, self.run.name):
            step.update = update = self._divided(step.update)
            self._updates.append(update)
            if self.parallel.fsdp is not None:
                self.model = update.plain

    def _divided(self, update: Update) -> DistributedUpdate:
        world, accumulate = self.parallel.world, self.parallel.accumulate
        if self.parallel.fsdp is None:
            return DistributedUpdate(update, world, accumulate)
        from .fully_sharded import FullyShardedUpdate  # FSDP2 imports symbolic mathematics

        return FullyShardedUpdate(update, world, self.parallel.fsdp, accumulate)

    def _logs(self, *, tensorboard: bool) -> list[Log]:
        return super()._logs(tensorboard=tensorboard) if self.parallel.world.is_leader else []

    def _fit(self, callbacks: list[Callback]) -> None:
        world = self.parallel.world
        try:
            with lost_processes_explained(self.run, world), _repeated_signals_ignored():
                super()._fit(callbacks)
                if isinstance(self.stop, AgreedStop):
                    self.stop.wait()
        except (TrainingInterrupted, NonFiniteLossError) as error:
            if world.is_leader:
                raise
            raise FailedElsewhere(0) from error  # all processes have agreed on it

    def _smaller_batch(self) -> str:
        """Return how to use less memory. A smaller batch cannot be tried in one process alone."""
        return "Use more processes, a larger --accumulate or a smaller --set plan.batch"

    def _validate(self, iteration: int) -> dict[str, float]:
        self._gather()
        world = self.parallel.world
        metrics = world.by_leader(lambda: super(DistributedTraining, self)._validate(iteration))
        return world.broadcast(metrics) or {}

    def _save_best(self, event: IterationEvent) -> None:
        if self.parallel.world.is_leader:
            super()._save_best(event)

    def _state(self) -> dict[str, Any]:
        self._gather()
        return super()._state()

    def _save_state(self, state: dict[str, Any]) -> None:
        if self.parallel.world.is_leader:
            super()._save_state(state)

    def _gather(self) -> None:
        """Copy the weights that are divided among the processes to the model."""
        for update in self._updates:
            update.gather()


def _gradient_steps(step: Step, name: str) -> list[GradientStep]:
    """Return the gradient steps that a step consists of."""
    if isinstance(step, GradientStep):
        return [step]
    if isinstance(step, AlternatingSteps):
        return [part for inner in step.steps.values() for part in _gradient_steps(inner, name)]
    raise LaunchError(
        f"{name} cannot be trained in parts: its step, a {type(step).__name__}, is not a "
        "GradientStep"
    )


@contextmanager
def _repeated_signals_ignored() -> Generator[None]:
    """Ignore signals after the first: torchrun repeats them, and kills processes that hang."""
    previous = {
        number: signal.signal(number, lambda *_: None)
        for number in SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN  # as `nohup` makes it
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
