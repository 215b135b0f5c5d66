from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from fdsm.experiments.figure1 import OBJECTIVES, Figure1, depth_of, graph_of, recorded_nodes
from fdsm.experiments.place import Place
from fdsm.experiments.study import Findings, Graph


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


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return Figure1().measure(Place(tmp_path_factory.mktemp("runs")), 0, lambda loop: loop)


@pytest.fixture(scope="module")
def count(findings: Findings) -> Callable[[str, str, str], float]:
    return lambda what, name, network: findings.numbers[f"{what}, {name}, {network}"].value


def test_every_loss_has_a_graph_with_its_counts(
    findings: Findings, count: Callable[[str, str, str], float]
) -> None:
    assert [graph.name for graph in findings.graphs] == [f"{n}, perceptron" for n in OBJECTIVES]
    for graph, name in zip(findings.graphs, OBJECTIVES, strict=True):
        assert len(graph.nodes) == count("nodes", name, "perceptron") <= 100
        assert depth_of(graph) == count("depth", name, "perceptron")
        sources = set(range(len(graph.nodes))) - {end for _, end in graph.edges}
        sinks = set(range(len(graph.nodes))) - {start for start, _ in graph.edges}
        assert {graph.nodes[i] for i in sources} <= {"parameter", "data"}
        assert [graph.nodes[i] for i in sinks] == ["mean"]
        assert graph.nodes.count("parameter") == 5  # two biases and three weights


def test_finite_differences_evaluate_once_or_three_times(findings: Findings) -> None:
    graphs = dict(zip(OBJECTIVES, findings.graphs, strict=True))
    assert [graphs[name].nodes.count("softplus") for name in ("FD-SSM", "FD-SSM*")] == [2, 6]
    for name in ("FD-SSM", "FD-SSM*", "FD-DSM"):
        assert not any("backward" in node for node in graphs[name].nodes)
    for name in ("SSM", "SSMVR", "DSM"):
        assert any("backward" in node for node in graphs[name].nodes)


@pytest.mark.parametrize("network", ["perceptron", "ResNet"])
def test_graphs_of_finite_differences_are_smaller(
    network: str, count: Callable[[str, str, str], float]
) -> None:
    for ours, theirs in (("FD-SSM", "SSM"), ("FD-SSMVR", "SSMVR"), ("FD-DSM", "DSM")):
        assert count("nodes", ours, network) < count("nodes", theirs, network)
    assert count("nodes", "FD-SSM*", network) < count("nodes", "SSM", network)
    assert count("depth", "FD-SSM", network) < count("depth", "SSM", network)
    assert count("depth", "FD-SSM*", network) == count("depth", "FD-SSM", network) + 1  # cat


def test_only_taylor_series_hide_operations(findings: Findings) -> None:
    by_hand = {
        name: findings.numbers[f"nodes, {name}, ResNet"].settings["of them written by hand"]
        for name in OBJECTIVES
    }
    assert [name for name, count in by_hand.items() if count] == ["Taylor-SSM"]


def test_the_width_does_not_change_a_graph(findings: Findings, tmp_path: Path) -> None:
    wider = Figure1(width=3, rows=3).measure(Place(tmp_path), 1, lambda loop: loop)
    assert wider == findings
