"""Sizes of graphs: smaller for finite differences, independent of the width."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from paper.run_store import RunStore
from paper.studies.figure1 import OBJECTIVES, Figure1, graph_sizes, perceptron
from paper.study import StudyResult
from paper.support.autograd_graph import recorded_nodes


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return Figure1().run(RunStore(tmp_path_factory.mktemp("runs")), 0, lambda loop: loop)


@pytest.fixture(scope="module")
def count(result: StudyResult) -> Callable[[str, str, str], float]:
    return lambda what, name, network: result.numbers[f"{what}, {name}, {network}"].value


def node_names(name: str) -> list[str]:
    """Return the names of the nodes of a loss of the perceptron."""
    x = torch.zeros(2, 2)
    loss = OBJECTIVES[name](perceptron(), x, generator=torch.Generator().manual_seed(0)).mean()
    return [node.name() for node in recorded_nodes(loss)]


def test_sizes_of_a_known_graph() -> None:
    a = torch.ones(2, requires_grad=True)
    nodes, depth = graph_sizes("f", (a.exp() * a).sum()).values()
    assert (nodes.value, depth.value) == (4, 4)  # a, exp, mul, sum
    assert nodes.settings == {"of them parameters or data": 1, "of them written by hand": 0}


def test_every_loss_has_counts_for_both_networks(result: StudyResult) -> None:
    assert list(result.numbers) == [
        f"{what}, {name}, {network}"
        for name in OBJECTIVES
        for network in ("perceptron", "ResNet")
        for what in ("nodes", "depth")
    ]


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
def test_counts_are_those_of_the_graph(count: Callable[[str, str, str], float]) -> None:
    for name in OBJECTIVES:
        assert len(node_names(name)) == count("nodes", name, "perceptron")


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
def test_finite_differences_contain_one_or_three_forward_passes_and_no_backward_pass() -> None:
    forward = {name: node_names(name).count("SoftplusBackward0") for name in OBJECTIVES}
    assert (forward["FD-SSM"], forward["FD-SSM*"]) == (2, 6)
    backward = {name: "SoftplusBackwardBackward0" in node_names(name) for name in OBJECTIVES}
    assert not any(backward[name] for name in ("FD-SSM", "FD-SSM*", "FD-DSM"))
    assert all(backward[name] for name in ("SSM", "SSMVR", "DSM"))


@pytest.mark.parametrize("network", ["perceptron", "ResNet"])
def test_graphs_of_finite_differences_are_smaller(
    network: str, count: Callable[[str, str, str], float]
) -> None:
    for finite, exact in (("FD-SSM", "SSM"), ("FD-SSMVR", "SSMVR"), ("FD-DSM", "DSM")):
        assert count("nodes", finite, network) < count("nodes", exact, network)
    assert count("nodes", "FD-SSM*", network) < count("nodes", "SSM", network)
    assert count("depth", "FD-SSM", network) < count("depth", "SSM", network)
    assert count("depth", "FD-SSM*", network) == count("depth", "FD-SSM", network) + 1  # cat


def test_only_taylor_mode_has_custom_functions(result: StudyResult) -> None:
    custom = {
        name: result.numbers[f"nodes, {name}, ResNet"].settings["of them written by hand"]
        for name in OBJECTIVES
    }
    assert [name for name, nodes in custom.items() if nodes] == ["Taylor-SSM"]


def test_the_width_does_not_change_the_graphs(result: StudyResult, tmp_path: Path) -> None:
    assert Figure1(width=3, rows=3).run(RunStore(tmp_path), 1, lambda loop: loop) == result
