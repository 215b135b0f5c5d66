"""Size and depth of the graph that autograd records."""

from collections.abc import Iterator

from torch import Tensor
from torch.autograd.graph import Node


def recorded_nodes(y: Tensor) -> list[Node]:
    """Return the nodes of the autograd graph of a tensor.

    Args:
        y: A tensor that requires a gradient.

    Returns:
        The nodes in topological order: each follows its inputs, and the node of `y` is the last.

    Raises:
        ValueError: If `y` has no graph.

    Example:
        >>> import torch
        >>> a = torch.ones(2, requires_grad=True)
        >>> [node.name() for node in recorded_nodes((a.exp() * a).sum())]
        ['torch::autograd::AccumulateGrad', 'ExpBackward0', 'MulBackward0', 'SumBackward0']
    """
    if y.grad_fn is None:
        raise ValueError("the tensor has no autograd graph: it does not require a gradient")
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


def leaf_of(node: Node) -> Tensor | None:
    """Return the leaf tensor whose gradient a node accumulates, or `None` for an operation."""
    leaf: Tensor | None = getattr(node, "variable", None)
    return leaf


def depth(nodes: list[Node]) -> int:
    """Return the number of nodes on the longest path of a graph, given `recorded_nodes`."""
    depths: dict[Node, int] = {}
    for node in nodes:
        depths[node] = 1 + max((depths[before] for before in _inputs(node)), default=0)
    return max(depths.values())


def _inputs(node: Node) -> Iterator[Node]:
    return (before for before, _ in node.next_functions if before is not None)
