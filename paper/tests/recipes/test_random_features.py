import torch
from torch.nn import functional

from paper.recipes.random_features import RandomConvolutions


def test_features_agree_with_a_second_implementation() -> None:
    """Two strided convolutions with ReLU of the image in [-1, 1], averaged over pixels."""
    network, images = RandomConvolutions((4, 8)), torch.rand(5, 1, 8, 8)
    first, first_bias, second, second_bias = network.parameters()
    x = 2 * images.float().repeat(1, 3, 1, 1) - 1
    h = functional.conv2d(x, first, first_bias, stride=2, padding=1).relu()
    h = functional.conv2d(h, second, second_bias, stride=2, padding=1).relu()
    torch.testing.assert_close(network(images), h.mean((2, 3)))


def test_weights_have_the_variance_of_he_et_al() -> None:
    """The variance is 2 over the number of inputs, 9 · 64; biases are zero."""
    weight, bias = list(RandomConvolutions((64, 256)).parameters())[2:]
    assert abs(weight.var().item() * 9 * 64 / 2 - 1) < 5 * (2 / weight.numel()) ** 0.5
    assert not bias.any()
