import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.models import MultiInputCNN, MultiInputMLP


def test_mlp_concatenates_its_inputs(generator: Generator) -> None:
    model = MultiInputMLP([2, (1, 3)], 4, ())
    z, x = torch.randn(5, 2, generator=generator), torch.randn(5, 1, 3, generator=generator)
    expected = torch.cat([z, x[:, 0]], 1) @ model.network[0].weight.T + model.network[0].bias
    torch.testing.assert_close(model(z, x), expected)


def test_cnn_agrees_with_a_second_implementation(generator: Generator) -> None:
    """The vector becomes the first channel. There is no activation before flattening."""
    model = MultiInputCNN([3, (2, 16, 16)], 4, side=16, width=2)
    z, x = torch.randn(5, 3, generator=generator), torch.randn(5, 2, 16, 16, generator=generator)
    take = iter(model.parameters()).__next__
    softplus = nn.functional.softplus

    def convolution(h: Tensor) -> Tensor:
        return nn.functional.conv2d(h, take(), take(), stride=2, padding=2)

    plane = softplus(z @ take().T + take()).view(5, 1, 16, 16)
    h = torch.cat([plane, x], 1)
    for _ in range(3):
        h = softplus(convolution(h))
    h = convolution(h).flatten(1)
    h = softplus(h @ take().T + take()) @ take().T + take()
    torch.testing.assert_close(model(z, x), h)


def test_invalid_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"longer|shorter"):
        MultiInputCNN([3], 4, side=16, width=1)(torch.zeros(1, 3), torch.zeros(1, 3, 16, 16))
    with pytest.raises(ValueError, match=r"images of 16 × 16.*resize"):
        MultiInputCNN([(3, 8, 8)], 4, side=16)
    with pytest.raises(ValueError, match="multiple of 16"):
        MultiInputCNN([3], 4, side=20)
