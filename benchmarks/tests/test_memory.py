import torch

from benchmarks import memory
from benchmarks.problems import Problem, mlp
from benchmarks.records import Case
from benchmarks.step import GRADIENT, PLAIN

from .benchmark_cases import TINY

N = 8 * 1000
"""Bytes of a thousand numbers."""


def test_peak_counts_memory_alive_at_once() -> None:
    x = torch.ones(1000)
    assert memory.peak_bytes(lambda: x.exp()) == N
    assert memory.peak_bytes(lambda: [x.exp(), x.sin(), x.cos()]) == 3 * N
    assert memory.peak_bytes(lambda: [len(x.exp()) for _ in range(3)]) == N


def test_results_of_the_backward_pass_are_counted() -> None:
    weight = torch.ones(1000, requires_grad=True)
    assert memory.peak_bytes(lambda: weight.sum().backward()) >= N
    assert memory.peak_bytes(lambda: weight.exp().square().sum().backward()) >= 2 * N


def test_nested_autograd_takes_more_memory_than_differences() -> None:
    group, *_ = memory.groups(problems=[Problem("", lambda: mlp(8, 64, 64), (64, 8), 1)])
    peaks = {cost.case: min(cost.samples) for cost in memory.measure_memory(group)}
    assert set(peaks) == set(group.cases)
    of = lambda name: peaks[Case(GRADIENT, name)]
    assert peaks[PLAIN] < of("FD-SSM") < of("SSM")
    assert of("FD-SSM, chunk = batch") < of("FD-SSM")


def test_repeated_measurements_agree() -> None:
    group, *_ = memory.groups(problems=[TINY])
    costs = memory.measure_memory(group.only([PLAIN, Case(GRADIENT, "FD-SSM")]))
    assert all(len(set(cost.samples)) == 1 for cost in costs)
