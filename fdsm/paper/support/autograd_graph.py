"""The graphs that autograd records of how a tensor was made."""

import re
from collections.abc import Iterator

from torch import Tensor, nn
from torch.autograd.graph import Node

from ...report.figure import Graph


def recorded_nodes(y: Tensor) -> list[Node]:
    """Return all that autograd recorded of how a tensor was made.

    Args:
        y: A tensor that requires a gradient.

    Returns:
        The nodes of its graph, each after all that it was made of; `y`'s own is the last.

    Raises:
        ValueError: If nothing was recorded.

    Example:
        >>> import torch
        >>> a = torch.ones(2, requires_grad=True)
        >>> [label(node) for node in recorded_nodes((a.exp() * a).sum())]
        ['data', 'exp', 'mul', 'sum']
    """
    if y.grad_fn is None:
        raise ValueError("autograd has recorded nothing of how this tensor was made")
    ordered: list[Node] = []
    seen: set[Node] = set()
    pending = [(y.grad_fn, False)]
    while pending:
        node, is_ready = pending.pop()
        if is_ready:
            ordered.append(node)
        elif node not in seen:
            seen.add(node)
            pending.append((node, True))
            pending.extend((before, False) for before in _inputs(node))
    return ordered


def label(node: Node) -> str:
    """Return the name of the operation that a node differentiates, or of what a leaf is.

    An operation of a backward pass that was itself recorded has "backward" in its name.
    """
    leaf = leaf_of(node)
    if leaf is not None:
        return "parameter" if isinstance(leaf, nn.Parameter) else "data"
    name = node.name().rpartition("::")[2].rstrip("0123456789").lstrip("_")
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", " ", name.removesuffix("Backward")).lower()


def leaf_of(node: Node) -> Tensor | None:
    """Return the tensor whose gradient a node accumulates, if it is such a node."""
    leaf: Tensor | None = getattr(node, "variable", None)
    return leaf


def graph_of(name: str, y: Tensor) -> Graph:
    """Return the graph of how a tensor was made, from parameters and data down to `y`.

    Args:
        name: What it is.
        y: A tensor that requires a gradient.

    Returns:
        The graph, its edges from each operation to those that make use of its result.
    """
    nodes = recorded_nodes(y)
    place = {node: i for i, node in enumerate(nodes)}
    edges = {(place[before], place[node]): None for node in nodes for before in _inputs(node)}
    return Graph(name, tuple(map(label, nodes)), tuple(edges))


def depth_of(graph: Graph) -> int:
    """Return how many nodes are on the longest path of a graph as `graph_of` makes it.

    Example:
        >>> depth_of(Graph("", ("a", "b", "c", "d"), ((0, 1), (1, 3), (2, 3))))
        3
    """
    depths = [1] * len(graph.nodes)
    for start, end in sorted(graph.edges, key=lambda edge: edge[1]):
        depths[end] = max(depths[end], depths[start] + 1)
    return max(depths)


def _inputs(node: Node) -> Iterator[Node]:
    return (before for before, _ in node.next_functions if before is not None)
