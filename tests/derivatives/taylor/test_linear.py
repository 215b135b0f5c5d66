"""Linear functions act on every coefficient alike, whatever their arguments."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Jet, MissingRule, Taylor, linear
from tests.derivatives.taylor.agreement import assert_agrees, assert_rule, names_of_rules

Rule = Callable[[Tensor], Tensor]
SHAPE = (2, 3, 4)


def constant(*shape: int) -> Tensor:
    """Return a tensor that is the same for the same shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 100 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def image(x: Tensor, *shape: int) -> Tensor:
    """Return the elements of a small tensor, several times, in another shape."""
    times = -(-torch.Size(shape).numel() // x.numel())
    return x.reshape(-1).repeat(times)[: torch.Size(shape).numel()].view(shape)


C, F = constant, functional
INDEX = torch.tensor([1, 0, 1])
MASK = constant(2, 3, 4) > 0.2
CASES: dict[str, tuple[Rule, ...]] = {
    "conv1d": (
        lambda x: F.conv1d(x, C(5, 3, 2), C(5)),
        lambda x: F.conv1d(x, C(5, 3, 3), None, padding="same", dilation=2),
        lambda x: F.conv1d(x, C(6, 1, 2), C(6), stride=2, padding=1, groups=3),
        lambda x: F.conv1d(x[0], C(5, 3, 2), bias=C(5)),
        lambda x: torch.conv1d(x.mT, C(5, 4, 1)),
    ),
    "conv2d": (
        lambda x: F.conv2d(x[:, None], C(5, 1, 2, 3), C(5), padding=(1, 0)),
        lambda x: F.conv2d(image(x, 2, 4, 5, 5), C(6, 2, 3, 3), C(6), 2, 1, 2, 2),
        lambda x: F.conv2d(x, C(4, 2, 2, 2), C(4)),
    ),
    "conv3d": (
        lambda x: F.conv3d(image(x, 2, 2, 3, 3, 3), C(3, 2, 2, 2, 2), C(3), padding=1),
        lambda x: F.conv3d(x[None], C(3, 1, 1, 2, 2), C(3)),
    ),
    "conv_transpose1d": (
        lambda x: F.conv_transpose1d(x, C(3, 5, 2), C(5), stride=2, output_padding=1),
        lambda x: F.conv_transpose1d(x[0], C(3, 5, 2), C(5)),
    ),
    "conv_transpose2d": (
        lambda x: F.conv_transpose2d(image(x, 2, 4, 3, 3), C(4, 2, 3, 3), C(4), 2, 1, 1, 2),
        lambda x: F.conv_transpose2d(x, C(2, 3, 2, 2)),
    ),
    "conv_transpose3d": (
        lambda x: F.conv_transpose3d(image(x, 1, 2, 2, 3, 2), C(2, 3, 2, 2, 2), C(3), dilation=2),
    ),
    "avg_pool1d": (
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.avg_pool1d(x[0], 3, 1, 1, True, False),
    ),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x[:, None], 2, 1),
        lambda x: F.avg_pool2d(x, (2, 3), stride=1, padding=(1, 1), count_include_pad=False),
        lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3),
    ),
    "avg_pool3d": (
        lambda x: F.avg_pool3d(image(x, 1, 2, 3, 3, 3), 2, 1),
        lambda x: F.avg_pool3d(x[None], (1, 2, 2)),
    ),
    "adaptive_avg_pool1d": (
        lambda x: F.adaptive_avg_pool1d(x, 3),
        lambda x: F.adaptive_avg_pool1d(x[0], 1),
    ),
    "adaptive_avg_pool2d": (
        lambda x: F.adaptive_avg_pool2d(x[:, None], (2, None)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
    ),
    "adaptive_avg_pool3d": (
        lambda x: F.adaptive_avg_pool3d(image(x, 1, 2, 3, 3, 3), 2),
        lambda x: F.adaptive_avg_pool3d(x[None], (1, 2, 3)),
    ),
    "interpolate": (
        lambda x: F.interpolate(x, 7),
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        lambda x: F.interpolate(x, 6, mode="nearest-exact"),
        lambda x: F.interpolate(x[:, None], (5, 6), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x[:, None], scale_factor=(2, 1.5), mode="bicubic"),
        lambda x: F.interpolate(x[:, None], (2, 2), mode="bilinear", antialias=True),
        lambda x: F.interpolate(x[:, None], size=(2, 3), mode="area"),
        lambda x: F.interpolate(x[:, None, None], scale_factor=2, mode="trilinear"),
        lambda x: F.interpolate(x, scale_factor=1.3, mode="linear", recompute_scale_factor=True),
    ),
    "fold": (
        lambda x: F.fold(x.reshape(2, 4, 3), (2, 4), (2, 2)),
        lambda x: F.fold(x[0].reshape(4, 3), (2, 4), 2),
    ),
    "unfold": (
        lambda x: F.unfold(x[:, None], 2),
        lambda x: F.unfold(x, (2, 3), padding=1, stride=2, dilation=1),
        lambda x: x.unfold(2, 3, 1),
        lambda x: x.unfold(-2, 2, 1),
        lambda x: x.unfold(dimension=0, size=1, step=1),
    ),
    "grid_sample": (
        lambda x: F.grid_sample(x[:, None], C(2, 3, 3, 2).tanh(), align_corners=False),
        lambda x: F.grid_sample(
            x[:, None], C(2, 3, 3, 2), "nearest", "border", align_corners=True
        ),
    ),
    "channel_shuffle": (lambda x: F.channel_shuffle(x.mT[:, :, :, None], 2),),
    "pixel_shuffle": (
        lambda x: F.pixel_shuffle(x.mT[:, :, :, None], 2),
        lambda x: torch.pixel_shuffle(x.mT[0, :, :, None], 2),
    ),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[:, None, :2], 2),),
    "cumsum": (
        lambda x: x.cumsum(1),
        lambda x: torch.cumsum(x, dim=-1),
        lambda x: torch.cumsum(x, axis=0),
        lambda x: x.clone().cumsum_(2),
    ),
    "diag": (
        lambda x: torch.diag(x[0]),
        lambda x: x[0].diag(1),
        lambda x: x[0, 0].diag(),
        lambda x: x[0, 0].diag(diagonal=-1),
    ),
    "diag_embed": (lambda x: torch.diag_embed(x), lambda x: x.diag_embed(1, 0, 2)),
    "diagonal": (
        lambda x: torch.diagonal(x),
        lambda x: x.diagonal(1, 1, 2),
        lambda x: x.diagonal(offset=-1, dim1=-1, dim2=0),
        lambda x: written(x, lambda y: y.diagonal(dim1=1, dim2=2).add_(x[0, 0, :3])),
    ),
    "linalg_diagonal": (
        lambda x: torch.linalg.diagonal(x),
        lambda x: torch.linalg.diagonal(x, offset=1, dim1=0),
    ),
    "diagonal_scatter": (
        lambda x: torch.diagonal_scatter(x, x[:, 0, :3].sin(), dim1=1, dim2=2),
        lambda x: torch.diagonal_scatter(x[0], C(3), 1),
    ),
    "select_scatter": (
        lambda x: torch.select_scatter(x, C(2, 4), 1, 0),
        lambda x: torch.select_scatter(C(2, 3, 4), x[0].sin(), dim=0, index=1),
    ),
    "slice_scatter": (
        lambda x: torch.slice_scatter(x, x[:, :2].sin(), 1, 0, 2),
        lambda x: torch.slice_scatter(C(2, 3, 4), x[..., :2], dim=2, start=1, end=4, step=2),
    ),
    "diff": (
        lambda x: x.diff(),
        lambda x: torch.diff(x, 2, 1),
        lambda x: torch.diff(x, dim=0, prepend=C(1, 3, 4), append=x[:1].sin()),
        lambda x: torch.diff(C(2, 3, 4), prepend=x[:, :, :1].sin()),
    ),
    "flip": (lambda x: x.flip(0, 2), lambda x: torch.flip(x, [1]), lambda x: x.flip(-1)),
    "fliplr": (lambda x: x.fliplr(),),
    "flipud": (lambda x: x.flipud(),),
    "gather": (
        lambda x: x.gather(2, torch.tensor([[[0, 3, 3], [1, 1, 0]]])),
        lambda x: torch.gather(x, -2, torch.tensor([[[0, 2, 2, 1]]])),
    ),
    "take": (lambda x: x.take(torch.tensor([[0, 23], [5, 5]])),),
    "take_along_dim": (
        lambda x: torch.take_along_dim(x, torch.tensor([[[0], [3], [1]]]), 2),
        lambda x: x.take_along_dim(torch.tensor([7, 7])),
    ),
    "movedim": (
        lambda x: x.movedim(0, 2),
        lambda x: torch.movedim(x, (0, -1), (-1, 0)),
        lambda x: written(x, lambda y: y.movedim(0, 1)[0].add_(x[0, 0])),
    ),
    "moveaxis": (lambda x: torch.moveaxis(x, 1, -1),),
    "repeat_interleave": (
        lambda x: x.repeat_interleave(2),
        lambda x: torch.repeat_interleave(x, 3, dim=-1),
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 0, 2]), dim=1),
        lambda x: x.repeat_interleave(torch.tensor([1, 2]), 0, output_size=3),
    ),
    "roll": (
        lambda x: x.roll(2),
        lambda x: torch.roll(x, (1, -1), (0, 2)),
        lambda x: x.roll(shifts=1, dims=-1),
    ),
    "rot90": (lambda x: x.rot90(), lambda x: torch.rot90(x, 3, [0, 2])),
    "trace": (lambda x: x[0].trace(),),
    "tril": (lambda x: x.tril(), lambda x: torch.tril(x, -1)),
    "triu": (lambda x: x.triu(1), lambda x: x.clone().triu_()),
    "index_add": (
        lambda x: x.index_add(1, INDEX, x.sin(), alpha=0.3),
        lambda x: torch.index_add(C(2, 5, 4), -2, INDEX, x),
        lambda x: x.index_add(1, INDEX, C(2, 3, 4)),
        lambda x: x.sin().index_add_(1, INDEX, x),
    ),
    "index_copy": (
        lambda x: x.index_copy(1, INDEX[:2], x[:, 1:].sin()),
        lambda x: torch.index_copy(C(2, 5, 4), 1, INDEX[:2], x[:, :2]),
    ),
    "index_fill": (
        lambda x: x.index_fill(1, INDEX, 2.5),
        lambda x: x.index_fill(2, INDEX, torch.tensor(2.0)),
        lambda x: x.index_fill(2, INDEX, x[0, 0, 0]),
    ),
    "index_put": (
        lambda x: x.index_put((INDEX[:2], INDEX[:2]), x[0, 0].sin()),
        lambda x: torch.index_put(x, (INDEX[:2],), x.sin(), accumulate=True),
        lambda x: C(2, 3, 4).index_put((INDEX[:2],), x[0, 0, 0]),
    ),
    "put": (
        lambda x: x.put(torch.tensor([3, 8]), x[0, 0, :2].sin()),
        lambda x: torch.put(C(2, 3, 4), torch.tensor([3, 3]), x[0, 0, :2], accumulate=True),
    ),
    "scatter": (
        lambda x: x.scatter(2, torch.tensor([[[0, 2]]]), x[:1, :1, :2].sin()),
        lambda x: torch.scatter(x, 1, torch.tensor([[[0, 2]]]), 3.0),
        lambda x: torch.scatter(x, 1, torch.tensor([[[0, 2]]]), value=3.0),
        lambda x: C(2, 3, 4).scatter(0, torch.tensor([[[1, 0]]]), src=x[:1, :1, :2]),
        lambda x: x.sin().scatter_(0, torch.tensor([[[1, 1]]]), 1.0),
    ),
    "scatter_add": (
        lambda x: x.scatter_add(1, torch.tensor([[[2, 2], [2, 1]]]), x[:1, :2, :2].sin()),
        lambda x: torch.scatter_add(C(2, 3, 4), -1, torch.tensor([[[2, 2, 0]]]), x[:1, :1, :3]),
        lambda x: torch.zeros_like(x).scatter_add_(
            1, torch.tensor([[[2, 2], [2, 1]]]), x[:1, :2, :2].sin()
        ),
    ),
    "masked_scatter": (
        lambda x: x.masked_scatter(MASK, x.sin().flip(0)),
        lambda x: C(2, 3, 4).masked_scatter(MASK, x),
    ),
    "masked_select": (
        lambda x: x.masked_select(MASK),
        lambda x: torch.masked_select(x, MASK[0, 0]),
        lambda x: torch.masked_select(x[0], MASK),
    ),
    "nan_to_num": (
        lambda x: torch.where(x > 0, x, float("inf")).nan_to_num(posinf=2.0),
        lambda x: x.nan_to_num(),
    ),
    "sum": (
        lambda x: x.sum(),
        lambda x: x.sum(1),
        lambda x: torch.sum(x, (0, -1), keepdim=True),
        lambda x: x.sum(axis=0),
        lambda x: x.sum(dim=[]),
        lambda x: x.sum(dim=[1, 2], dtype=torch.float64),
        lambda x: x[0, 0, 0].sum(),
        lambda x: x[0, 0, 0].sum(0),
        lambda x: x.sum(None, True),
        lambda x: written(x, lambda y: y[0, 0, 0].sum().add_(1)),
        lambda x: written(x, lambda y: y[0, 0, 0].sum(0, dtype=torch.float64).add_(1)),
    ),
    "mean": (
        lambda x: x.mean(),
        lambda x: x.mean((0, 1)),
        lambda x: x.mean(dim=-1, keepdim=True),
        lambda x: x.mean(axis=(0, 2), keepdims=True),
        lambda x: torch.mean(x, 1, dtype=torch.float64),
        lambda x: written(x, lambda y: y[0, 0, 0].mean().add_(1)),
    ),
    "clone": (
        lambda x: x.clone(),
        lambda x: torch.clone(x[:, None], memory_format=torch.channels_last),
    ),
    "contiguous": (
        lambda x: x.mT.contiguous().view(-1),
        lambda x: x[:, None].contiguous(memory_format=torch.channels_last),
        lambda x: written(x, lambda y: y.contiguous().mul_(x[0, 0, 0])),
        lambda x: written(x, lambda y: y.mT.contiguous().mul_(x[0, 0, 0])),
        *(
            (lambda x, f=f, g=g: written(x, lambda y: f(g(y)).mul_(x[0, 0, 0])))
            for f in (
                lambda y: y.contiguous(memory_format=torch.channels_last),
                lambda y: y.contiguous(memory_format=torch.contiguous_format),
                lambda y: y.to(memory_format=torch.channels_last),
                lambda y: y.to(memory_format=torch.contiguous_format),
                lambda y: y.to(torch.float64, memory_format=torch.preserve_format),
                lambda y: y.double(memory_format=torch.channels_last),
                lambda y: y.to("cpu", copy=True, memory_format=torch.channels_last),
                lambda y: y.contiguous(),
            )
            for g in (
                lambda y: y[:, :2, None],
                lambda y: y[:, :, None].permute(0, 3, 1, 2),
                lambda y: y[:1].unflatten(2, (2, 2)).permute(0, 2, 3, 1),
            )
        ),
        lambda x: followed(x[:, None].contiguous(memory_format=torch.channels_last)),
        lambda x: followed(x[None].contiguous(memory_format=torch.channels_last)[0][None]),
        lambda x: followed(x[None].clone(memory_format=torch.channels_last)),
        lambda x: followed(x.mT.clone(memory_format=torch.contiguous_format)),
        lambda x: followed(x[None].to(memory_format=torch.channels_last)),
    ),
    "to": (
        lambda x: x.to(torch.float64),
        lambda x: x.to("cpu", copy=True),
        lambda x: x.to(x.sin()),
        lambda x: C(4).to(x) * x,
        lambda x: x * x.to(torch.int64),
        lambda x: x * x.to(dtype=torch.bool),
        lambda x: written(x, lambda y: y.to(torch.float64).mul_(x[0, 0, 0])),
        lambda x: x[:, None].to(memory_format=torch.channels_last),
    ),
    "type": (
        lambda x: x.type(torch.float64),
        lambda x: x * x.type(torch.LongTensor),
        lambda x: x if x.type() == "torch.DoubleTensor" else 2 * x,
    ),
    "type_as": (
        lambda x: x.type_as(C(1)),
        lambda x: x * C(4).type_as(x),
        lambda x: x * x.type_as(INDEX),
    ),
    "double": (lambda x: x.double(),),
    "cpu": (lambda x: x.cpu(),),
    "positive": (lambda x: +x, lambda x: torch.positive(x)),
}
ELSEWHERE = {"bfloat16", "float", "half", "cuda"}


