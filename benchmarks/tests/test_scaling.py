"""The cost model of docs/scaling.md: closed forms and limits."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from benchmarks.scaling import (
    CASES,
    Machine,
    Workload,
    calibrate,
    compare,
    flops_per_row,
    step_seconds,
    strong_efficiency,
    weak_efficiency,
)
from fdsm import SSM, FiniteDifference, Sphere
from fdsm.models import QuadraticMLP

WORK = Workload(1000, row_seconds=0.01, fixed_seconds=0.02, wrapping_seconds=0.003)
LINK = Machine(latency=0.001, bandwidth=1e6)
FREE = Machine(latency=0.0, bandwidth=math.inf)


def test_all_reduce_sends_twice_the_bytes_of_all_but_one_process() -> None:
    assert LINK.all_reduce(4000, 1) == 0
    assert LINK.all_reduce(4000, 2) == pytest.approx(0.001 + 4000 / 1e6)
    assert LINK.all_reduce(4000, 8) == pytest.approx(3 * 0.001 + 2 * 7 / 8 * 4000 / 1e6)


def test_the_slowest_link_counts_between_machines() -> None:
    machines = replace(LINK, local=8, remote_latency=0.01, remote_bandwidth=1e5)
    assert machines.all_reduce(4000, 8) == LINK.all_reduce(4000, 8)
    expected = 3 * 0.001 + 1 * 0.01 + 2 * 15 / 16 * 4000 / 1e5
    assert machines.all_reduce(4000, 16) == pytest.approx(expected)


def test_a_step_is_the_sum_of_its_parts() -> None:
    assert step_seconds(WORK, LINK, 10, 1) == pytest.approx(0.02 + 10 * 0.01)
    compute = 0.02 + 4 * 0.01  # four of ten rows in one of three processes
    sent = 2 * 0.001 + 2 * 2 / 3 * 4000 / 1e6
    expected = compute + 0.003 + sent
    assert step_seconds(WORK, LINK, 10, 3) == pytest.approx(expected)
    hidden = replace(LINK, overlap=1.0)
    assert step_seconds(WORK, hidden, 10, 3) == pytest.approx(expected - sent)


def test_efficiencies_without_communication() -> None:
    work = replace(WORK, wrapping_seconds=0.0)
    assert weak_efficiency(work, FREE, 12, 64) == pytest.approx(1)
    assert strong_efficiency(replace(work, fixed_seconds=0.0), FREE, 12, 4) == pytest.approx(1)
    assert strong_efficiency(work, FREE, 12, 4) == pytest.approx(0.14 / (4 * 0.05))
    assert weak_efficiency(WORK, LINK, 12, 2) > weak_efficiency(WORK, LINK, 12, 64)


def test_a_checkpoint_has_weights_moments_and_average() -> None:
    model = nn.Linear(9, 100)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 9)).sum().backward()
    optimizer.step()
    moments = [v for s in optimizer.state.values() for v in s.values() if v.ndim]
    numbers = sum(t.numel() for t in (*model.parameters(), *moments, *model.parameters()))
    assert WORK.checkpoint_bytes == 4 * numbers


def test_operations_of_matrix_products_are_counted() -> None:
    """One hidden layer at three points: 2 operations per weight forward, and 2 or 4 backward."""
    model = QuadraticMLP((2,), (16,))
    flops, parameters = flops_per_row(model, SSM(FiniteDifference(), Sphere(0.1)), (2,))
    weights = [p for p in model.parameters() if p.ndim == 2]
    products = sum(p.numel() for p in weights)
    assert parameters >= products
    assert 3 * 4 * products <= flops <= 3 * 6 * products


@pytest.mark.parametrize("title", CASES)
def test_the_model_reproduces_times_that_follow_it(title: str) -> None:
    case = CASES[title]
    work = Workload(10**6, 1e-4, 2e-3, 5e-4)
    machine = Machine(1e-4, 1e9)
    sent = machine.all_reduce(work.gradient_bytes, 2)
    times = {
        "one": step_seconds(work, machine, case.rows, 1),
        "half": step_seconds(work, machine, case.rows // 2, 1),
        "wrapped": step_seconds(work, machine, case.rows, 1) + work.wrapping_seconds,
        "averaged": 0.1 + sent,
        "kept": 0.1,
        "latency": machine.latency,
        "parameters": float(work.parameters),
        "weak": step_seconds(work, machine, 2 * case.rows, 2),
        "strong": step_seconds(work, machine, case.rows, 2),
    }
    found = calibrate(times, case)
    assert found[0].parameters == work.parameters
    assert found[0].row_seconds == pytest.approx(work.row_seconds)
    assert found[1].bandwidth == pytest.approx(machine.bandwidth)
    table = compare({title: {name: [value] for name, value in times.items()}})
    assert all(line.endswith("| 1.00 |") for line in table[2:])
    assert len(table) == 6
