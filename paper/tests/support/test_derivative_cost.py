"""Costs of derivatives: known counts and known growth."""

import numpy as np
import pytest
import torch

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from paper.support.derivative_cost import (
    NESTED,
    PARALLEL,
    SERIAL,
    TAYLOR,
    Budget,
    Cost,
    graph_size,
    growth_numbers,
    measure_costs,
)

from .derivative_cases import Layer, Wave, points


@pytest.mark.parametrize("order", range(1, 9))
def test_a_finite_difference_takes_one_value_more_than_its_order(
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


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_a_finite_difference_saves_inputs_and_activations_of_each_evaluation(
    order: int, parallel: bool, generator: torch.Generator
) -> None:
    (x, v), f, engine = points(3, generator), Layer(7), FiniteDifference(parallel=parallel)
    saved, _ = graph_size(lambda: engine.jet(f, x, 0.1 * v, order)[-1])
    n = order + 1
    assert saved == 8 * (n * 3 * (4 + 7) + n * n)  # and the weights of the stencil


def test_graphs_grow_with_the_order_as_predicted(generator: torch.Generator) -> None:
    (x, v), f = points(1, generator), Layer(7)
    found = measure_costs(f, x, 0.1 * v, Budget(max_order=6, repeats=1), lambda loop: loop)
    nodes = {name: [cost.nodes for cost in costs] for name, costs in found.items()}
    assert list(nodes) == [NESTED, SERIAL, PARALLEL, TAYLOR]
    assert all(len(counts) == 6 for counts in nodes.values())
    assert len(set(nodes[PARALLEL])) == 1
    steps = [b - a for a, b in zip(nodes[SERIAL], nodes[SERIAL][1:], strict=False)]
    assert set(steps) == {3}  # mm, tanh and sum of one evaluation more
    factors = [b / a for a, b in zip(nodes[NESTED], nodes[NESTED][1:], strict=False)]
    assert min(factors[2:]) > 1.5
    assert all(a > b for a, b in zip(nodes[NESTED][1:], nodes[SERIAL][1:], strict=True))


def test_orders_that_exceed_the_budget_are_skipped(generator: torch.Generator) -> None:
    here, last = Cost(0.1, 100, 1), Cost(0.4, 300, 1)
    assert Budget(max_seconds=1.7, max_bytes=901).allows_next_order([here, last])
    assert not Budget(max_seconds=1.5, max_bytes=901).allows_next_order([here, last])
    assert not Budget(max_seconds=1.7, max_bytes=899).allows_next_order([here, last])
    assert Budget(max_seconds=0.1, max_bytes=1).allows_next_order([last])
    (x, v), f = points(1, generator), Layer(7)
    sizes = [graph_size(lambda k=k: Autodiff().jet(f, x, v, k)[-1])[0] for k in range(1, 5)]  # type: ignore[misc]
    tight = Budget(max_order=6, repeats=1, max_bytes=sizes[2] ** 2 / sizes[1] - 1)
    found = measure_costs(f, x, v, tight, lambda loop: loop)
    assert [len(found[name]) for name in (NESTED, SERIAL, PARALLEL)] == [3, 6, 6]


def test_growth_of_known_sequences() -> None:
    def costs(seconds: list[float]) -> list[Cost]:
        return [Cost(s, 10 * 2**k, 5 * 4**k) for k, s in enumerate(seconds)]

    orders = range(1, 6)
    square = np.corrcoef(np.arange(2, 10), np.arange(2, 10) ** 2)[0, 1] ** 2
    numbers = growth_numbers({
        NESTED: costs([3.0**k for k in orders]),
        SERIAL: costs([0.5 * (k + 1) for k in range(1, 9)]),
        PARALLEL: costs([(k + 1.0) ** 2 for k in range(1, 9)]),
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
