r"""The computing graphs of score-matching losses, as autograd recorded them (Figure 1).

A gradient-based loss is the gradient of a forward pass, and for SSM the gradient of that once
more, one after the other; what trains it walks back through all of it. The finite-difference loss
is several forward passes beside each other. Each node of a graph is an operation of the backward
pass, and the longest path is how many of them must wait for one another.

Taylor series propagate through functions of torch's with a backward pass written by hand where
the order is at most two, so that one node stands for several operations there; how many such
nodes there are is among the settings of each count. Nothing else hides operations: no loss here
makes use of checkpoints.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn
from torch.autograd.function import BackwardCFunction

from ...derivatives import Autodiff, FiniteDifference, Taylor
from ...evaluation import Measurement
from ...models import QuadraticResNet
from ...objectives import DSM, SSM, SSMVR, SlicedDSM, ViaScore
from ...projections import Gaussian, Sphere
from ...samplers import Progress
from ...training import derived_seed
from ...typing import DensityFunction, Objective
from ..run_store import RunStore
from ..study import Findings, Graph
from ..support.autograd_graph import depth_of, graph_of, recorded_nodes

OBJECTIVES: Mapping[str, Objective] = {
    "SSM": SSM(Autodiff(), Gaussian()),
    "FD-SSM": SSM(FiniteDifference(), Sphere(0.1)),
    "FD-SSM*": SSM(FiniteDifference(parallel=False), Sphere(0.1)),
    "Taylor-SSM": SSM(Taylor(), Sphere(0.1)),
    "SSMVR": ViaScore(SSMVR(Autodiff(), Gaussian())),
    "FD-SSMVR": ViaScore(SSMVR(FiniteDifference(), Sphere(0.1))),
    "DSM": DSM(0.1),
    "FD-DSM": SlicedDSM(0.1, FiniteDifference(), Sphere(0.1)),
}
"""What is compared; a star where evaluations are one by one, as in Table 2."""


def perceptron() -> nn.Module:
    """Return a log-density on the plane, small enough for the graphs of its losses to be drawn."""
    return nn.Sequential(
        nn.Linear(2, 8),
        nn.Softplus(),
        nn.Linear(8, 8),
        nn.Softplus(),
        nn.Linear(8, 1, bias=False),
        nn.Flatten(0),
    )


@dataclass(frozen=True)
class Figure1:
    """The graphs of all losses of a perceptron, and their sizes for a deep network as well.

    Attributes:
        width: The width of the `QuadraticResNet`, which does not change its graphs.
        rows: How many examples a loss is of, which does not either.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    width: int = 2
    rows: int = 2
    title: str = field(default="Figure 1: the computing graphs of an update step", repr=False)
    provenance: str = field(
        default="Figure 1, which sketches the graphs of SSM and FD-SSM; Sec. 2.2 and 4. Here they "
        "are those that autograd records of the loss of a perceptron with two hidden layers of "
        "softplus, without the backward pass to the parameters, which walks through each node "
        "once. Parallel evaluations are one batch and so one forward pass in the graph; three "
        "beside each other, as the paper draws them, are those of FD-SSM*, one by one. "
        "Taylor-SSM, SSMVR and (FD-)DSM are additions, and so are the counts for the network of "
        "Table 2.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return the graphs for the perceptron, and nodes and depths for both networks."""
        models = self._models(seed)
        numbers: dict[str, Measurement] = {}
        graphs: list[Graph] = []
        names = list(OBJECTIVES)
        for i in progress(range(len(names))):
            for network, (model, shape) in models.items():
                x = torch.zeros(self.rows, *shape, dtype=torch.float64, device=store.device)
                loss = _loss(OBJECTIVES[names[i]], model.to(x), x, seed)
                graph = graph_of(f"{names[i]}, {network}", loss)
                numbers |= _sizes(graph, loss)
                graphs += [graph] if network == "perceptron" else []
        return Findings(numbers, graphs=tuple(graphs))

    def _models(self, seed: int) -> dict[str, tuple[nn.Module, torch.Size]]:
        image = torch.Size([1, 32, 32])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "figure1", "weights"))
            return {
                "perceptron": (perceptron(), torch.Size([2])),
                "ResNet": (QuadraticResNet(image, self.width, gain=1.8), image),
            }


def _loss(objective: Objective, f: DensityFunction, x: Tensor, seed: int) -> Tensor:
    generator = Generator(x.device).manual_seed(derived_seed(seed, "figure1", "noise"))
    return objective(f, x, generator=generator).mean()


def _sizes(graph: Graph, loss: Tensor) -> dict[str, Measurement]:
    by_hand = sum(isinstance(node, BackwardCFunction) for node in recorded_nodes(loss))
    leaves = sum(name in {"parameter", "data"} for name in graph.nodes)
    settings = {"of them parameters or data": leaves, "of them written by hand": by_hand}
    return {
        f"nodes, {graph.name}": Measurement(len(graph.nodes), settings=settings),
        f"depth, {graph.name}": Measurement(depth_of(graph), settings={"of": "longest path"}),
    }


STUDY = Figure1()
"""A narrow network: its graphs are those of a wide one."""

PAPER = Figure1(width=128)
"""The published width."""
