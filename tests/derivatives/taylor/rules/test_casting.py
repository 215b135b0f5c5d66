"""Conversions of type, device and memory format."""

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Jet, Taylor
from fdsm.derivatives.taylor.rules import casting

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, followed, parameters, written

C = constant
INDEX = torch.tensor([1, 0, 1])
CASES: dict[str, tuple[Rule, ...]] = {
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
    "cdouble": (lambda x: (x.cdouble() * (1 + 2j)).imag,),
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
}
ELSEWHERE = {"bfloat16", "cfloat", "float", "half", "cuda"}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(casting) == set(CASES) | ELSEWHERE


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda x: x.float(), torch.float32),
        (lambda x: x.half(), torch.float16),
        (lambda x: x.bfloat16(), torch.bfloat16),
        (lambda x: x.cfloat().real, torch.float32),
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
