"""The models of the library, with their inputs. A new model adds one row to `CASES`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fdsm.models import (
    DKEF,
    NICE,
    GaussianTailMLP,
    MeanOfMembers,
    MultiInputCNN,
    MultiInputMLP,
    NoiseConditionalEnsemble,
    QuadraticMLP,
    QuadraticResNet,
    RefineNet,
    ShiftedSoftplus,
)
from fdsm.noise import Geometric
from fdsm.objectives import SSM, SSMVR
from fdsm.projections import Sphere
from fdsm.typing import Derivative

BATCH = 4
LEVELS = Geometric(1.0, 0.1, BATCH).levels


def itself(model: nn.Module) -> Callable[..., Tensor]:
    return model


def solved(model: nn.Module) -> Callable[..., Tensor]:
    """A DKEF is a density once its coefficients are solved for."""
    assert isinstance(model, DKEF)
    draw = Generator().manual_seed(1)
    x = torch.randn(20, 5, generator=draw)
    return model.solve(x, torch.randn(20, 5, generator=draw))


@dataclass(frozen=True)
class Case:
    """A model, the shapes of its inputs, and its log-density or score as a function."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    is_score: bool = False
    conditions: tuple[tuple[int, ...], ...] = ()
    levels: bool = False
    smooth: bool = True
    step: float = 0.04  # small against the length scale, large against rounding
    function: Callable[[nn.Module], Callable[..., Tensor]] = itself

    def inputs(self, generator: Generator) -> tuple[Tensor, ...]:
        shapes = (self.shape, *self.conditions)
        drawn = [torch.randn(BATCH, *shape, generator=generator) for shape in shapes]
        return (*drawn, torch.tensor(LEVELS)) if self.levels else tuple(drawn)

    def loss(self, derivative: Derivative, radius: float) -> SSM | SSMVR:
        return (SSMVR if self.is_score else SSM)(derivative, Sphere(radius))


def refinenet(activation: Callable[[], nn.Module] = nn.SiLU) -> nn.Module:
    return RefineNet(2, width=4, levels=LEVELS, activation=activation)


CASES = {
    "mlp": Case(lambda: QuadraticMLP(5, (8, 6)), (5,)),
    "mlp of images": Case(lambda: QuadraticMLP((2, 3, 3), (8, 6), ShiftedSoftplus), (2, 3, 3)),
    "gaussian tail mlp": Case(lambda: GaussianTailMLP(5, (8, 6)), (5,)),
    "resnet": Case(lambda: QuadraticResNet((2, 8, 8), width=3), (2, 8, 8), step=1.0),
    "resnet, oblong": Case(lambda: QuadraticResNet((1, 8, 16), width=2), (1, 8, 16), step=1.0),
    "resnet, elu": Case(
        lambda: QuadraticResNet((1, 8, 8), width=3, activation=nn.ELU), (1, 8, 8), smooth=False
    ),
    "dkef": Case(
        lambda: DKEF(torch.randn(6, 5, generator=Generator().manual_seed(0)), features=7),
        (5,),
        function=solved,
    ),
    "noise-conditional ensemble": Case(
        lambda: MeanOfMembers(NoiseConditionalEnsemble(5, 3, 8)), (5,), levels=True
    ),
    "nice": Case(lambda: NICE(5, hidden=6, depth=2), (5,)),
    "nice of images": Case(lambda: NICE((1, 3, 4), hidden=6, depth=2), (1, 3, 4)),
    "score of z given x, mlp": Case(lambda: MultiInputMLP([5, (1, 4, 4)], 5, (8, 6)), (5,), True,
                                    conditions=((1, 4, 4),)),
    "score of z, mlp": Case(lambda: MultiInputMLP([5], 5, (8, 6)), (5,), True),
    "score of z given x, cnn": Case(
        lambda: MultiInputCNN([5, (2, 16, 16)], 5, side=16, width=2), (5,), True,
        conditions=((2, 16, 16),),
    ),
    "score of z, cnn": Case(lambda: MultiInputCNN([5], 5, side=16, width=2), (5,), True),
    "refinenet": Case(refinenet, (2, 8, 8), True, levels=True),
    "refinenet, elu": Case(
        lambda: refinenet(nn.ELU), (2, 7, 10), True, levels=True, smooth=False
    ),
    "refinenet, in place": Case(
        lambda: refinenet(lambda: nn.SiLU(inplace=True)), (2, 8, 8), True, levels=True
    ),
}  # fmt: skip
