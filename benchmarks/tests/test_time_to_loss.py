import os
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks import time_to_loss
from benchmarks.learning_problems import LearningProblem
from benchmarks.peers.by_hand import nested_ssm, sphere
from benchmarks.time_to_loss import methods, run, start_eager, train
from paper.data import DataError

from .benchmark_cases import TWO_MODES, assert_learns


class Clock:
    """A trainer whose step takes a fixed time and lowers the loss of a quadratic by one."""

    def __init__(self, seconds: float, now: list[float]) -> None:
        self.seconds, self.now, self.steps = seconds, now, 0

    def step(self) -> None:
        self.steps += 1
        self.now[0] += self.seconds

    def wait(self) -> None:
        pass

    def model(self) -> nn.Module:
        count = self.steps

        class Density(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return -count * x.square().sum(1) / 2

        return Density()


def test_all_trainers_get_the_same_time_and_first_steps_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the origin the loss of $-n‖x‖²/2$ in one dimension is $-n$."""
    now = [0.0]
    monkeypatch.setattr("time.process_time", lambda: now[0])
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    trainers = {"fast": Clock(0.1, now), "slow": Clock(0.5, now)}
    fast, slow = train(trainers, torch.zeros(1, 1), 10.0, "p", 3)
    assert (fast.problem, fast.method, fast.seed) == ("p", "fast", 3)
    assert fast.compile_seconds == pytest.approx(0.3)
    assert slow.compile_seconds == pytest.approx(1.5)
    assert (fast.steps, slow.steps) == (trainers["fast"].steps, trainers["slow"].steps)
    for curve, seconds in ((fast, 0.1), (slow, 0.5)):
        assert curve.seconds[0] == 0
        assert 10.0 <= curve.seconds[-1] < 10.0 + time_to_loss.CHUNK * seconds + 1e-9
        counted = [round(t / seconds) + time_to_loss.FIRST_STEPS for t in curve.seconds]
        assert curve.losses == pytest.approx([-n for n in counted])


def test_a_training_by_hand_learns_two_modes() -> None:
    loss = lambda network: lambda x: nested_ssm(network, x, sphere(x))
    assert_learns(partial(start_eager, loss))


def test_problems_without_data_are_left_out() -> None:
    def missing() -> tuple[Tensor, Tensor]:
        raise DataError("winequality-white.csv is missing")

    lines = list[str]()
    problem = LearningProblem("wine", missing, (8,), 0.1)
    found = run(seconds=1.0, seeds=1, problems=[problem], log=lines.append)
    assert found.curves == ()
    assert lines == ["wine: left out. winequality-white.csv is missing"]


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_compilers_start_with_an_empty_cache(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(time_to_loss.CACHE, raising=False)
    if before is not None:
        monkeypatch.setenv(time_to_loss.CACHE, before)
    with time_to_loss.empty_cache():
        folder = Path(os.environ[time_to_loss.CACHE])
        assert list(folder.iterdir()) == []
    assert not folder.exists()
    assert os.environ.get(time_to_loss.CACHE) == before


@pytest.mark.nightly
def test_all_methods_of_the_package_train() -> None:
    found = run(seconds=0.5, seeds=1, problems=[TWO_MODES])
    assert {curve.method for curve in found.curves} == methods(frozenset()).keys()
    assert all(curve.losses[-1] < curve.losses[0] for curve in found.curves)
