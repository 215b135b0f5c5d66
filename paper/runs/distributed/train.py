"""Training a run by several processes: the first writes all files."""

import re
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fdsm.atomic_io import create_folder, exclusive
from ...data import Dataset
from fdsm.sharding import Shard, divided_among_processes
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
from fdsm.training.compiled.graph import random_state_kept
from fdsm.training.distributed.checks import ROWS, NotShardable, require_shardable
from fdsm.training.distributed.update import ShardedUpdate
from fdsm.training.distributed.world import (
    SINGLE_PROCESS,
    AgreedStop,
    FailedElsewhere,
    LaunchError,
    World,
    is_lost,
)
from fdsm.training.loggers import Log
from fdsm.training.signals import SIGNALS
from fdsm.typing import Step
from ..run import Run
from ..saved_model import SavedModel
from ..train import Training, TrainingInterrupted, limited_threads

if TYPE_CHECKING:
    from rich.console import Console

    from fdsm.training.distributed.fully_sharded import FullyShardedUpdate, Units


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
) -> SavedModel:
    """Train a run to the end by several processes; see `fdsm.runs.train`.

    All processes call this function. The first one reads and writes the folder of the run.

    Args:
        run: The run.
        data: Its data set.
        parallel: How it is divided.
        console: Console for a progress bar in the first process.
        tensorboard: Whether to write TensorBoard event files too.

    Returns:
        The trained model, in every process.

    Raises:
        LaunchError: If the run cannot be divided, before anything is written.
        TrainingInterrupted: After a signal to any process. A checkpoint has been written.
        LostProcessError: If another process has ended or does not answer.
        FailedElsewhere: If another process has failed.
    """
    world = parallel.world
    if world.broadcast(run.is_trained):
        world.by_leader(run.require_same_settings)
        return SavedModel.load(run)
    training = world.together(lambda: DistributedTraining(run, data, parallel))
    with _lock(run, world), limited_threads(run.recipe.num_threads):
        world.by_leader(training.start_or_restore)
        training.copy_state_of_leader()
        if training.ended is None:
            training.divide()
            training.run_iterations(console if world.is_leader else None, tensorboard=tensorboard)
        return world.together(training.save_model)


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
        shard: The rows of this process in a batch.
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
        self.parallel, self._dim = parallel, run.recipe.row_dimension
        self._fully_sharded: FullyShardedUpdate | None = None
        self.settings = ""
        world = parallel.world
        if world.size > 1:
            self.stop = AgreedStop()
        with random_state_kept(self.generator, torch.device(run.device)):
            batch = self.batches(0, self.generator)
        total, parts = batch.shape[self._dim], parallel.parts
        if total < parts:
            raise LaunchError(
                f"a batch of {total:,} rows cannot be divided into {parts:,} parts: use fewer "
                "processes, a smaller --accumulate or a larger --set plan.batch"
            )
        self.shard = Shard.of(total, world.rank, world.size)
        self._few = batch.narrow(self._dim, 0, min(ROWS, total))
        try:
            for step in _gradient_steps(self.step):
                require_shardable(step.update, self._few, self.generator, self._dim)
            if parallel.fsdp is not None:
                self._try_to_divide_weights()
        except NotShardable as error:
            raise LaunchError(f"{run.name} cannot be trained in parts: {error}") from error

    def _try_to_divide_weights(self) -> None:
        """Divide the weights of another model of the same recipe, before anything is written."""
        model = self.run.build(self.data.shape)
        self.run.recipe.before_training(model, self.data, self.run.generator("start"))
        step = self.run.recipe.step(model, self.data)
        if not isinstance(step, GradientStep):
            raise NotShardable("its step has several optimizers, which --fsdp does not support")
        self._with_divided_weights(step.update)

    def start_or_restore(self) -> None:
        """Write `config.json` and `launch.json`, or restore the last checkpoint."""
        super().start_or_restore()
        if self.parallel.launch:
            processes = self.parallel.world.size
            self.run.write("launch.json", {"name": self.parallel.launch, "processes": processes})

    def copy_state_of_leader(self) -> None:
        """Restore the state that the first process has restored in all others."""
        world = self.parallel.world
        state = self._state() if world.is_leader and self.iteration else None
        state, self.settings = world.broadcast((state, self.settings))
        if not world.is_leader:
            torch.manual_seed(derived_seed(self.run.seed, "torch"))
            if state is not None:
                self._load(state)

    def divide(self) -> None:
        """Divide batches and steps among the processes."""
        if isinstance(self.batches, ShuffledBatches):
            self.batches = self.batches.of_shard(self.shard)
        else:
            whole = self.batches
            self.batches = lambda i, generator: self.shard.take(whole(i, generator), self._dim)
        for step in _gradient_steps(self.step):
            if self.parallel.fsdp is not None:
                step.update = self._fully_sharded = self._with_divided_weights(step.update)
                self.model = self._fully_sharded.plain
            else:
                step.update = ShardedUpdate(
                    step.update,
                    self.parallel.world,
                    self.shard,
                    accumulate=self.parallel.accumulate,
                    dim=self._dim,
                )

    def _with_divided_weights(self, update: Update) -> "FullyShardedUpdate":
        # FSDP2 imports symbolic mathematics, which is slow.
        from fdsm.training.distributed.fully_sharded import FullyShardedUpdate

        assert self.parallel.fsdp is not None
        return FullyShardedUpdate(
            update,
            self.parallel.world,
            self.shard,
            self.parallel.fsdp,
            self._few,
            self.generator,
            accumulate=self.parallel.accumulate,
            dim=self._dim,
        )

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
        with divided_among_processes() if self.parallel.world.size > 1 else nullcontext():
            metrics = super()._validate(iteration)
        return self.parallel.world.broadcast(metrics)

    def save_model(self) -> SavedModel:
        """Write the model in the first process and return it in all of them."""
        with divided_among_processes() if self.parallel.world.size > 1 else nullcontext():
            return super().save_model()

    def _write_model(self, saved: SavedModel) -> None:
        if self.parallel.world.is_leader:
            super()._write_model(saved)

    def _load_final_weights(self) -> None:
        world = self.parallel.world
        world.by_leader(super()._load_final_weights)
        self.model.load_state_dict(world.broadcast(self.model.state_dict()))

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
        if self._fully_sharded is not None:
            self._fully_sharded.gather()


def _gradient_steps(step: Step) -> list[GradientStep]:
    """Return the gradient steps that a step consists of."""
    if isinstance(step, GradientStep):
        return [step]
    if isinstance(step, AlternatingSteps):
        return [part for inner in step.steps.values() for part in _gradient_steps(inner)]
    raise NotShardable(f"its step, a {type(step).__name__}, is not a GradientStep")


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
