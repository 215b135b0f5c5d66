"""The residual network: its published size, and a second implementation."""

from collections.abc import Sequence

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from fdsm.models import QuadraticResNet, ShiftedSoftplus


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def published_size(channels: int, side: int, c: int) -> int:
    """The size by arithmetic: biases but in the first convolution of a block, no `c0`."""
    total = 9 * channels * c + c
    for before, after in [(1, 2), (2, 2), (2, 2), (2, 4), (4, 4), (4, 4), (4, 8), (8, 8), (8, 8)]:
        i, o = before * c, after * c
        total += 9 * i * i + (9 * i * o + o) + (i * o + o)
    features = 8 * c * (side // 8) ** 2
    return total + 2 * (features + 1) + features


def test_number_of_parameters_is_the_published_one() -> None:
    """62.34 million, less one for the constant that cannot be trained; 16.0 million for 128²."""
    with torch.device("meta"):
        mnist, imagenet = QuadraticResNet((1, 32, 32)), QuadraticResNet((3, 128, 128), width=64)
    assert count(mnist) == published_size(1, 32, 128) == 62_336_770
    assert count(imagenet) == published_size(3, 128, 64) == 15_969_282


def second_implementation(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """The network, from its weights in order."""
    take = iter(weights).__next__
    h = functional.conv2d(x, take(), take(), padding=1)
    for block in range(9):
        r = functional.conv2d(ShiftedSoftplus()(h), take(), padding=1)
        r = functional.conv2d(ShiftedSoftplus()(r), take(), take(), padding=1)
        if block % 3 == 0:
            r, h = functional.avg_pool2d(r, 2), functional.avg_pool2d(h, 2)
        h = r + functional.conv2d(h, take(), take())
    h = h.flatten(1)
    (a, b), (a0, b0), c = take(), take(), take()[0]
    return (h @ a + a0) * (h @ b + b0) + (h * h) @ c


def test_network_agrees_with_a_second_implementation(generator: Generator) -> None:
    model, x = QuadraticResNet((2, 16, 8), width=2), torch.randn(3, 2, 16, 8, generator=generator)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    torch.testing.assert_close(model(x), second_implementation(x, list(model.parameters())))


@pytest.mark.parametrize("shape", [(1, 28, 28), (8, 8), (1, 0, 8)])
def test_images_of_other_sizes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"multiples of 8.*pad or resize"):
        QuadraticResNet(shape, width=1)


def test_gain_scales_only_the_convolutions() -> None:
    states = []
    for gain in (1.0, 1.8):
        torch.manual_seed(0)
        states.append(QuadraticResNet((1, 8, 8), width=2, gain=gain).state_dict())
    for name, before in states[0].items():
        factor = 1.8 if before.ndim == 4 else 1.0
        torch.testing.assert_close(states[1][name], factor * before)