def written(x: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """Return a copy of a tensor after something was written into it, or into its view."""
    y = x * 1.5
    write(y)
    return y.sin()


def followed(y: Tensor) -> Tensor:
    """Return a tensor after something was done to it if it is contiguous, and it otherwise."""
    z = y * 1.0 if y.is_contiguous() else y
    z.contiguous().mul_(2)
    return z


def test_all_rules_are_tested() -> None:
    assert names_of_rules(linear) == set(CASES) | ELSEWHERE


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, fs in CASES.items() for f in fs])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_agrees(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


def module(layer: nn.Module) -> nn.Module:
    """Return a layer with parameters that are the same every time."""
    generator = torch.Generator().manual_seed(1)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter, generator=generator)
    return layer


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (4, 5)),
        (lambda: nn.Conv1d(4, 4, 3, padding="same", padding_mode="circular"), (4, 5)),
        (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="reflect"), (2, 5, 4)),
        (lambda: nn.Conv2d(2, 4, (3, 2), dilation=(1, 2), padding_mode="replicate"), (2, 5, 4)),
        (lambda: nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), (3, 4, 4)),
        (lambda: nn.Conv3d(2, 2, 2, padding=1), (2, 3, 2, 3)),
        (lambda: nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1), (4, 3)),
        (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, groups=2), (4, 3, 3)),
        (lambda: nn.Bilinear(4, 4, 3), (4,)),
        (lambda: nn.Linear(4, 3), (2, 4)),
    ],
)
def test_layers_with_parameters(layer: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """Each is used twice, on series of degree one and two, with and without a batch."""
    f, x = module(layer()), constant(2, *shape)
    one = (lambda x: f(x, x.sin())) if isinstance(f, nn.Bilinear) else f
    both = lambda x: one(x) * one(x.sin()).cos()
    before = [p.detach().clone() for p in f.parameters()]
    assert_agrees(
        lambda x: both(x).flatten(1).sum(1), x, x, *f.parameters(), orders=(1, 2), directions=(2,)
    )
    assert_rule(both, x[0], *f.parameters())
    assert all(torch.equal(p, q) for p, q in zip(f.parameters(), before, strict=True))


def test_double_backward_through_layers() -> None:
    f = module(nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 1)))
    x, v = constant(2, 3, 2, 4)
    parameters, results = list(f.parameters()), []
    for engine in (Taylor(), Autodiff()):
        terms = engine.jet(lambda x: f(x)[:, 0], x, v, 2)
        first = torch.autograd.grad(
            terms[2].square().sum(), parameters, create_graph=True, materialize_grads=True
        )
        total = sum(g.sin().sum() for g in first)
        results.append((*first, *torch.autograd.grad(total, parameters, materialize_grads=True)))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda x: x.float(), torch.float32),
        (lambda x: x.half(), torch.float16),
        (lambda x: x.bfloat16(), torch.bfloat16),
        (lambda x: x.to(torch.float32), torch.float32),
        (lambda x: x.type("torch.FloatTensor"), torch.float32),
        (lambda x: x.sum(1, dtype=torch.float32), torch.float32),
        (lambda x: x.cumsum(1, dtype=torch.float32), torch.float32),
    ],
)
def test_conversions(convert: Rule, dtype: torch.dtype) -> None:
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(convert(x.square()))
        return seen[-1].reshape(2, -1).sum(1)

    value, slope = Taylor().jet(f, torch.ones(2, 3), torch.ones(2, 3), 1)
    assert seen[0].dtype == dtype
    assert value.dtype == slope.dtype == torch.float64, "results have the type of the data"
    assert isinstance(seen[0], Jet)
    assert torch.equal(2 * value, slope)


