"""The Inception network of the Fréchet inception distance (FID).

This is the network of 2015 with which FID was defined, in the PyTorch version that most papers
use. It differs from the network of torchvision in its weights and in three pooling layers. The
weights are not part of this library. They are the file `pt_inception-2015-12-05-6726825d.pth` of
the pytorch-fid project.

The tests check the architecture: the number of parameters, the names and shapes of all tensors,
and values with random weights against torchvision with its pooling replaced. They do not check
values with the real weights.
"""

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from fdsm.evaluation import Features

WEIGHTS = "pt_inception-2015-12-05-6726825d.pth, from the releases of pytorch-fid"


def inception_features(weights: Path) -> Features:
    """Return the features of FID: the last average pool, 2048 numbers.

    Images are resized to 299 × 299, bilinearly and without anti-aliasing, and scaled to the range
    from -1 to 1, as in pytorch-fid. Gray images are repeated to three channels.

    Args:
        weights: The file with the weights, see the module.

    Returns:
        The features. Their name contains the first digits of the SHA-256 of the file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file has the weights of another network.
    """
    weights = Path(weights)
    if not weights.is_file():
        raise FileNotFoundError(f"{weights} does not exist: FID needs {WEIGHTS}")
    state = torch.load(weights, map_location="cpu", weights_only=True)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
    network = Inception(f"Inception v3 of 2015, pool3, weights {digest}")
    network.load_state_dict(_matching(state, network, weights))
    return network.eval().requires_grad_(False)


class Inception(nn.Module):
    """The convolutional part of Inception v3 with the pooling of the network of 2015.

    The modules are named as in the file of weights.

    Attributes:
        name: Name of the features in the settings of a measurement.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.layers = nn.ModuleDict({
            "Conv2d_1a_3x3": _conv(3, 32, 3, stride=2),
            "Conv2d_2a_3x3": _conv(32, 32, 3, padded=False),
            "Conv2d_2b_3x3": _conv(32, 64, 3),
            "pool1": nn.MaxPool2d(3, 2),
            "Conv2d_3b_1x1": _conv(64, 80, 1),
            "Conv2d_4a_3x3": _conv(80, 192, 3, padded=False),
            "pool2": nn.MaxPool2d(3, 2),
            "Mixed_5b": _block_a(192, 32),
            "Mixed_5c": _block_a(256, 64),
            "Mixed_5d": _block_a(288, 64),
            "Mixed_6a": _block_b(),
            "Mixed_6b": _block_c(128),
            "Mixed_6c": _block_c(160),
            "Mixed_6d": _block_c(160),
            "Mixed_6e": _block_c(192),
            "Mixed_7a": _block_d(),
            "Mixed_7b": _block_e(1280, _average()),
            "Mixed_7c": _block_e(2048, nn.MaxPool2d(3, 1, padding=1)),
        })
        self.float()

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of images from 0 to 1, `(B, 1 or 3, H, W) -> (B, 2048)`."""
        x = images.float().expand(-1, 3, -1, -1)
        x = 2 * nn.functional.interpolate(x, (299, 299), mode="bilinear") - 1
        for layer in self.layers.values():
            x = layer(x)
        return x.mean((2, 3))


class _Block(nn.Module):
    """Parallel branches, each a sequence of layers by name; their outputs are concatenated."""

    def __init__(self, branches: str, **layers: nn.Module) -> None:
        super().__init__()
        self.branches = [branch.split() for branch in branches.split(",")]
        self.layers = nn.ModuleDict(layers)

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for branch in self.branches:
            y = x
            for name in branch:
                y = self.layers[name](y)
            outputs.append(y)
        return torch.cat(outputs, 1)


def _conv(
    into: int,
    out: int,
    height: int,
    width: int | None = None,
    *,
    stride: int = 1,
    padded: bool = True,
) -> nn.Module:
    """Return convolution, batch norm and ReLU. Strided convolutions have no padding."""
    kernel = height, width or height
    around = (kernel[0] // 2, kernel[1] // 2) if padded and stride == 1 else (0, 0)
    layer = nn.Sequential()
    layer.add_module("conv", nn.Conv2d(into, out, kernel, stride, around, bias=False))
    layer.add_module("bn", nn.BatchNorm2d(out, eps=1e-3))
    layer.add_module("relu", nn.ReLU())
    return layer


def _average() -> nn.Module:
    return nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)


