import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.figure2 import Figure2
from fdsm.paper.study import Findings
from fdsm.paper.support.derivative_cost import (
    NESTED,
    PARALLEL,
    SERIAL,
    TAYLOR,
    Budget,
    Cost,
    costs,
    growth_of,
    kept_by,
)
from fdsm.paper.support.fd_error import Accuracy, balance_of, errors, relative_error, truth
from fdsm.tensors import length, per_example

from ...runs.run_cases import TINY


class Wave(nn.Module):
    r"""$a \sum_i \sin x_i$, all of whose derivatives are known; counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(()))
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(x.shape[0])
        return self.a * x.sin().sum(1)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, width))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.w).tanh().sum(1)


def derivative(x: Tensor, v: Tensor, order: int) -> Tensor:
    r"""Return $Σ v_i^T \sin(x_i + T π/2)$."""
    return (v**order * (x + order * math.pi / 2).sin()).sum(1)


def points(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x, v = (torch.randn(rows, 4, generator=generator) for _ in range(2))
    return x, v / per_example(length(v), v)


@pytest.mark.parametrize("order", range(1, 9))
def test_a_difference_takes_one_value_more_than_its_order(
    order: int, generator: torch.Generator
) -> None:
    x, v = points(3, generator)
    for engine, expected in (
        (FiniteDifference(parallel=False), [3] * (order + 1)),
        (FiniteDifference(), [3 * (order + 1)]),
        (Autodiff(), [3]),
        (Taylor(), [3]),
    ):
        f = Wave()
        for _ in range(3):  # the first and second evaluation of a model are inspected
            f.calls.clear()
            engine.jet(f, x, 0.1 * v, order)
        assert f.calls == expected


def test_the_truth_is_the_closed_form(generator: torch.Generator) -> None:
    x, v = points(5, generator)
    exact = truth(Wave(), x, v, 10)
    for order in range(11):
        torch.testing.assert_close(exact[order], derivative(x, v, order))


@pytest.mark.parametrize("order", range(1, 9))
def test_errors_are_of_second_order(order: int, generator: torch.Generator) -> None:
    x, v = points(5, generator)
    exact = torch.stack([derivative(x, v, k) for k in range(order + 1)])
    longer, shorter = errors(Wave(), x, v, exact, [0.4, 0.2])
    assert math.log2(longer / shorter) == pytest.approx(2, abs=0.1)


def test_the_error_is_relative_and_a_root_mean_square() -> None:
    exact = torch.tensor([3.0, 4.0])
    assert relative_error(exact + torch.tensor([0.3, -0.4]), exact) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("order", "a", "c"),
    [(1, 1 / 6, 1), (2, 1 / 12, 4), (3, 1 / 4, 3), (4, 1 / 6, 16), (5, 1 / 3, 10), (6, 1 / 4, 64)],
)
def test_the_balance_has_the_known_coefficients(order: int, a: float, c: float) -> None:
    sizes = torch.arange(2.0, 11.0)[:, None]  # of the derivatives of orders 0 to 8
    balance = balance_of(sizes, order, torch.float32)
    assert balance.truncation == pytest.approx(a * (order + 4) / (order + 2))
    assert balance.rounding == pytest.approx(c * 2**-24 * 2 / (order + 2))
    nearby = [balance.error(balance.step * factor) for factor in (0.99, 1, 1.01)]
    assert nearby[1] == min(nearby)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_errors_are_as_predicted_where_truncation_dominates(
    order: int, generator: torch.Generator
) -> None:
    x, v = points(64, generator)
    exact = truth(Wave(), x, v, order + 2)
    (error,) = errors(Wave(), x, v, exact[: order + 1], [0.05])
    assert error == pytest.approx(balance_of(exact, order, x.dtype).error(0.05), rel=0.01)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_a_difference_keeps_inputs_and_activations_of_each_evaluation(
    order: int, parallel: bool, generator: torch.Generator
) -> None:
    (x, v), f, engine = points(3, generator), Layer(7), FiniteDifference(parallel=parallel)
    kept, _ = kept_by(lambda: engine.jet(f, x, 0.1 * v, order)[-1])
    n = order + 1
    assert kept == 8 * (n * 3 * (4 + 7) + n * n)  # and the weights of the values


def test_graphs_grow_as_they_should(generator: torch.Generator) -> None:
    (x, v), f = points(1, generator), Layer(7)
    found = costs(f, x, 0.1 * v, Budget(orders=6, repeats=1), lambda loop: loop)
    nodes = {name: [cost.nodes for cost in spent] for name, spent in found.items()}
    assert list(nodes) == [NESTED, SERIAL, PARALLEL, TAYLOR]
    assert all(len(counts) == 6 for counts in nodes.values())
    assert len(set(nodes[PARALLEL])) == 1
    steps = [b - a for a, b in zip(nodes[SERIAL], nodes[SERIAL][1:], strict=False)]
    assert set(steps) == {3}  # mm, tanh and sum of one evaluation more
    factors = [b / a for a, b in zip(nodes[NESTED], nodes[NESTED][1:], strict=False)]
    assert min(factors[2:]) > 1.5
    assert all(a > b for a, b in zip(nodes[NESTED][1:], nodes[SERIAL][1:], strict=True))


def test_costs_that_would_be_too_high_are_not_tried(generator: torch.Generator) -> None:
    here, last = Cost(0.1, 100, 1), Cost(0.4, 300, 1)
    assert Budget(seconds=1.7, bytes=901).allows([here, last])
    assert not Budget(seconds=1.5, bytes=901).allows([here, last])
    assert not Budget(seconds=1.7, bytes=899).allows([here, last])
    assert Budget(seconds=0.1, bytes=1).allows([last])
    (x, v), f = points(1, generator), Layer(7)
    sizes = [kept_by(lambda k=k: Autodiff().jet(f, x, v, k)[-1])[0] for k in range(1, 5)]  # type: ignore[misc]
    tight = Budget(orders=6, repeats=1, bytes=sizes[2] ** 2 / sizes[1] - 1)
    found = costs(f, x, v, tight, lambda loop: loop)
    assert [len(found[name]) for name in (NESTED, SERIAL, PARALLEL)] == [3, 6, 6]


def test_growth_is_found_again() -> None:
    def spent(seconds: list[float]) -> list[Cost]:
        return [Cost(s, 10 * 2**k, 5 * 4**k) for k, s in enumerate(seconds)]

    orders = range(1, 6)
    square = np.corrcoef(np.arange(2, 10), np.arange(2, 10) ** 2)[0, 1] ** 2
    numbers = growth_of({
        NESTED: spent([3.0**k for k in orders]),
        SERIAL: spent([0.5 * (k + 1) for k in range(1, 9)]),
        PARALLEL: spent([(k + 1.0) ** 2 for k in range(1, 9)]),
    })
    values = {name: number.value for name, number in numbers.items()}
    assert values == pytest.approx({
        f"factor per order of time, {NESTED}": 3,
        f"factor per order of memory, {NESTED}": 2,
        f"factor per order of nodes, {NESTED}": 4,
        f"R² of time linear in T + 1, {SERIAL}": 1,
        f"power of T + 1 in time, {SERIAL}": 1,
        f"R² of time linear in T + 1, {PARALLEL}": square,
        f"power of T + 1 in time, {PARALLEL}": 2,
        f"time of {NESTED} over {SERIAL}": 3**5 / 3,
    })  # fmt: skip


def test_orders_within_a_per_cent_are_those_before_the_first_that_is_not() -> None:
    steps, float32 = [0.1, 0.2], [[0.1, 0.001], [0.02, math.nan], [0.005, 0.1]]
    found = Accuracy(steps, torch.ones(6, 1), float32, float32, [0.3] * 3, [1e-6, 0.01, 1e-4])
    numbers = found.numbers()
    assert numbers["orders within 1 %, float64"].value == 3
    assert numbers["orders within 1 %, float32"].value == 1
    assert numbers["largest error, float64"].value == pytest.approx(0.01)
    assert numbers["orders within 1 %, float32"].settings["steps"] == [0.2, 0.1, 0.1]


SMALL = Figure2(
    budget=Budget(orders=4, repeats=1),
    rows=2,
    error_rows=8,
    steps=(0.03, 0.1, 0.3),
    drawn=(2, 3, 8),
    checked=3,
)


@pytest.fixture
def findings(generator: torch.Generator) -> Findings:
    x, v = points(8, generator)
    return SMALL.of(Wave().float(), Wave(), x.float(), v.float(), lambda loop: loop)


def test_the_panels_agree_with_closed_forms(
    findings: Findings, generator: torch.Generator
) -> None:
    time, memory, graph, error, narrow, wide = findings.panels
    for panel in (time, memory, graph):
        assert [line.name for line in panel.lines] == [NESTED, SERIAL, PARALLEL, TAYLOR]
        assert all(line.x == (1, 2, 3, 4) and min(line.y) > 0 for line in panel.lines)
    assert len(set(graph.lines[2].y)) == 1
    assert all(line.y[-1] < 0.01 for line in error.lines[:1])
    assert [line.name for line in wide.lines[::2]] == ["T = 2", "T = 3"]
    x, v = (y.float().double() for y in points(8, generator.manual_seed(0)))
    second, third, f = [], [], Wave()
    for h in SMALL.steps:
        size = length(v)
        u = h * v / per_example(size, v)
        second.append((f(x + u) + f(x - u) - 2 * f(x)) * (size / h) ** 2)
        odd = (f(x + 2 * u) - f(x - 2 * u)) / 2 - (f(x + u) - f(x - u))
        third.append(odd * (size / h) ** 3)
    for line, quotients, order in ((wide.lines[0], second, 2), (wide.lines[2], third, 3)):
        expected = [relative_error(q.detach(), derivative(x, v, order)) for q in quotients]
        assert line.y == pytest.approx(expected, rel=1e-6)
    best = [min(line.y) for line in narrow.lines[::2]]
    assert error.lines[1].y[1:3] == pytest.approx(best)
    assert findings.numbers["Taylor against nested autograd"].value < 1e-12
    assert findings.numbers["orders within 1 %, float64"].value == 4


def test_float32_is_worse_than_float64_at_small_steps(findings: Findings) -> None:
    *_, narrow, wide = findings.panels
    for order in (0, 2):
        assert narrow.lines[order].y[0] > 2 * wide.lines[order].y[0]
        assert narrow.lines[order].y[-1] == pytest.approx(wide.lines[order].y[-1], rel=0.05)


def test_it_is_measured_on_the_model_of_a_run(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    place = RunStore(tmp_path)
    study = replace(SMALL, recipe=TINY.recipe)
    findings = study.measure(place, 0, lambda loop: loop)
    assert findings.numbers["Taylor against nested autograd"].value < 1e-9
    assert findings.numbers["orders within 1 %, float64"].value == 4
