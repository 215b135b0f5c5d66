"""SIGINT, SIGTERM and SIGHUP stop training after an iteration."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from torch import Generator

from fdsm.training import Interrupted, IterationEvent, fit
from fdsm.training.signals import SIGNALS

from .loop_cases import Sum, numbered


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    """Handle signals that a test in the background would ignore."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
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
    def kill(event: IterationEvent) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_that_is_ignored_stays_ignored(
    number: signal.Signals, generator: Generator
) -> None:
    signal.signal(number, signal.SIG_IGN)
    kill = lambda event: os.kill(os.getpid(), number)
    last = fit(Sum(), numbered, 3, generator=generator, callbacks=[kill])
    assert last is not None
    assert last.iteration == 3
    assert signal.getsignal(number) is signal.SIG_IGN


def test_training_runs_in_other_threads(generator: Generator) -> None:
    results: list[IterationEvent | None] = []
    thread = threading.Thread(
        target=lambda: results.append(fit(Sum(), numbered, 2, generator=generator))
    )
    thread.start()
    thread.join()
    assert results[0] is not None
    assert results[0].iteration == 2
