"""RefineNet: its published size, second implementations of its parts, and noise levels."""

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from fdsm.models import RefineNet
from fdsm.models.refinenet import ConditionalInstanceNorm, _Refine, _Stage
from fdsm.noise import Geometric
from fdsm.objectives import Annealed

LEVELS = Geometric(1.0, 0.01, 3).levels


@pytest.mark.parametrize(
    ("channels", "width", "published"), [(3, 128, 30_117_635), (1, 64, 7_638_657)]
)
def test_number_of_parameters_is_the_published_one(
    channels: int, width: int, published: int
) -> None:
    with torch.device("meta"):
        model = RefineNet(channels, width)
    assert sum(p.numel() for p in model.parameters()) == published


def test_norm_agrees_with_its_formula(generator: Generator) -> None:
    norm, x = ConditionalInstanceNorm(4, 3), torch.randn(2, 4, 5, 6, generator=generator)
    nn.init.normal_(norm.embedding, generator=generator)
    means = x.mean((2, 3))
    spread = (means.var(1, unbiased=True, keepdim=True) + 1e-5).sqrt()
    means = (means - means.mean(1, keepdim=True)) / spread
    level = torch.tensor([2, 0])
    gamma, alpha, beta = norm.embedding[level].view(2, 3, 4, 1, 1).unbind(1)
    plain = functional.instance_norm(x)
    expected = gamma * (plain + alpha * means[:, :, None, None]) + beta
    torch.testing.assert_close(norm(x, level), expected)


def test_norm_starts_near_the_identity() -> None:
    gamma, alpha, beta = ConditionalInstanceNorm(500, 10).embedding.chunk(3, 1)
    for scales in (gamma, alpha):
        assert abs(scales.mean() - 1) < 5 * 0.02 / 5000**0.5
        assert abs(scales.std() / 0.02 - 1) < 0.05
    assert not beta.any()


def test_the_last_stages_dilate_instead_of_halving(generator: Generator) -> None:
    model, sizes = RefineNet(1, width=2, levels=LEVELS), []
    for stage in model.stages:
        stage.register_forward_hook(lambda *args: sizes.append(args[2].shape[1:]))
    model(torch.rand(1, 1, 12, 12, generator=generator), torch.tensor([1.0]))
    assert sizes == [(2, 12, 12), (4, 6, 6), (4, 6, 6), (4, 6, 6)]
    dilations = [
        {m.dilation[0] for m in stage.modules() if isinstance(m, nn.Conv2d)}
        for stage in model.stages
    ]
    assert dilations == [{1}, {1}, {2}, {4}]
    assert not [m for m in model.modules() if isinstance(m, nn.MaxPool2d)]


def test_refining_stage_agrees_with_a_second_implementation(generator: Generator) -> None:
    stage = _Refine([2, 3], 4, 1, nn.SiLU, last=3)
    for parameter in stage.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    fine = torch.randn(2, 2, 6, 6, generator=generator)
    coarse = torch.randn(2, 3, 3, 3, generator=generator)
    level = torch.zeros(2, dtype=torch.long)

    def normal(norm: ConditionalInstanceNorm, x: Tensor) -> Tensor:
        return norm(x, level)

    def residual(unit: nn.Module, x: Tensor, blocks: int) -> Tensor:
        layers = iter(unit.convolutions)
        for _ in range(blocks):
            h = x
            for layer in (next(layers), next(layers)):
                h = functional.silu(normal(layer.norm, h))
                h = functional.conv2d(h, layer.convolution.weight, padding=1)
            x = x + h
        assert not list(layers)
        return x

    total = torch.zeros(2, 4, 6, 6)
    for adapt, fuse, x in zip(stage.adapt, stage.fuse, (fine, coarse), strict=True):
        h = normal(fuse.norm, residual(adapt, x, 2))
        h = functional.conv2d(h, fuse.convolution.weight, fuse.convolution.bias, padding=1)
        total += functional.interpolate(h, (6, 6), mode="bilinear", align_corners=True)
    path = total = functional.silu(total)
    for pool in stage.pool:
        path = functional.avg_pool2d(normal(pool.norm, path), 5, stride=1, padding=2)
        path = functional.conv2d(path, pool.convolution.weight, padding=1)
        total = total + path
    expected = residual(stage.output, total, 3)
    torch.testing.assert_close(stage([fine, coarse], level), expected)


