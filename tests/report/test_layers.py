"""Graphs in layers: every edge goes down, and nothing lies on anything else."""

import random
from itertools import combinations, pairwise

import pytest

from fdsm.report.layers import PASSING, layers, layout

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]


def longest(node: int, edges: list[tuple[int, int]]) -> int:
    """Return the length of the longest path to a node, by trying all."""
    return max((1 + longest(start, edges) for start, end in edges if end == node), default=0)


def lowest(node: int, edges: list[tuple[int, int]]) -> int:
    """Return the layer above all that a node leads to, or that of the longest path to it."""
    after = [lowest(end, edges) - 1 for start, end in edges if start == node]
    return min(after, default=longest(node, edges))


def some_graph(seed: int, count: int = 14) -> list[tuple[int, int]]:
    draw = random.Random(seed)
    pairs = [pair for pair in combinations(range(count), 2) if draw.random() < 0.2]
    names = draw.sample(range(count), count)
    return [(names[start], names[end]) for start, end in pairs]


@pytest.mark.parametrize("seed", range(5))
def test_a_node_is_just_above_the_first_that_it_leads_to(seed: int) -> None:
    edges = some_graph(seed)
    assert layers(14, edges) == [lowest(node, edges) for node in range(14)]
    assert min(layers(14, edges)) == 0
    assert layers(4, [(0, 1), (1, 2), (3, 2)]) == [0, 1, 2, 1]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overlaps_and_edges_pass_every_layer_between(seed: int) -> None:
    edges = some_graph(seed)
    drawn = layout(edges, [1.0] * 14)
    for one, two in combinations(drawn.points, 2):
        assert one[1] != two[1] or abs(one[0] - two[0]) >= 1 - 1e-9
    for (start, end), path in zip(edges, drawn.paths, strict=True):
        assert (path[0], path[-1]) == (drawn.points[start], drawn.points[end])
        assert [lower[1] - upper[1] for upper, lower in pairwise(path)] == [1] * (len(path) - 1)
        for bend in path[1:-1]:
            for point in drawn.points:
                room = (1 + PASSING) / 2
                assert point[1] != bend[1] or abs(point[0] - bend[0]) >= room - 1e-9


def test_a_diamond_is_symmetrical_but_for_the_edge_that_passes() -> None:
    drawn = layout(DIAMOND[:4], [1.0] * 4)
    top, left, right, bottom = (x for x, _ in drawn.points)
    assert top == pytest.approx(bottom)
    assert left - top == pytest.approx(top - right)
    assert drawn.width == pytest.approx(2)
    assert drawn.depth == 3
    assert len(layout(DIAMOND, [1.0] * 4).paths[4]) == 3


def test_wide_nodes_have_the_room_they_need() -> None:
    drawn = layout([(0, 1), (0, 2), (0, 3)], [1.0, 3.0, 1.0, 5.0])
    (one, two), (three, _) = sorted(drawn.points[1:])[:2], sorted(drawn.points[1:])[2]
    widths = {drawn.points[node][0]: width for node, width in ((1, 3.0), (2, 1.0), (3, 5.0))}
    for left, right in ((one[0], two[0]), (two[0], three)):
        assert right - left >= (widths[left] + widths[right]) / 2 - 1e-9
    assert drawn.width >= 9


def test_nodes_are_ordered_without_crossings_where_there_need_be_none() -> None:
    drawn = layout([(0, 5), (1, 4), (2, 3)], [1.0] * 6)
    crossed = [
        (drawn.points[a][0] - drawn.points[b][0]) * (drawn.points[c][0] - drawn.points[d][0]) < 0
        for (a, c), (b, d) in combinations([(0, 5), (1, 4), (2, 3)], 2)
    ]
    assert crossed == [False] * 3


def test_nothing_a_single_node_and_a_cycle_can_be_drawn() -> None:
    assert layout([], []).depth == 0
    assert layout([], [2.0]).points == ((0, 0),)
    assert len(layout([(0, 1), (1, 0)], [1.0, 1.0]).paths) == 2