def _block_a(into: int, pooled: int) -> nn.Module:
    return _Block(
        "branch1x1, branch5x5_1 branch5x5_2, branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3,"
        "pool branch_pool",
        branch1x1=_conv(into, 64, 1),
        branch5x5_1=_conv(into, 48, 1),
        branch5x5_2=_conv(48, 64, 5),
        branch3x3dbl_1=_conv(into, 64, 1),
        branch3x3dbl_2=_conv(64, 96, 3),
        branch3x3dbl_3=_conv(96, 96, 3),
        pool=_average(),
        branch_pool=_conv(into, pooled, 1),
    )


def _block_b() -> nn.Module:
    return _Block(
        "branch3x3, branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3, pool",
        branch3x3=_conv(288, 384, 3, stride=2),
        branch3x3dbl_1=_conv(288, 64, 1),
        branch3x3dbl_2=_conv(64, 96, 3),
        branch3x3dbl_3=_conv(96, 96, 3, stride=2),
        pool=nn.MaxPool2d(3, 2),
    )


def _block_c(width: int) -> nn.Module:
    return _Block(
        "branch1x1, branch7x7_1 branch7x7_2 branch7x7_3,"
        "branch7x7dbl_1 branch7x7dbl_2 branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5,"
        "pool branch_pool",
        branch1x1=_conv(768, 192, 1),
        branch7x7_1=_conv(768, width, 1),
        branch7x7_2=_conv(width, width, 1, 7),
        branch7x7_3=_conv(width, 192, 7, 1),
        branch7x7dbl_1=_conv(768, width, 1),
        branch7x7dbl_2=_conv(width, width, 7, 1),
        branch7x7dbl_3=_conv(width, width, 1, 7),
        branch7x7dbl_4=_conv(width, width, 7, 1),
        branch7x7dbl_5=_conv(width, 192, 1, 7),
        pool=_average(),
        branch_pool=_conv(768, 192, 1),
    )


def _block_d() -> nn.Module:
    return _Block(
        "branch3x3_1 branch3x3_2,branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 branch7x7x3_4, pool",
        branch3x3_1=_conv(768, 192, 1),
        branch3x3_2=_conv(192, 320, 3, stride=2),
        branch7x7x3_1=_conv(768, 192, 1),
        branch7x7x3_2=_conv(192, 192, 1, 7),
        branch7x7x3_3=_conv(192, 192, 7, 1),
        branch7x7x3_4=_conv(192, 192, 3, stride=2),
        pool=nn.MaxPool2d(3, 2),
    )


def _block_e(into: int, pool: nn.Module) -> nn.Module:
    return _Block(
        "branch1x1, branch3x3_1 branch3x3_2a, branch3x3_1 branch3x3_2b,"
        "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3a,"
        "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3b, pool branch_pool",
        branch1x1=_conv(into, 320, 1),
        branch3x3_1=_conv(into, 384, 1),
        branch3x3_2a=_conv(384, 384, 1, 3),
        branch3x3_2b=_conv(384, 384, 3, 1),
        branch3x3dbl_1=_conv(into, 448, 1),
        branch3x3dbl_2=_conv(448, 384, 3),
        branch3x3dbl_3a=_conv(384, 384, 1, 3),
        branch3x3dbl_3b=_conv(384, 384, 3, 1),
        pool=pool,
        branch_pool=_conv(into, 192, 1),
    )


def _matching(state: dict[str, Tensor], network: nn.Module, path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file under the names of the network, if they fit."""
    own = network.state_dict()
    names = {name.replace("layers.", ""): name for name in own}
    needed = {name for name in names if not name.endswith("num_batches_tracked")}
    missing, classes = needed - state.keys(), len(state.get("fc.weight", ()))
    if missing or classes != 1008:
        raise ValueError(
            f"{path} is not the Inception network of 2015: {len(missing)} of its {len(needed)} "
            f"tensors are missing, and it has {classes} classes instead of 1008 (that of "
            f"torchvision has 1000). FID needs {WEIGHTS}"
        )
    return own | {names[name]: tensor for name, tensor in state.items() if name in names}
