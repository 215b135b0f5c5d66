"""The graphs of functions that are known by heart."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from fdsm.paper.support.autograd_graph import depth_of, graph_of, recorded_nodes
from fdsm.report.figure import Graph


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        return 2 * grad


def named_edges(graph: Graph) -> set[tuple[str, str]]:
    return {(graph.nodes[start], graph.nodes[end]) for start, end in graph.edges}


def test_the_graph_of_a_function_known_by_heart() -> None:
    a, w = torch.ones(3, requires_grad=True), nn.Parameter(torch.ones(3))
    graph = graph_of("f", (a.exp() * w + a.sin()).sum())
    assert sorted(graph.nodes) == ["add", "data", "exp", "mul", "parameter", "sin", "sum"]
    assert named_edges(graph) == {
        ("data", "exp"), ("data", "sin"), ("exp", "mul"), ("parameter", "mul"),
        ("mul", "add"), ("sin", "add"), ("add", "sum"),
    }  # fmt: skip
    assert depth_of(graph) == 5  # data, exp, mul, add, sum


def test_a_tensor_that_is_used_twice_has_one_node_and_one_edge_to_each_user() -> None:
    a = torch.ones(3, requires_grad=True)
    b = a.exp()
    graph = graph_of("f", b * b)
    assert graph.nodes == ("data", "exp", "mul")
    assert graph.edges == ((0, 1), (1, 2))


def test_nodes_come_after_what_they_are_made_of() -> None:
    y = a = torch.ones(2, requires_grad=True)
    for _ in range(2000):  # deeper than Python could recurse
        y = y * a + y
    graph = graph_of("f", y)
    assert len(graph.nodes) == 4001
    assert all(start < end for start, end in graph.edges)
    assert depth_of(graph) == 4001


def test_the_backward_pass_is_in_the_graph_of_a_gradient() -> None:
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
    graph = graph_of("f", gradient)
    assert graph.nodes == ("data", "tanh", "tanh backward")
    assert graph.edges == ((0, 1), (1, 2))


def test_a_function_written_by_hand_is_one_node() -> None:
    x = torch.ones(3, requires_grad=True)
    assert graph_of("f", Twice.apply(x)).nodes == ("data", "twice")  # type: ignore[no-untyped-call]


def test_what_was_not_recorded_has_no_graph() -> None:
    with pytest.raises(ValueError, match="recorded nothing"):
        recorded_nodes(torch.ones(3))
