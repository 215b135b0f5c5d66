r"""Sizes of the computational graphs of score-matching losses (Figure 1).

The loss of SSM contains the gradient of a forward pass and the gradient of that gradient, one
after the other, and training differentiates through all of it. A finite-difference loss consists
of independent forward passes. A node is an operation that autograd recorded. The depth is the
number of nodes on the longest path, which have to be processed one after the other.

Up to second order, Taylor-mode derivatives use torch functions with a custom backward pass, where
one node stands for several operations. The settings of each count give the number of such nodes.
No loss here uses checkpointing, so nothing else hides operations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.autograd.function import BackwardCFunction

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.evaluation import Measurement
from fdsm.models import QuadraticResNet
from fdsm.objectives import DSM, SSM, SSMVR, SlicedDSM, ViaScore
from fdsm.projections import Gaussian, Sphere
from fdsm.samplers import Progress
from fdsm.training import derived_seed
from fdsm.typing import DensityFunction, Objective

from ..run_store import RunStore
from ..study import StudyResult
from ..support.autograd_graph import depth, leaf_of, recorded_nodes

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
"""The objectives. A star marks evaluation one by one, as in Table 2."""


def perceptron() -> nn.Module:
    """Return a small log-density in the plane."""
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
    """Number of nodes and depth of the graphs of all losses, for a perceptron and a ResNet.

    Attributes:
        width: Width of the `QuadraticResNet`. It does not change the graphs.
        rows: Number of examples in a loss. It does not change the graphs.
    """

    width: int = 2
    rows: int = 2
    provenance: ClassVar[str] = (
        "Figure 1 of the paper sketches the graphs of SSM and FD-SSM (see also Sec. 2.2 and 4). "
        "Here the nodes of the graphs are counted, for a perceptron with two hidden layers and "
        "softplus, and for the network of Table 2. The backward pass to the parameters is not "
        "included. It visits each node once. Parallel evaluations are one batch and therefore one "
        "forward pass in the graph. FD-SSM* evaluates one by one, with three forward passes side "
        "by side, as in the sketch. Taylor-SSM, SSMVR, DSM and FD-DSM are not in the figure."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return the sizes of the graphs for both networks."""
        models = self._models(seed)
        numbers: dict[str, Measurement] = {}
        names = list(OBJECTIVES)
        for i in progress(range(len(names))):
            for network, (model, shape) in models.items():
                x = torch.zeros(self.rows, *shape, dtype=torch.float64, device=store.device)
                loss = _loss(OBJECTIVES[names[i]], model.to(x), x, seed)
                numbers |= graph_sizes(f"{names[i]}, {network}", loss)
        return StudyResult(numbers)

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


def graph_sizes(name: str, loss: Tensor) -> dict[str, Measurement]:
    """Return the number of nodes and the depth of the graph of a loss."""
    nodes = recorded_nodes(loss)
    settings = {
        "of them parameters or data": sum(leaf_of(node) is not None for node in nodes),
        "of them written by hand": sum(isinstance(node, BackwardCFunction) for node in nodes),
    }
    return {
        f"nodes, {name}": Measurement(len(nodes), settings=settings),
        f"depth, {name}": Measurement(depth(nodes), settings={"of": "longest path"}),
    }


CPU = Figure1()
"""A narrow network. Its graphs are those of a wide one."""

PAPER = Figure1(width=128)
"""The published width."""
