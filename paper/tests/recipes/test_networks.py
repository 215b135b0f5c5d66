"""Settings of networks build the networks that they name."""

import pytest
import torch
from torch import nn

from fdsm.models import (
    GaussianTailMLP,
    QuadraticMLP,
    QuadraticResNet,
)
from paper.recipes import (
    MLP,
    ByShape,
    DensityUNet,
    GaussianTail,
    Network,
    ResNet,
)
from paper.recipes.unet import UNetDensity

ROW, IMAGE = torch.Size([3]), torch.Size([1, 8, 8])


@pytest.mark.parametrize(
    ("settings", "shape", "kind"),
    [
        (ResNet(2), IMAGE, QuadraticResNet),
        (MLP((4, 5)), ROW, QuadraticMLP),
        (GaussianTail((4,)), ROW, GaussianTailMLP),
        (ByShape(ResNet(2), MLP((4,))), ROW, QuadraticMLP),
        (ByShape(ResNet(2), MLP((4,))), IMAGE, QuadraticResNet),
        (DensityUNet(8), IMAGE, UNetDensity),
    ],
    ids=lambda value: type(value).__name__,
)
def test_network_has_the_named_class_and_one_value_per_event(
    settings: Network, shape: torch.Size, kind: type[nn.Module]
) -> None:
    model = settings.build(shape)
    assert type(model) is kind
    x = torch.randn(5, *shape)
    values = model(x, torch.ones(5)) if kind is UNetDensity else model(x)
    assert values.shape == (5,)


def test_widths_decide_the_layers() -> None:
    layers = [part for part in MLP((4, 5)).build(ROW).modules() if isinstance(part, nn.Linear)]
    assert [layer.in_features for layer in layers][:2] == [3, 4]
    assert layers[1].out_features == 5