@pytest.mark.parametrize("kind", ["plain", "halving", "dilated"])
def test_residual_stage_agrees_with_a_second_implementation(
    kind: str, generator: Generator
) -> None:
    settings = {"halving": kind == "halving", "dilation": 2 if kind == "dilated" else 1}
    stage = _Stage(3, 3 if kind == "plain" else 5, 1, nn.SiLU, **settings)
    for parameter in stage.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    x, level = torch.randn(2, 3, 6, 6, generator=generator), torch.zeros(2, dtype=torch.long)
    dilation = settings["dilation"]

    def two_convolutions(block: nn.Module, h: Tensor) -> Tensor:
        for layer in (block.first, block.second):
            h = functional.silu(layer.norm(h, level))
            weight, bias = layer.convolution.weight, layer.convolution.bias
            h = functional.conv2d(h, weight, bias, padding=dilation, dilation=dilation)
        return h

    h, shortcut = two_convolutions(stage.first, x), x
    if kind == "dilated":
        weight, bias = stage.first.shortcut.parameters()
        shortcut = functional.conv2d(x, weight, bias, padding=2, dilation=2)
    if kind == "halving":
        shortcut = functional.conv2d(x, *stage.first.shortcut.parameters())
        h, shortcut = functional.avg_pool2d(h, 2), functional.avg_pool2d(shortcut, 2)
    h = h + shortcut
    torch.testing.assert_close(stage(x, level), h + two_convolutions(stage.second, h))


def test_refining_goes_from_coarse_to_fine(generator: Generator) -> None:
    model = RefineNet(1, width=2, levels=LEVELS)
    x, level = torch.rand(2, 1, 8, 8, generator=generator), torch.tensor([0, 2])
    one, two, three, four = model.stages
    a = one(model.first(2 * x - 1), level)
    b = two(a, level)
    c = three(b, level)
    h = model.refining[0]([four(c, level)], level)
    for refine, beside in zip(list(model.refining)[1:], (c, b, a), strict=True):
        h = refine([beside, h], level)
    norm, convolution = model.last.norm, model.last.convolution
    expected = convolution(functional.elu(norm(h, level)))
    torch.testing.assert_close(model(x, torch.tensor([1.0, 0.01])), expected)


def test_images_are_scaled_to_the_symmetric_interval(generator: Generator) -> None:
    """The input of the first convolution is `2x - 1`, zero for a gray image."""
    model, seen = RefineNet(1, width=2, levels=LEVELS), []
    model.first.register_forward_hook(lambda module, given, _: seen.append(given[0]))
    x = torch.rand(1, 1, 8, 8, generator=generator)
    model(x, torch.tensor([1.0]))
    torch.testing.assert_close(seen[0], 2 * x - 1)


def test_the_nearest_level_by_ratio_is_used(generator: Generator) -> None:
    model = RefineNet(1, width=2, levels=LEVELS)
    x = torch.rand(1, 1, 8, 8, generator=generator)
    known = [model(x, torch.tensor([sigma])) for sigma in LEVELS]
    assert not torch.equal(known[0], known[1])
    for sigma, level in [(5.0, 0), (0.35, 0), (0.3, 1), (0.1 + 1e-9, 1), (0.03, 2), (1e-6, 2)]:
        assert torch.equal(model(x, torch.tensor([sigma])), known[level])


def test_a_level_affects_only_its_example(generator: Generator) -> None:
    model = RefineNet(1, width=2, levels=LEVELS)
    x = torch.rand(3, 1, 8, 8, generator=generator)
    before = model(x, torch.tensor(LEVELS))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, ConditionalInstanceNorm):
                module.embedding[1] += 0.1
    changed = (model(x, torch.tensor(LEVELS)) != before).flatten(1).any(1)
    assert changed.tolist() == [False, True, False]


@pytest.mark.parametrize("side", [8, 9, 28, 32])
def test_images_of_any_size(side: int, generator: Generator) -> None:
    model = RefineNet(1, width=2, levels=LEVELS, activation=nn.SiLU)
    x = torch.rand(2, 1, side, side, generator=generator)
    loss = Annealed(levels=Geometric(1.0, 0.01, 3))(model, x, generator=generator)
    assert loss.shape == (2,)
    loss.mean().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_levels_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        RefineNet(1, 2, levels=(1.0, 0.0))
    with pytest.raises(ValueError, match="at least one"):
        RefineNet(1, 2, levels=())
