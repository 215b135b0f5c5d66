"""The weights are those of the theory, exactly."""

from fractions import Fraction as F
from math import factorial, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdsm.derivatives import central_nodes, stencil

TABLE = {
    1: "-1/2 1/2",
    2: "1 -2 1",
    3: "-1/2 1 -1 1/2",
    4: "1 -4 6 -4 1",
    5: "-1/2 2 -5/2 5/2 -2 1/2",
    6: "1 -6 15 -20 15 -6 1",
}
"""The nonzero weights for $α_k = k$."""

ACCURATE = {
    (1, 4): "1/12 -2/3 2/3 -1/12",
    (1, 6): "-1/60 3/20 -3/4 3/4 -3/20 1/60",
    (2, 4): "-1/12 4/3 -5/2 4/3 -1/12",
    (2, 6): "1/90 -3/20 3/2 -49/18 3/2 -3/20 1/90",
    (3, 4): "1/8 -1 13/8 -13/8 1 -1/8",
    (4, 4): "-1/6 2 -13/2 28/3 -13/2 2 -1/6",
}


def fractions(text: str) -> tuple[F, ...]:
    return tuple(F(word) for word in text.split())


@pytest.mark.parametrize("order", TABLE)
def test_table_of_theorem_one(order: int) -> None:
    assert stencil(central_nodes(order))[order] == fractions(TABLE[order])


@pytest.mark.parametrize(("order", "accuracy"), ACCURATE)
def test_table_of_higher_accuracy(order: int, accuracy: int) -> None:
    expected = fractions(ACCURATE[order, accuracy])
    assert stencil(central_nodes(order, accuracy))[order] == expected


@settings(deadline=None)  # other processes may use the cores too
@given(st.lists(st.fractions(-20, 20, max_denominator=9), min_size=1, max_size=14, unique=True))
def test_any_distinct_nodes_differentiate_polynomials_exactly(nodes: list[F]) -> None:
    for k, row in enumerate(stencil(nodes)):
        for power in range(len(nodes)):
            moment = sum(w * node**power for w, node in zip(row, nodes, strict=True))
            assert moment == (factorial(k) if power == k else 0)


@pytest.mark.parametrize("order", range(1, 15))
@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_error_is_of_the_order_of_the_accuracy(order: int, accuracy: int) -> None:
    nodes = central_nodes(order, accuracy)
    row = stencil(nodes)[order]
    moments = [
        sum(w * F(node) ** power for w, node in zip(row, nodes, strict=True))
        for power in range(order + accuracy + 1)
    ]
    assert moments[order] == factorial(order)
    assert not any(m for power, m in enumerate(moments[:-1]) if power != order)
    assert moments[-1] != 0


@pytest.mark.parametrize("order", range(1, 9))
def test_arbitrary_alphas_give_the_coefficients_of_theorem_one(order: int) -> None:
    alphas = [F(3, 2), F(1, 7), F(5), F(2)][: (order + 1) // 2]
    nodes = central_nodes(order, alphas=alphas)
    row = dict(zip(nodes, stencil(nodes)[order], strict=True))
    for k, alpha in enumerate(alphas):
        others = alphas[:k] + alphas[k + 1 :]
        beta = 1 / prod([alpha**2 - other**2 for other in others], start=F(1))
        pair = F(factorial(order), 2) * beta / alpha ** (1 if order % 2 else 2)
        assert row[alpha] == pair
        assert row[-alpha] == (-pair if order % 2 else pair)


def test_number_of_evaluations() -> None:
    assert [len(central_nodes(order)) for order in (1, 2, 3, 4)] == [2, 3, 4, 5]
    assert [len(central_nodes(2, accuracy)) for accuracy in (2, 4, 6)] == [3, 5, 7]


@pytest.mark.parametrize("nodes", [[], [1, 1], [0, 0.5, F(1, 2)], [float("nan")], [float("inf")]])
def test_bad_nodes_are_refused(nodes: list[float]) -> None:
    with pytest.raises(ValueError, match="nodes must be"):
        stencil(nodes)


@pytest.mark.parametrize("order", [0, -1, 1.5, True])
def test_bad_orders_are_refused(order: int) -> None:
    with pytest.raises(ValueError, match="order must be"):
        central_nodes(order)


@pytest.mark.parametrize("accuracy", [0, 1, 3, -2])
def test_bad_accuracies_are_refused(accuracy: int) -> None:
    with pytest.raises(ValueError, match="accuracy must be"):
        central_nodes(1, accuracy)


@pytest.mark.parametrize("alphas", [[], [1, 2], [0], [-1], [1, 1]])
def test_bad_alphas_are_refused(alphas: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct positive alphas"):
        central_nodes(2, alphas=alphas)
