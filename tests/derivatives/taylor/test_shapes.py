"""Tensors are cut, joined and written into as torch does it, views included."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import MissingRule, Taylor, shapes
from tests.derivatives.taylor.agreement import assert_rule, names_of_rules

Rule = Callable[[Tensor], Tensor]
SHAPE = (2, 3, 4)


def constant(*shape: int) -> Tensor:
    """Return a tensor that is the same for the same shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 100 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


C, F = constant, functional
MASK = constant(2, 3, 4) > 0.2
ROWS = torch.tensor([1, 0, 1])
INDICES = [
    0, -1, True, None, ..., slice(None, None, 2), slice(-2, None), MASK, MASK[:, :, 0], ROWS,
    [1, 0], torch.tensor(1), np.array([1, 0]), ROWS[None].expand(2, 3), np.int64(1), range(2),
    (0, 1), (0, slice(1, 3)), (slice(None), -1), (slice(None), slice(2, 0, None)), (..., 0),
    (0, ..., 1), (None, 0), (0, None, 1), (slice(None), None, slice(None, None, 2)), (),
    (slice(None), [2, 0]), (slice(None), ROWS), (..., ROWS), (slice(None), slice(None), ROWS),
    (slice(None), MASK[0, :, 0]), (slice(None), MASK[0]), (ROWS, ROWS), ([0, 1], [2, 0]),
    (ROWS, slice(None), ROWS), (ROWS, slice(1, 3), ROWS), (0, slice(None), ROWS), (0, ROWS),
    (ROWS, 0), (slice(None), 0, ROWS), (slice(None), ROWS, ROWS), (ROWS, None, ROWS),
    (ROWS[:, None], torch.tensor([[0, 2]])), (..., ROWS, ROWS), (MASK[:, 0, 0], 1),
    (torch.tensor(0), ROWS), (torch.tensor(0), torch.tensor(1)), (0, MASK[0]), (0, 1, 2),
    (np.int64(0), 1), (np.array(1), torch.tensor(0), ..., 2), (True, 0), (torch.tensor(True), 0),
    (slice(None), MASK[0, :, 0], 1), (False,), (ROWS, ..., 0), ([True, False],),
]  # fmt: skip
CASES: dict[str, tuple[Rule, ...]] = {
    "__getitem__": tuple((lambda x, i=i: x[i]) for i in INDICES),
    "__setitem__": tuple(
        (lambda x, i=i: written(x, lambda y: y.__setitem__(i, 2.5)))
        for i in INDICES
        if i is not False
    ),
    "reshape": (
        lambda x: x.reshape(6, 4),
        lambda x: torch.reshape(x, (-1,)),
        lambda x: x.reshape(shape=(4, 6)),
        lambda x: x.mT.reshape([-1, 2]),
        lambda x: x[0, 0, 0].reshape(()),
        lambda x: x.reshape(np.int64(6), -1),
    ),
    "view": (
        lambda x: x.view(6, 4),
        lambda x: x.view(-1),
        lambda x: x.view(torch.Size([4, 6])),
        lambda x: x.view(size=(3, 8)),
        lambda x: written(x, lambda y: y.view(-1)[3].add_(x[0, 0, 0])),
    ),
    "view_as": (lambda x: x.view_as(C(6, 4)), lambda x: C(24).view_as(x) * x),
    "reshape_as": (lambda x: x.reshape_as(C(6, 4)),),
    "flatten": (
        lambda x: x.flatten(),
        lambda x: x.flatten(1),
        lambda x: torch.flatten(x, 0, 1),
        lambda x: x.flatten(start_dim=-2, end_dim=-1),
        lambda x: x[0, 0, 0].flatten(),
        lambda x: x[0, 0].flatten(),
        lambda x: x.flatten(1, 1),
    ),
    "ravel": (lambda x: x.ravel(),),
    "unflatten": (
        lambda x: x.unflatten(2, (2, 2)),
        lambda x: torch.unflatten(x, -1, (2, -1)),
        lambda x: x.unflatten(0, [2, 1]),
    ),
    "squeeze": (
        lambda x: x[:, None, :1].squeeze(),
        lambda x: x[:, None].squeeze(1),
        lambda x: x[:, :1, :1].squeeze((1, -1)),
        lambda x: x.squeeze(0),
        lambda x: torch.squeeze(x[..., None], dim=-1),
    ),
    "unsqueeze": (
        lambda x: x.unsqueeze(0),
        lambda x: x.unsqueeze(-1),
        lambda x: torch.unsqueeze(x, dim=-3),
        lambda x: x.unsqueeze(3),
    ),
    "transpose": (
        lambda x: x.transpose(0, 2),
        lambda x: x.transpose(-1, -2),
        lambda x: torch.transpose(x, dim0=1, dim1=0),
        lambda x: written(x, lambda y: y.transpose(0, 1)[0].add_(x[0, 0])),
    ),
    "swapaxes": (
        lambda x: x.swapaxes(0, 1),
        lambda x: x.swapaxes(axis0=0, axis1=-1),
        lambda x: torch.swapaxes(x, axis1=2, axis0=1),
    ),
    "swapdims": (lambda x: torch.swapdims(x, 1, 2),),
    "t": (lambda x: x[0].t(), lambda x: x[0, 0].t(), lambda x: torch.t(x[1])),
    "T": (lambda x: x[0].T, lambda x: x[0, 0].view(4, 1).T),
    "H": (lambda x: x[0].H,),
    "mT": (lambda x: x.mT, lambda x: x[0].mT),
    "mH": (lambda x: x.mH,),
    "adjoint": (lambda x: x.adjoint(),),
    "permute": (
        lambda x: x.permute(2, 0, 1),
        lambda x: x.permute((1, -1, 0)),
        lambda x: torch.permute(x, dims=(-1, -2, -3)),
    ),
    "expand": (
        lambda x: x[:, None].expand(2, 5, 3, 4),
        lambda x: x[:, :1].expand(-1, 3, -1),
        lambda x: x.expand((5, -1, -1, 4)),
        lambda x: x[0, 0, 0].expand(3),
        lambda x: x[0, 0, 0].expand(size=(3, 1)),
    ),
    "broadcast_to": (lambda x: torch.broadcast_to(x[0], (2, 3, 4)),),
    "expand_as": (lambda x: x[0].expand_as(x), lambda x: C(4).expand_as(x) * x),
    "broadcast_tensors": (
        lambda x: torch.broadcast_tensors(x, C(5, 1, 1, 1), x[0, 0]),
        lambda x: torch.broadcast_tensors(C(4, 2, 1, 1), x[:, :1]),
    ),
    "repeat": (
        lambda x: x.repeat(2, 1, 3),
        lambda x: x.repeat((2, 2, 1, 1)),
        lambda x: x[0, 0].repeat(3, 2),
        lambda x: x.repeat(repeats=(1, 2, 1)),
    ),
    "tile": (lambda x: x.tile(2), lambda x: torch.tile(x, (2, 1, 2, 1)), lambda x: x.tile(2, 3)),
    "chunk": (
        lambda x: x.chunk(2),
        lambda x: torch.chunk(x, 3, dim=-1),
        lambda x: x.chunk(chunks=2, dim=1),
    ),
    "unsafe_chunk": (lambda x: x.unsafe_chunk(2, 1),),
    "split": (
        lambda x: x.split(2, 2),
        lambda x: torch.split(x, [1, 3], dim=-1),
        lambda x: x.split((1, 2), 1),
        lambda x: x.split(split_size=1),
    ),
    "unsafe_split": (lambda x: x.unsafe_split(2, -1),),
    "split_with_sizes": (lambda x: x.split_with_sizes([1, 2], dim=1),),
    "unsafe_split_with_sizes": (lambda x: x.unsafe_split_with_sizes([1, 2], 1),),
    "tensor_split": (
        lambda x: x.tensor_split(3, dim=2),
        lambda x: torch.tensor_split(x, (1, 2), dim=-1),
        lambda x: x.tensor_split([1]),
        lambda x: torch.tensor_split(x, indices=(1,), dim=1),
        lambda x: torch.tensor_split(x, sections=2, dim=1),
    ),
    "hsplit": (lambda x: x.hsplit(3), lambda x: torch.hsplit(x[0, 0], [1])),
    "vsplit": (lambda x: x.vsplit(2), lambda x: torch.vsplit(x, [1])),
    "dsplit": (lambda x: x.dsplit(2), lambda x: torch.dsplit(x, (1, 2))),
    "unbind": (
        lambda x: x.unbind(),
        lambda x: torch.unbind(x, -1),
        lambda x: [row + 1 for row in x],
    ),
    "select": (lambda x: x.select(1, 2), lambda x: torch.select(x, dim=-1, index=-2)),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda x: torch.narrow(x, dim=-1, start=0, length=1)),
    "index_select": (
        lambda x: x.index_select(1, torch.tensor([2, 2, 0])),
        lambda x: torch.index_select(x, dim=-1, index=torch.tensor([3])),
        lambda x: x[0, 0, 0].index_select(0, torch.tensor([0])),
        lambda x: written(x, lambda y: y[0, 0, 0].index_select(-1, torch.tensor([0])).add_(1)),
    ),
    "cat": (
        lambda x: torch.cat([x, x.sin()]),
        lambda x: torch.cat((C(2, 3, 1), x, x.exp()), -1),
        lambda x: torch.cat([x, C(2, 1, 4)], dim=1),
        lambda x: torch.cat([torch.empty(0), x, x.sin()], axis=2),
        lambda x: torch.cat([x, x[:, :0]], 1),
        lambda x: torch.cat(tensors=[x, C(2, 3, 4)]),
    ),
    "concat": (lambda x: torch.concat([x, x.sin()], dim=1),),
    "concatenate": (lambda x: torch.concatenate([x, x.sin()], axis=1),),
    "stack": (
        lambda x: torch.stack([x, x.sin()]),
        lambda x: torch.stack([C(2, 3, 4), x], -1),
        lambda x: torch.stack((x, C(2, 3, 4), x.sin()), dim=2),
    ),
    "atleast_1d": (
        lambda x: torch.atleast_1d(x[0, 0, 0]),
        lambda x: torch.atleast_1d(x[0], x[0, 0, 0]),
    ),
    "atleast_2d": (lambda x: torch.atleast_2d(x[0, 0]), lambda x: torch.atleast_2d([x, x[0, 0]])),
    "atleast_3d": (
        lambda x: torch.atleast_3d(x[0]),
        lambda x: torch.atleast_3d(x[0, 0], x[0, 0, 0], x),
    ),
    "vstack": (lambda x: torch.vstack([x, x.sin()]), lambda x: torch.vstack([x[0, 0], C(4)])),
    "row_stack": (lambda x: torch.row_stack([x[0, 0], C(4)]),),
    "hstack": (
        lambda x: torch.hstack([x, x.sin()]),
        lambda x: torch.hstack([x[0, 0], C(3), x[0, 0, 0]]),
    ),
    "dstack": (
        lambda x: torch.dstack([x, x.sin()]),
        lambda x: torch.dstack([x[0], C(3, 4)]),
        lambda x: torch.dstack([x[0, 0], C(4)]),
    ),
    "column_stack": (
        lambda x: torch.column_stack([x[0, :, 0], x[0], C(3)]),
        lambda x: torch.column_stack([x, x.sin()]),
    ),
    "block_diag": (
        lambda x: torch.block_diag(x[0], C(2, 2), x[1].sin()),
        lambda x: torch.block_diag(x[0, 0], x[0, 0, 0]),
    ),
    "meshgrid": (
        lambda x: torch.meshgrid(x[0, 0], C(3), x[0, :, 1].sin(), indexing="ij"),
        lambda x: torch.meshgrid([x[0, 0], C(3), x[0, :, 1].sin()], indexing="xy"),
        lambda x: torch.meshgrid(x[0, 0], indexing="xy"),
    ),
    "where": (
        lambda x: torch.where(x > 0, x, x.exp()),
        lambda x: torch.where(MASK, 2.0, x),
        lambda x: torch.where(MASK[0, 0], x.sin(), -1),
        lambda x: torch.where(MASK, x[0, 0], torch.tensor(3.0)),
        lambda x: torch.where(MASK, C(4), x[:, :1].sin()),
        lambda x: torch.where(MASK[0, 0], x[0, 0, 0], C(5, 1, 1, 1)),
        lambda x: x.where(MASK, 0.0),
        lambda x: C(2, 3, 4).where(MASK, x),
        lambda x: x.where(condition=MASK, other=C(4)),
    ),
    "masked_fill": (
        lambda x: x.masked_fill(MASK, 2),
        lambda x: torch.masked_fill(x, MASK[0], torch.tensor(2.0, dtype=torch.float32)),
        lambda x: x.masked_fill(mask=MASK, value=x[0, 0, 0]),
        lambda x: x.clone().masked_fill_(MASK, -1.0),
        lambda x: C(2, 3, 4).masked_fill(MASK, x[0, 0, 0]),
    ),
    "pad": (
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, [0, 1, 2, 0], value=3.5),
        lambda x: F.pad(x, (-1, 1, 1, -1, 0, 2), "constant", -1.0),
        lambda x: F.pad(x, (1, 2), mode="reflect"),
        lambda x: F.pad(x[:, None], (1, 2, 1, 0), mode="replicate"),
        lambda x: F.pad(x, (1, 2), "circular"),
        lambda x: F.pad(x[0], (1, 2), mode="reflect"),
    ),
    "copy_": (
        lambda x: written(x, lambda y: y[0].copy_(x[1])),
        lambda x: torch.zeros_like(x).copy_(x[0]),
        lambda x: written(x, lambda y: y.copy_(C(2, 3, 4))) + x,
    ),
    "fill_": (
        lambda x: written(x, lambda y: y[0].fill_(2.0)),
        lambda x: written(x, lambda y: y.fill_(x[0, 0, 0])),
    ),
    "zero_": (lambda x: written(x, lambda y: y[:, 1].zero_()),),
    "t_": (lambda x: moved(x[0] * 2, lambda y: y.t_()),),
    "transpose_": (lambda x: moved(x[:, :2] * 2, lambda y: y.transpose_(0, 1)),),
    "swapaxes_": (lambda x: moved(x * 2, lambda y: y.swapaxes_(0, 1)),),
    "swapdims_": (lambda x: moved(x * 2, lambda y: y.swapdims_(0, 1)),),
    "squeeze_": (
        lambda x: moved(x[:, :1] * 2, lambda y: y.squeeze_()),
        lambda x: moved(x[:1] * 2, lambda y: y.squeeze_(0)),
    ),
    "unsqueeze_": (lambda x: moved(x * 2, lambda y: y.unsqueeze_(-1)),),
}


