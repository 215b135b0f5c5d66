"""Metrics stay on the device until something is due, and non-finite ones stop the training."""

import math
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode

from fdsm.training import (
    EarlyStop,
    IterationEvent,
    LogMetrics,
    NonFiniteLossError,
    SaveCheckpoint,
    Validate,
    fit,
)
from fdsm.training.metrics import DeviceMetrics, Meter

from .loop_cases import Remote, RemoteLoss, numbered


class Readings(TorchFunctionMode):
    """Counts the functions that copy numbers from the device of `Remote` tensors."""

    NAMES = ("item", "tolist", "__float__", "__bool__", "__int__")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        self.count += func.__name__ in self.NAMES and isinstance(args[0], Remote)
        return func(*args, **(kwargs or {}))


def remote(value: float) -> dict[str, Tensor]:
    return {"loss": torch.tensor(value).as_subclass(Remote)}


def bad_after(iteration: int) -> Callable[[int, Generator], Tensor]:
    """Return batches whose loss is not finite in one iteration, counted from 1."""
    return lambda i, generator: torch.tensor([math.nan if i + 1 == iteration else float(i)])


def test_numbers_of_the_cpu_are_read_at_once() -> None:
    metrics = Meter().record(1, {"loss": torch.tensor(2.5), "count": torch.tensor(3)}, 0.1)
    assert metrics == {"loss": 2.5, "count": 3.0}
    assert isinstance(metrics, dict)


def test_one_copy_reads_all_iterations() -> None:
    meter = Meter()
    with Readings() as readings:
        recorded = [meter.record(i, remote(float(i)), 0.1) for i in range(1, 6)]
        assert readings.count == 0
        assert [metrics["loss"] for metrics in recorded] == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert readings.count == 1
    assert dict(recorded[0]) == recorded[0] == {"loss": 1.0}
    assert repr(recorded[0]) == "{'loss': 1.0}"
    assert len(recorded[0]) == 1


def test_scalars_of_several_dtypes_and_shapes_keep_their_names() -> None:
    logged = {
        "a": torch.tensor(0.1, dtype=torch.float64).as_subclass(Remote),
        "b": torch.tensor([7]),
        "c": torch.tensor(0.25, requires_grad=True) * 2,
        "d": torch.tensor(0.2, dtype=torch.float64),
    }
    metrics = Meter().record(1, logged, 0.0)
    assert isinstance(metrics, DeviceMetrics)
    assert not any(value.requires_grad for value in metrics.logged.values())
    assert metrics == {"a": 0.1, "b": 7.0, "c": 0.5, "d": 0.2}


def test_time_is_that_of_the_steps_between_readings() -> None:
    meter = Meter(seconds=10.0)
    for seconds in (0.002, 0.004):  # the mean is 3 ms
        meter.record(1, {"loss": torch.tensor(0.0)}, seconds)
    meter.read()
    assert meter.seconds == pytest.approx(10.006)
    assert meter.milliseconds == pytest.approx(3.0)
    for seconds in (0.005, 0.9):
        meter.record(1, {"loss": torch.tensor(0.0)}, seconds)
        meter.read()
    assert meter.milliseconds == pytest.approx(5.0)  # the median of 3, 5 and 900
    meter.read()
    assert meter.milliseconds == pytest.approx(5.0)


def test_idle_callbacks_read_nothing(generator: Generator) -> None:
    """Iterations 1, 10, 20 and 25 are read. Logs at 12 and 24 read once more each."""
    idle = SaveCheckpoint(lambda event: None, every=1000)
    logged: list[float] = []
    log = LogMetrics([lambda record: logged.append(record["loss"])], every=12)
    for callbacks, expected in (([], 4), ([idle], 4), ([idle, log], 6)):
        with Readings() as readings:
            fit(RemoteLoss(), numbered, 25, generator=generator, callbacks=callbacks)
        assert readings.count == expected
    assert logged == [11.0, 23.0, 24.0]


@pytest.mark.parametrize("bad", [4, 10, 13])
def test_first_bad_iteration_is_named(bad: int, generator: Generator) -> None:
    with pytest.raises(NonFiniteLossError, match=rf"iteration {bad}: loss = nan\. Likely"):
        fit(RemoteLoss(), bad_after(bad), 30, generator=generator)


def test_nothing_is_saved_after_a_bad_iteration(generator: Generator) -> None:
    saved: list[int] = []
    validated: list[int] = []

    def measure(iteration: int) -> dict[str, float]:
        validated.append(iteration)
        return {"loss": 0.0}

    callbacks = [
        Validate(measure, [], every=3),
        SaveCheckpoint(lambda event: saved.append(event.iteration), every=2),
    ]
    with pytest.raises(NonFiniteLossError, match="iteration 5:"):
        fit(RemoteLoss(), bad_after(5), 30, generator=generator, callbacks=callbacks)
    assert (saved, validated) == ([2, 4], [3])


def test_callback_that_reads_a_bad_metric_stops_training(generator: Generator) -> None:
    seen: list[float] = []
    with pytest.raises(NonFiniteLossError, match="iteration 3:"):
        fit(
            RemoteLoss(),
            bad_after(3),
            30,
            generator=generator,
            callbacks=[lambda event: seen.append(event.metrics["loss"])],
        )
    assert seen == [0.0, 1.0]


def test_bad_metrics_are_never_returned() -> None:
    meter = Meter()
    good, bad = meter.record(1, remote(1.0), 0.1), meter.record(2, remote(math.inf), 0.1)
    for metrics in (bad, bad, good):
        with pytest.raises(NonFiniteLossError, match="iteration 2: loss = inf"):
            metrics["loss"]


def early_stop(event: IterationEvent) -> None:
    raise EarlyStop("enough")


def interrupt(event: IterationEvent) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("stop", [early_stop, interrupt])
def test_training_that_is_stopped_after_a_bad_iteration_fails(
    stop: Callable[[IterationEvent], None], generator: Generator
) -> None:
    def callback(event: IterationEvent) -> None:
        if event.iteration == 7:
            stop(event)

    with pytest.raises(NonFiniteLossError, match="iteration 6:"):
        fit(RemoteLoss(), bad_after(6), 30, generator=generator, callbacks=[callback])
