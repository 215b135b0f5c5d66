"""Graphs of functions whose size and depth are known."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from paper.support.autograd_graph import depth, leaf_of, recorded_nodes


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        return 2 * grad


def names(y: Tensor) -> list[str]:
    return [node.name().rpartition("::")[2] for node in recorded_nodes(y)]


def test_nodes_and_depth_of_a_small_function() -> None:
    a, w = torch.ones(3, requires_grad=True), nn.Parameter(torch.ones(3))
    y = (a.exp() * w + a.sin()).sum()
    assert sorted(names(y)) == [
        "AccumulateGrad", "AccumulateGrad", "AddBackward0", "ExpBackward0", "MulBackward0",
        "SinBackward0", "SumBackward0",
    ]  # fmt: skip
    nodes = recorded_nodes(y)
    assert depth(nodes) == 5  # a, exp, mul, add, sum
    leaves = [leaf for leaf in map(leaf_of, nodes) if leaf is not None]
    assert {id(leaf) for leaf in leaves} == {id(a), id(w)}


def test_a_tensor_that_is_used_twice_has_one_node() -> None:
    b = torch.ones(3, requires_grad=True).exp()
    assert names(b * b) == ["AccumulateGrad", "ExpBackward0", "MulBackward0"]


def test_nodes_follow_their_inputs_in_deep_graphs() -> None:
    y = a = torch.ones(2, requires_grad=True)
    for _ in range(2000):  # deeper than Python can recurse
        y = y * a + y
    nodes = recorded_nodes(y)
    assert len(nodes) == depth(nodes) == 4001
    position = {node: i for i, node in enumerate(nodes)}
    for node in nodes:
        assert all(
            position[before] < position[node] for before, _ in node.next_functions if before
        )


def test_the_graph_of_a_gradient_contains_its_backward_pass() -> None:
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
    assert names(gradient) == ["AccumulateGrad", "TanhBackward0", "TanhBackwardBackward0"]


def test_a_custom_function_is_one_node() -> None:
    y = Twice.apply(torch.ones(3, requires_grad=True))  # type: ignore[no-untyped-call]
    assert names(y) == ["AccumulateGrad", "TwiceBackward"]


def test_a_tensor_without_a_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="no autograd graph"):
        recorded_nodes(torch.ones(3))
