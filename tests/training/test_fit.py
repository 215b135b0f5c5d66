"""The loop: what it calls, in which order, and what stops it."""

import os
import signal
import threading

import pytest
import torch
from torch import Generator, Tensor

from fdsm.training import EarlyStop, Interrupted, IterationEvent, NonFiniteLossError, fit


class Sum:
    """A step whose loss is the sum of all batches so far."""

    def __init__(self) -> None:
        self.total = torch.zeros(())

    def __call__(self, batch: Tensor, generator: Generator) -> dict[str, Tensor]:
        self.total = self.total + batch.sum()
        return {"loss": self.total}

    def state_dict(self) -> dict[str, Tensor]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.total = state["total"]


def numbered(iteration: int, generator: Generator) -> Tensor:
    return torch.tensor([float(iteration)])


def test_hooks_see_every_iteration_in_order(generator: Generator) -> None:
    seen: list[tuple[str, int, float]] = []
    callbacks = [
        lambda m, name=name: seen.append((name, m.iteration, m.metrics["loss"])) for name in "ab"
    ]
    last = fit(Sum(), numbered, 3, generator=generator, callbacks=callbacks)
    assert seen == [(n, i + 1, [0, 1, 3][i]) for i in range(3) for n in "ab"]
    assert last is not None
    assert (last.iteration, last.iterations) == (3, 3)


def test_going_on_makes_only_what_is_left(generator: Generator) -> None:
    seen: list[IterationEvent] = []
    fit(Sum(), numbered, 5, generator=generator, callbacks=[seen.append], start=3, seconds=10.0)
    assert [(m.iteration, m.metrics["loss"]) for m in seen] == [(4, 3.0), (5, 7.0)]
    assert all(m.seconds > 10 for m in seen)
    assert fit(Sum(), numbered, 5, generator=generator, start=5) is None


def test_a_moment_knows_when_it_is_time() -> None:
    due = [i for i in range(1, 8) if IterationEvent(i, 7, 0, 0, {}).every(3)]
    assert due == [3, 6, 7]
    assert not IterationEvent(7, 7, 0, 0, {}).every(0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_any_hook(bad: float, generator: Generator) -> None:
    seen: list[int] = []

    def batches(iteration: int, generator: Generator) -> Tensor:
        return torch.tensor([bad if iteration == 2 else 1.0])

    with pytest.raises(NonFiniteLossError, match=r"iteration 3: loss = (nan|inf).*learning rate"):
        fit(Sum(), batches, 5, generator=generator, callbacks=[lambda m: seen.append(m.iteration)])
    assert seen == [1, 2]


def test_a_hook_may_stop_it(generator: Generator) -> None:
    def stop(moment: IterationEvent) -> None:
        raise EarlyStop("enough")

    with pytest.raises(EarlyStop, match="enough"):
        fit(Sum(), numbered, 5, generator=generator, callbacks=[stop])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_obeyed_after_the_iteration(
    number: signal.Signals, generator: Generator
) -> None:
    before = signal.getsignal(number)
    done: list[int] = []

    def kill(moment: IterationEvent) -> None:
        if moment.iteration == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted) as raised:
        fit(
            Sum(),
            numbered,
            5,
            generator=generator,
            callbacks=[kill, lambda m: done.append(m.iteration)],
        )
    assert raised.value.signal == number
    assert done == [1, 2]
    assert signal.getsignal(number) is before


def test_a_signal_in_the_last_iteration_changes_nothing(generator: Generator) -> None:
    def kill(moment: IterationEvent) -> None:
        if moment.iteration == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    last = fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])
    assert last is not None
    assert last.iteration == 3


def test_a_second_signal_counts_as_usual(generator: Generator) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background

    def kill(moment: IterationEvent) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])
    finally:
        signal.signal(signal.SIGINT, before)


def test_it_runs_in_other_threads(generator: Generator) -> None:
    results: list[IterationEvent | None] = []
    thread = threading.Thread(
        target=lambda: results.append(fit(Sum(), numbered, 2, generator=generator))
    )
    thread.start()
    thread.join()
    assert results[0] is not None
    assert results[0].iteration == 2