def written(x: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """Return a copy of a tensor after something was written into it, or into its view."""
    y = x * 1.5
    write(y)
    return y * C(4)


def moved(y: Tensor, move: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return a tensor whose shape was changed in place, and a view of it that should not be."""
    first = y[0]
    assert move(y) is y
    y.add_(1)
    return [y * C(*y.shape), first]


def test_all_rules_are_tested() -> None:
    assert names_of_rules(shapes) == set(CASES)


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, fs in CASES.items() for f in fs])
def test_agrees(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


@pytest.mark.parametrize(
    "index",
    [0, (slice(None), 1), (..., -1), ROWS[:2], (slice(None), [2, 0]), MASK, (ROWS[:2], ROWS[:2])],
    ids=str,
)
@pytest.mark.parametrize("kind", ["number", "constant", "first", "second"])
@pytest.mark.parametrize("start", ["zeros", "first", "second"])
def test_writing(index: object, kind: str, start: str) -> None:
    """Series of all degrees, and constants, into series of all degrees."""

    def f(x: Tensor) -> Tensor:
        targets = {
            "zeros": torch.zeros_like(x),
            "first": 2 * x + C(2, 3, 4),
            "second": x.exp() * C(2, 3, 4),
        }
        y = targets[start]
        part = x[index]
        y[index] = {
            "number": 1.5,
            "constant": C(*part.shape),
            "first": part,
            "second": part.sin(),
        }[kind]
        return y * C(2, 3, 4) + x

    assert_rule(f, constant(*SHAPE))


def loop(x: Tensor) -> Tensor:
    """Write results one after the other, as recurrent models do."""
    out = x.new_zeros(2, 3, 4)
    state = x.new_zeros(2, 4)
    for t in range(3):
        state = (0.5 * state + x[:, t]).tanh()
        out[:, t] = state
    return out


def views(x: Tensor) -> Tensor:
    """Change a tensor through its views, and a view through the tensor."""
    y = x.exp() * C(2, 3, 4)
    first, last = y[0], y[..., -1]
    first += 1
    last.mul_(2)
    y[:, 1].sub_(x[:, 0])
    y /= 3
    return torch.stack([y, y * first, y * last[..., None]])


def augmented(x: Tensor) -> Tensor:
    """Bind a name to something new where a plain tensor cannot hold derivatives."""
    factor = torch.ones(4)

    def nested() -> Tensor:
        total = torch.zeros(2, 3, 4)
        for k in range(3):
            total += x * k
        return total

    factor *= x[0, 0]
    total = nested()
    total -= factor
    total /= 2 + x.square()
    return total


def matrices(x: Tensor) -> Tensor:
    """Multiply in place."""
    y = x[0]
    y = y @ y.T
    y @= y.sin()
    y **= 2
    return y


def residual(x: Tensor) -> Tensor:
    """Keep what was there before a change in place."""
    y = x.sin()
    before = y.clone()
    y += x
    return y * before


def activations(x: Tensor) -> Tensor:
    """Functions with an underscore."""
    return (2 * x).mul_(x).add_(x, alpha=0.3).tanh_()


@pytest.mark.parametrize("i", INDICES, ids=str)
def test_views_are_views(i: object) -> None:
    """What is written into a part reaches the whole only where torch has them share memory."""
    assert_rule(lambda x: written(x, lambda y: y[i].add_(1)), constant(*SHAPE))


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("i", [[[0, 1], [1, 2]], [torch.tensor([0, 1]), [2, 0]]], ids=str)
def test_lists_of_lists(i: list[object]) -> None:
    """They are what torch takes them for, a tuple or a tensor."""
    assert_rule(lambda x: x[0][i], constant(*SHAPE))
    assert_rule(lambda x: written(x, lambda y: y[0].__setitem__(i, x[0, 0, 0])), constant(*SHAPE))


@pytest.mark.parametrize("f", [loop, views, augmented, matrices, residual, activations])
def test_in_place(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


def refused(f: Rule, x: Tensor, order: int = 2) -> pytest.ExceptionInfo[MissingRule]:
    """Return how Taylor refuses a function."""
    with pytest.raises(MissingRule) as caught:
        Taylor().jet(lambda x: f(x).flatten(1).sum(1), x, torch.ones_like(x), order)
    return caught


def put(target: Tensor, index: object, what: Tensor) -> Tensor:
    """Write into a tensor, in an expression."""
    target[index] = what
    return target


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.zeros(2, 3).add_(x),
        lambda x: torch.zeros(2, 3).copy_(x),
        lambda x: torch.zeros(2, 3).fill_(x[0, 0]),
        lambda x: torch.zeros(2, 3).addcmul_(x, x),
        lambda x: torch.zeros(2, 3).masked_fill_(torch.tensor(True), x[0, 0]),
        lambda x: torch.zeros(2, 3).index_add_(0, torch.tensor([0]), x[:1]),
        lambda x: put(torch.zeros(2, 3), 0, x[0]),
        lambda x: put(torch.zeros(2, 3), torch.tensor([True, False]), x[0]),
    ],
)
def test_plain_tensors_cannot_hold_derivatives(f: Rule) -> None:
    assert "plain tensor" in str(refused(f, torch.ones(2, 3)).value)


def test_views_cannot_be_given_derivatives() -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[0].add_(x[0])
        return y

    assert "shares its memory" in str(refused(f, torch.ones(2, 3)).value)


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: x.add_(torch.ones(4, 2, 3)), RuntimeError),
        (lambda x: x.T.T[5], IndexError),
        (lambda x: x.view(7), RuntimeError),
        (lambda x: x[None].T, (ValueError, UserWarning)),
        (lambda x: torch.cat([x, torch.ones(3)]), RuntimeError),
        (lambda x: x.expand(5, 3), RuntimeError),
        (lambda x: torch.stack([x, x[0]]), RuntimeError),
        (lambda x: x.squeeze(4), IndexError),
        (lambda x: x @ x, RuntimeError),
        (lambda x: x + torch.ones(5), RuntimeError),
        (lambda x: x.nonsense, AttributeError),
    ],
)
def test_mistakes_are_mistakes(f: Rule, error: type[Exception]) -> None:
    with pytest.raises(error):
        f(torch.ones(2, 3))
    with pytest.raises(error):
        Taylor().jet(lambda x: f(x + 1), torch.ones(2, 3), torch.ones(2, 3), 2)


def test_the_input_is_left_alone() -> None:
    x, v = constant(2, 3), constant(2, 3).flip(0)
    before = x.clone(), v.clone()

    def f(x: Tensor) -> Tensor:
        x += 1
        x[:, 0] = 2.0
        return x.mul_(3).sum(1)

    Taylor().jet(f, x, v, 2)
    assert torch.equal(x, before[0])
    assert torch.equal(v, before[1])


def test_detached_values_share_memory() -> None:
    def f(x: Tensor) -> Tensor:
        y = 2 * x
        d = y.detach()
        y.add_(1)
        return (d * x).sum(1)

    x, v = constant(2, 3), constant(2, 3).flip(0)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))
