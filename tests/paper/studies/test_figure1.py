from collections.abc import Callable
from pathlib import Path

import pytest

from fdsm.paper.run_store import RunStore
from fdsm.paper.studies.figure1 import OBJECTIVES, Figure1
from fdsm.paper.study import Findings
from fdsm.paper.support.autograd_graph import depth_of


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return Figure1().measure(RunStore(tmp_path_factory.mktemp("runs")), 0, lambda loop: loop)


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
    wider = Figure1(width=3, rows=3).measure(RunStore(tmp_path), 1, lambda loop: loop)
    assert wider == findings
