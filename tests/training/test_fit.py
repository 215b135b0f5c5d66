"""The training loop: the order of calls, and how it stops."""

import platform
import subprocess
import sys

import pytest
import torch
from torch import Generator, Tensor

from fdsm.training import EarlyStop, IterationEvent, NonFiniteLossError, fit

from .loop_cases import Sum, numbered


def test_callbacks_are_called_in_order_after_every_iteration(generator: Generator) -> None:
    seen: list[tuple[str, int, float]] = []
    callbacks = [
        lambda m, name=name: seen.append((name, m.iteration, m.metrics["loss"])) for name in "ab"
    ]
    last = fit(Sum(), numbered, 3, generator=generator, callbacks=callbacks)
    assert seen == [(n, i + 1, [0, 1, 3][i]) for i in range(3) for n in "ab"]
    assert last is not None
    assert (last.iteration, last.iterations) == (3, 3)


def test_resuming_runs_only_the_remaining_iterations(generator: Generator) -> None:
    seen: list[IterationEvent] = []
    fit(Sum(), numbered, 5, generator=generator, callbacks=[seen.append], start=3, seconds=10.0)
    assert [(m.iteration, m.metrics["loss"]) for m in seen] == [(4, 3.0), (5, 7.0)]
    assert all(m.seconds > 10 for m in seen)
    assert fit(Sum(), numbered, 5, generator=generator, start=5) is None


def test_every_is_true_for_multiples_and_the_last_iteration() -> None:
    due = [i for i in range(1, 8) if IterationEvent(i, 7, 0, 0, {}).every(3)]
    assert due == [3, 6, 7]
    assert not IterationEvent(7, 7, 0, 0, {}).every(0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_non_finite_loss_raises_before_any_callback(bad: float, generator: Generator) -> None:
    seen: list[int] = []

    def batches(iteration: int, generator: Generator) -> Tensor:
        return torch.tensor([bad if iteration == 2 else 1.0])

    with pytest.raises(NonFiniteLossError, match=r"iteration 3: loss = (nan|inf).*learning rate"):
        fit(Sum(), batches, 5, generator=generator, callbacks=[lambda m: seen.append(m.iteration)])
    assert seen == [1, 2]


def test_a_callback_may_stop_training(generator: Generator) -> None:
    def stop(event: IterationEvent) -> None:
        raise EarlyStop("enough")

    with pytest.raises(EarlyStop, match="enough"):
        fit(Sum(), numbered, 5, generator=generator, callbacks=[stop])


@pytest.mark.nightly
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of glibc")
def test_memory_that_is_freed_is_kept() -> None:
    """In a new process, whose allocator has its defaults. Otherwise it is about 2,000 faults."""
    code = """
import resource, torch
from torch import nn
from fdsm import SSM, FiniteDifference, Sphere
from fdsm.training.fit import keep_freed_memory
keep_freed_memory()
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Linear(16, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(),
    nn.Linear(128, 1), nn.Flatten(0),
)
objective, x = SSM(FiniteDifference(), Sphere(0.1), directions=8), torch.randn(256, 16)
faults = []
for _ in range(40):
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    model.zero_grad()
    objective(model, x).mean().backward()
print((faults[-1] - faults[20]) / 19)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 500
