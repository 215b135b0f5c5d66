"""The architecture of the FID network, without the real weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from paper.features import inception_features
from paper.features.inception import Inception


@pytest.fixture(scope="module")
def network() -> Inception:
    draw = torch.Generator().manual_seed(0)
    network = Inception("random").eval().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            scale = (2 / module.weight[0].numel()) ** 0.5
            noise = torch.randn(module.weight.shape, generator=draw, dtype=torch.float64)
            module.weight.copy_(scale * noise)
    return network


def as_published(network: nn.Module, classes: int) -> dict[str, Tensor]:
    """The tensors under the names of the published file, which also has a last layer."""
    state = {name.replace("layers.", ""): t for name, t in network.state_dict().items()}
    return state | {"fc.weight": torch.zeros(classes, 2048), "fc.bias": torch.zeros(classes)}


def test_has_the_published_parameters(network: Inception) -> None:
    """Inception v3 has 23,834,568 without its auxiliary head, 2,049,000 of them in the last."""
    assert sum(p.numel() for p in network.parameters()) == 23_834_568 - 2_049_000
    state = as_published(network, 1008)
    assert state["Conv2d_1a_3x3.conv.weight"].shape == (32, 3, 3, 3)
    assert state["Mixed_5b.branch5x5_2.conv.weight"].shape == (64, 48, 5, 5)
    assert state["Mixed_6e.branch7x7dbl_5.conv.weight"].shape == (192, 192, 1, 7)
    assert state["Mixed_7c.branch3x3dbl_3b.bn.running_var"].shape == (384,)
    assert sum("conv.weight" in name for name in state) == 94


def test_maps_have_the_published_sizes(network: Inception) -> None:
    sizes: dict[str, tuple[int, ...]] = {}
    callbacks = [
        layer.register_forward_hook(
            lambda _, __, y, name=name: sizes.__setitem__(name, tuple(y.shape[1:]))
        )
        for name, layer in network.layers.items()
    ]
    gray = torch.rand(1, 1, 8, 8)
    features = network(gray)
    for callback in callbacks:
        callback.remove()
    assert sizes["Conv2d_1a_3x3"] == (32, 149, 149)
    assert sizes["pool1"] == (64, 73, 73)
    assert sizes["pool2"] == (192, 35, 35)
    assert sizes["Mixed_5d"] == (288, 35, 35)
    assert sizes["Mixed_6e"] == (768, 17, 17)
    assert sizes["Mixed_7a"] == (1280, 8, 8)
    assert sizes["Mixed_7c"] == (2048, 8, 8)
    assert features.shape == (1, 2048)
    torch.testing.assert_close(features, network(gray.expand(-1, 3, -1, -1)))


def test_values_agree_with_torchvision(network: Inception) -> None:
    """The numbers are torchvision's 0.28, its pooling replaced by that of 2015, same weights."""
    features = network(torch.linspace(0, 1, 192).view(1, 3, 8, 8))[0].double()
    assert features.mean().item() == pytest.approx(0.1966298669, rel=1e-4)
    assert features.std().item() == pytest.approx(0.2581002414, rel=1e-4)
    some = features[[500, 1000, 1500, 2000]].tolist()
    assert some == pytest.approx([0.29865038, 0.23625225, 0.31473038, 0.12526448], rel=1e-3)


def test_pooling_is_that_of_2015(network: Inception) -> None:
    """Averages leave out the padding; the last block takes the maximum instead."""
    ones = torch.ones(1, 1, 3, 3)
    for name in ("Mixed_5b", "Mixed_5d", "Mixed_6b", "Mixed_6e", "Mixed_7b"):
        pool = network.layers[name].layers["pool"]
        torch.testing.assert_close(pool(ones), ones)
        assert pool(ones.cumsum(3))[0, 0, 1].tolist() == [1.5, 2.0, 2.5]
    last = network.layers["Mixed_7c"].layers["pool"]
    assert last(ones.cumsum(3))[0, 0, 1].tolist() == [2.0, 3.0, 3.0]


def test_reads_a_file_of_weights(network: Inception, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    state = as_published(network, 1008)
    torch.save({k: v for k, v in state.items() if "num_batches_tracked" not in k}, path)
    features = inception_features(path)
    images = torch.rand(1, 3, 8, 8)
    assert torch.equal(features(images), network(images))
    assert features.name.startswith("Inception v3 of 2015, pool3, weights ")


def test_other_weights_are_refused(network: Inception, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="FID needs pt_inception-2015-12-05"):
        inception_features(tmp_path / "nothing.pth")
    path = tmp_path / "weights.pth"
    torch.save({"weight": torch.zeros(2)}, path)
    with pytest.raises(
        ValueError, match="470 of its 470 tensors are missing, and it has 0 classes"
    ):
        inception_features(path)
    names_only = {name: torch.zeros(1) for name in as_published(network, 1000)}
    torch.save(names_only | {"fc.weight": torch.zeros(1000, 1)}, path)
    with pytest.raises(ValueError, match="and it has 1000 classes instead of 1008"):
        inception_features(path)
