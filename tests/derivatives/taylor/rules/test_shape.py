"""Functions that change the shape or the order of elements, views included."""

import numpy as np
import pytest
import torch

from fdsm.derivatives import MissingRule, Taylor
from fdsm.derivatives.taylor.rules import shape

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, moved, parameters, written

C = constant
CASES: dict[str, tuple[Rule, ...]] = {
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
    "repeat": (
        lambda x: x.repeat(2, 1, 3),
        lambda x: x.repeat((2, 2, 1, 1)),
        lambda x: x[0, 0].repeat(3, 2),
        lambda x: x.repeat(repeats=(1, 2, 1)),
    ),
    "tile": (lambda x: x.tile(2), lambda x: torch.tile(x, (2, 1, 2, 1)), lambda x: x.tile(2, 3)),
    "t_": (lambda x: moved(x[0] * 2, lambda y: y.t_()),),
    "transpose_": (lambda x: moved(x[:, :2] * 2, lambda y: y.transpose_(0, 1)),),
    "swapaxes_": (lambda x: moved(x * 2, lambda y: y.swapaxes_(0, 1)),),
    "swapdims_": (lambda x: moved(x * 2, lambda y: y.swapdims_(0, 1)),),
    "squeeze_": (
        lambda x: moved(x[:, :1] * 2, lambda y: y.squeeze_()),
        lambda x: moved(x[:1] * 2, lambda y: y.squeeze_(0)),
    ),
    "unsqueeze_": (lambda x: moved(x * 2, lambda y: y.unsqueeze_(-1)),),
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
    "flip": (lambda x: x.flip(0, 2), lambda x: torch.flip(x, [1]), lambda x: x.flip(-1)),
    "fliplr": (lambda x: x.fliplr(),),
    "flipud": (lambda x: x.flipud(),),
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
    "tril": (lambda x: x.tril(), lambda x: torch.tril(x, -1)),
    "triu": (lambda x: x.triu(1), lambda x: x.clone().triu_()),
    "unfold": (
        lambda x: x.unfold(2, 3, 1),
        lambda x: x.unfold(-2, 2, 1),
        lambda x: x.unfold(dimension=0, size=1, step=1),
    ),
    "__reversed__": (lambda x: reversed(x), lambda x: reversed(x[0].T).T * torch.arange(4.0)),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(shape) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


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
def test_wrong_arguments_raise_the_errors_of_torch(f: Rule, error: type[Exception]) -> None:
    with pytest.raises(error):
        f(torch.ones(2, 3))
    with pytest.raises(error):
        Taylor().jet(lambda x: f(x + 1), torch.ones(2, 3), torch.ones(2, 3), 2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.as_strided((2, 3), (1, 1)),
        lambda x: x.view(torch.int64),
    ],
)
def test_other_interpretations_of_memory_are_refused(f: Rule) -> None:
    with pytest.raises(MissingRule, match="Taylor"):
        Taylor().jet(lambda x: f(x).reshape(2, -1).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