def test_conversion_to_integers_is_a_constant() -> None:
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.extend([x.long(), x.to(torch.int32), x.type(torch.bool), x.bool(), x.int()])
        return x.sum(1)

    Taylor().jet(f, torch.ones(2, 3), torch.ones(2, 3), 1)
    assert all(type(y) is Tensor and torch.equal(y, torch.ones(2, 3).to(y)) for y in seen)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: functional.conv1d(constant(1, 1, 3), x[:, None, :2]),
        lambda x: functional.conv1d(x[:, None], x[:, None, :2]),
        lambda x: functional.conv1d(x[:, None], constant(3, 1, 1), x[0]),
        lambda x: functional.grid_sample(constant(2, 1, 3, 3), x[:, None, None, :2]),
        lambda x: torch.scatter(x, 1, torch.tensor([[0]]), 3.0, reduce="multiply"),
        lambda x: x.as_strided((2, 3), (1, 1)),
        lambda x: torch.view_as_complex(x[:, :2]),
        lambda x: x.view(torch.int64),
        lambda x: torch.fft.rfft(x).real,
        lambda x: functional.embedding_bag(torch.tensor([[0, 1], [1, 0]]), x),
    ],
)
def test_what_is_refused(f: Rule) -> None:
    with pytest.raises(MissingRule, match="Taylor"):
        Taylor().jet(lambda x: f(x).reshape(2, -1).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
