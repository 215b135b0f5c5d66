"""Where to draw the nodes of a directed graph: by layers, with few crossings."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

SWEEPS = 12
"""How often the order within layers is improved, downwards and upwards in turn."""


PASSING = 0.2
"""How much room an edge takes that passes a layer."""

Chains = Sequence[Sequence[int]]
"""The nodes on the way of each edge: its ends, and one in each layer between them."""


@dataclass(frozen=True)
class Layout:
    """Places for a graph.

    Attributes:
        points: Where each node is: from the middle to the right, and in which layer.
        paths: The bends of each edge, its two ends included.
        width: How wide it is, in the unit of the nodes' own width.
        depth: How many layers.
    """

    points: tuple[tuple[float, float], ...]
    paths: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    depth: int


def layout(edges: Sequence[tuple[int, int]], room: Sequence[float]) -> Layout:
    """Return where to draw a graph, every edge going down.

    A node is one layer above the first that it leads to, and an edge bends where it passes other
    layers. Within a layer nodes are ordered by the mean place of their neighbours (Sugiyama,
    Tagawa, Toda, 1981). Edges of a cycle may go up.

    Args:
        edges: Pairs of nodes, from and to.
        room: How wide each node is.

    Returns:
        The places.

    Example:
        >>> layout([(0, 1), (1, 2)], [1.0, 1.0, 1.0]).points
        ((0.0, 0.0), (0.0, 1.0), (0.0, 2.0))
    """
    depth = layers(len(room), edges)
    level = list(depth)
    chains: list[list[int]] = []
    for start, end in edges:
        low, high = sorted((depth[start], depth[end]))
        between = list(range(len(level), len(level) + max(high - low - 1, 0)))
        level += range(low + 1, high)
        chains.append([start, *(between if depth[start] <= depth[end] else between[::-1]), end])
    order = _ordered(level, chains)
    widths = [*room, *[PASSING] * (len(level) - len(room))]
    column = _columns(order, chains, widths)
    left = min((x - width / 2 for x, width in zip(column, widths, strict=True)), default=0.0)
    right = max((x + width / 2 for x, width in zip(column, widths, strict=True)), default=0.0)
    place = [(x - (left + right) / 2, float(y)) for x, y in zip(column, level, strict=True)]
    return Layout(
        tuple(place[: len(room)]),
        tuple(tuple(place[node] for node in chain) for chain in chains),
        right - left,
        len(order),
    )


def layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node: as low as what it leads to allows.

    Args:
        count: How many nodes.
        edges: Pairs of nodes, from and to.

    Returns:
        The layers, the first being zero. A node that leads nowhere is as low as the longest path
        to it is long; what a cycle leads to is left where it was reached.
    """
    below: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for start, end in edges:
        below[start].append(end)
        waiting[end] += 1
    depth = [0] * count
    sorted_nodes: list[int] = []
    ready = deque(node for node in range(count) if not waiting[node])
    while ready:
        node = ready.popleft()
        sorted_nodes.append(node)
        for other in below[node]:
            depth[other] = max(depth[other], depth[node] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    for node in reversed(sorted_nodes):
        depth[node] = min((depth[other] - 1 for other in below[node]), default=depth[node])
    return depth


def _ordered(level: Sequence[int], chains: Chains) -> list[list[int]]:
    """Return the nodes of each layer, from left to right."""
    order: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for node, layer in enumerate(level):
        order[layer].append(node)
    above, below = _neighbours(len(level), chains)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        place = {node: _centred(k, nodes) for nodes in order for k, node in enumerate(nodes)}
        for nodes in order if sweep % 2 == 0 else reversed(order):
            near = {n: fmean(place[m] for m in neighbours[n] or [n]) for n in nodes}
            nodes.sort(key=near.__getitem__)
            place |= {node: _centred(k, nodes) for k, node in enumerate(nodes)}
    return order


def _columns(
    order: Sequence[Sequence[int]], chains: Chains, widths: Sequence[float]
) -> list[float]:
    """Return a column for each node: near its neighbours, and clear of those beside it."""
    column = [0.0] * len(widths)
    for nodes in order:
        for position, node in enumerate(nodes):
            column[node] = _centred(position, nodes)
    above, below = _neighbours(len(column), chains)
    for sweep in range(6 * SWEEPS):
        for nodes in order if sweep % 2 == 0 else reversed(order):
            wanted = [fmean(column[m] for m in above[n] + below[n] or [n]) for n in nodes]
            found = _apart(wanted, [widths[node] for node in nodes])
            for node, x in zip(nodes, found, strict=True):
                column[node] = x
    return column


def _apart(wanted: Sequence[float], room: Sequence[float]) -> list[float]:
    """Return places near the wanted ones, in the same order and as far apart as they need."""
    gaps = [(one + two) / 2 for one, two in pairwise(room)]
    right, left = list(wanted), list(wanted)
    for k, gap in enumerate(gaps):
        right[k + 1] = max(right[k + 1], right[k] + gap)
    for k, gap in reversed(list(enumerate(gaps))):
        left[k] = min(left[k], left[k + 1] - gap)
    return [(one + two) / 2 for one, two in zip(right, left, strict=True)]


def _neighbours(count: int, chains: Chains) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _centred(position: int, nodes: Sequence[int]) -> float:
    return position - (len(nodes) - 1) / 2
