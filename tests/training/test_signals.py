"""SIGINT and SIGTERM stop training after an iteration."""

import os
import signal
import threading

import pytest
from torch import Generator

from fdsm.training import Interrupted, IterationEvent, fit

from .loop_cases import Sum, numbered


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_training_after_the_iteration(
    number: signal.Signals, generator: Generator
) -> None:
    before = signal.getsignal(number)
    done: list[int] = []

    def kill(event: IterationEvent) -> None:
        if event.iteration == 2:
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


def test_a_signal_in_the_last_iteration_has_no_effect(generator: Generator) -> None:
    def kill(event: IterationEvent) -> None:
        if event.iteration == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    last = fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])
    assert last is not None
    assert last.iteration == 3


def test_a_second_signal_has_its_usual_effect(generator: Generator) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background

    def kill(event: IterationEvent) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_runs_in_other_threads(generator: Generator) -> None:
    results: list[IterationEvent | None] = []
    thread = threading.Thread(
        target=lambda: results.append(fit(Sum(), numbered, 2, generator=generator))
    )
    thread.start()
    thread.join()
    assert results[0] is not None
    assert results[0].iteration == 2
