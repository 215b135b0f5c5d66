"""Functions of the value alone return constants, as for a plain tensor."""

import operator
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Jet, Taylor
from fdsm.derivatives.taylor.rules import nondifferentiable

from ..agreement import assert_rule, names_of_rules

Answer = Callable[[Tensor], object]
POINTS = torch.tensor([[-1.5, 0.0, 2.0], [0.5, 1.0, 2.0]], dtype=torch.float64)
OTHER = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
ANSWERS: dict[str, tuple[Answer, ...]] = {
    "all": (lambda x: x.all(), lambda x: torch.all(x, 1)),
    "allclose": (lambda x: torch.allclose(x, x + 1e-12), lambda x: torch.allclose(OTHER, x)),
    "any": (lambda x: x.any(dim=0),),
    "argmax": (lambda x: x.argmax(), lambda x: torch.argmax(x, dim=1, keepdim=True)),
    "argmin": (lambda x: x.argmin(1),),
    "argsort": (lambda x: x.argsort(dim=0, descending=True),),
    "argwhere": (lambda x: x.argwhere(),),
    "bool": (lambda x: x.bool(),),
    "bucketize": (lambda x: torch.bucketize(x, OTHER), lambda x: torch.bucketize(OTHER, x[1])),
    "byte": (lambda x: x.square().byte(),),
    "ceil": (lambda x: x.ceil(),),
    "char": (lambda x: x.char(),),
    "count_nonzero": (lambda x: x.count_nonzero(0),),
    "dim": (lambda x: x.dim(),),
    "element_size": (lambda x: x.element_size(),),
    "eq": (
        lambda x: x == 2,
        lambda x: operator.eq(OTHER, x),
        lambda x: torch.eq(x, x),
        lambda x: x == x,
    ),
    "equal": (lambda x: x.equal(POINTS), lambda x: torch.equal(POINTS, x)),
    "fix": (lambda x: x.fix(),),
    "floor": (lambda x: x.floor(),),
    "floor_divide": (lambda x: x.floor_divide(0.7), lambda x: torch.floor_divide(OTHER, x + 3)),
    "ge": (lambda x: x >= OTHER, lambda x: operator.ge(OTHER, x)),
    "get_device": (lambda x: x.get_device(),),
    "greater": (lambda x: x.greater(1),),
    "greater_equal": (lambda x: x.greater_equal(1),),
    "gt": (lambda x: x > 0, lambda x: operator.gt(OTHER, x)),
    "heaviside": (lambda x: torch.heaviside(x, OTHER), lambda x: torch.heaviside(OTHER, x[1])),
    "histc": (lambda x: x.histc(3),),
    "int": (lambda x: x.int(),),
    "is_complex": (lambda x: x.is_complex(),),
    "is_conj": (lambda x: x.is_conj(),),
    "is_contiguous": (lambda x: (x.is_contiguous(), x.T.is_contiguous()),),
    "is_floating_point": (lambda x: torch.is_floating_point(x),),
    "is_inference": (lambda x: x.is_inference(),),
    "is_neg": (lambda x: x.is_neg(),),
    "is_nonzero": (lambda x: x[0, 0].is_nonzero(),),
    "is_same_size": (lambda x: x.is_same_size(OTHER),),
    "is_signed": (lambda x: x.is_signed(),),
    "isclose": (lambda x: x.isclose(OTHER, atol=0.1),),
    "isfinite": (lambda x: (1 / x).isfinite(),),
    "isin": (lambda x: torch.isin(x, OTHER),),
    "isinf": (lambda x: (1 / x).isinf(),),
    "isnan": (lambda x: x.log().isnan(),),
    "isneginf": (lambda x: x.isneginf(),),
    "isposinf": (lambda x: x.isposinf(),),
    "isreal": (lambda x: x.isreal(),),
    "item": (lambda x: x[0, 0].item(),),
    "le": (lambda x: x <= 1, lambda x: operator.le(OTHER, x)),
    "less": (lambda x: x.less(OTHER),),
    "less_equal": (lambda x: x.less_equal(other=OTHER),),
    "logical_and": (lambda x: x.logical_and(OTHER), lambda x: torch.logical_and(OTHER, x)),
    "logical_not": (lambda x: x.logical_not(),),
    "logical_or": (lambda x: x.logical_or(OTHER),),
    "logical_xor": (lambda x: x.logical_xor(OTHER),),
    "long": (lambda x: x.long(),),
    "lt": (lambda x: x < OTHER, lambda x: torch.lt(input=x, other=1)),
    "ndimension": (lambda x: x.ndimension(),),
    "ne": (lambda x: x != 2, lambda x: operator.ne(OTHER, x)),
    "nelement": (lambda x: x.nelement(),),
    "nonzero": (lambda x: x.nonzero(), lambda x: torch.nonzero(x, as_tuple=True)),
    "not_equal": (lambda x: x.not_equal(2),),
    "numel": (lambda x: torch.numel(x),),
    "result_type": (lambda x: torch.result_type(x, 1),),
    "round": (lambda x: x.round(), lambda x: torch.round(x, decimals=1)),
    "searchsorted": (
        lambda x: torch.searchsorted(OTHER, x),
        lambda x: torch.searchsorted(x[1], OTHER, right=True),
    ),
    "sgn": (lambda x: x.sgn(),),
    "short": (lambda x: x.short(),),
    "sign": (lambda x: x.sign(),),
    "signbit": (lambda x: x.signbit(),),
    "size": (lambda x: x.size(), lambda x: x.size(-1)),
    "storage_offset": (lambda x: x.storage_offset(),),
    "stride": (lambda x: x.stride(), lambda x: x.T.stride(0)),
    "tolist": (lambda x: x.tolist(),),
    "trunc": (lambda x: torch.trunc(x),),
    "zeros_like": (lambda x: torch.zeros_like(x, dtype=torch.bool),),
    "new_zeros": (lambda x: x.new_zeros(3, dtype=torch.int64),),
    "new_tensor": (lambda x: x.new_tensor([1.0, 2.0]),),
    "detach": (lambda x: x.detach(), lambda x: torch.detach(x)),
    "data": (lambda x: x.data,),
    "__contains__": (lambda x: 2.0 in x, lambda x: x[0, 0] in x, lambda x: 5.0 in x),
    "__floordiv__": (lambda x: x // 0.7, lambda x: x // OTHER.exp()),
    "__rfloordiv__": (lambda x: 3 // (x + 3),),
}
RANDOM: dict[str, Answer] = {
    "bernoulli": lambda x: x.sigmoid().bernoulli(),
    "multinomial": lambda x: torch.multinomial(x.sigmoid(), 2),
    "rand_like": lambda x: torch.rand_like(x),
    "randint_like": lambda x: torch.randint_like(x, 5),
    "randn_like": lambda x: torch.randn_like(x),
}
CONSTANTS: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "bernoulli_": (lambda x: torch.zeros_like(x).bernoulli_(1.0) * x,),
    "cauchy_": (lambda x: torch.zeros_like(x).cauchy_(2.0, 1e-30) * x,),
    "exponential_": (lambda x: (torch.zeros_like(x).exponential_() > 0) * x,),
    "geometric_": (lambda x: torch.zeros_like(x).geometric_(1 - 1e-12) * x,),
    "log_normal_": (lambda x: torch.zeros_like(x).log_normal_(0.5, 1e-30) * x,),
    "normal_": (lambda x: torch.zeros_like(x).normal_(3.0, 0.0) * x,),
    "random_": (lambda x: torch.zeros_like(x).random_(1) * x + x,),
    "uniform_": (lambda x: torch.zeros_like(x).uniform_(2.0, 2.0) * x,),
    "empty_like": (lambda x: torch.empty_like(x).fill_(2.0) * x,),
    "full_like": (lambda x: torch.full_like(x, 3) * x,),
    "ones_like": (lambda x: torch.ones_like(x) * x, lambda x: x - torch.ones_like(x[0])),
    "zeros_like": (lambda x: torch.zeros_like(x) + x,),
    "new_empty": (lambda x: x.new_empty(3).fill_(2.0) * x,),
    "new_full": (lambda x: x.new_full((3,), 2.0) * x,),
    "new_ones": (lambda x: x.new_ones(2, 3) * x,),
    "new_zeros": (lambda x: x.new_zeros((2, 3)) + x,),
    "detach": (lambda x: x * x.detach(), lambda x: (x.exp() - x.detach()).square()),
}
ATTRIBUTES = {
    "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_xpu", "itemsize", "layout", "nbytes",
}  # fmt: skip
ELSEWHERE = {"__eq__", "__ne__", "data_ptr"}


def test_every_rule_has_a_case() -> None:
    known = {*ANSWERS, *RANDOM, *CONSTANTS, *ATTRIBUTES, *ELSEWHERE}
    assert names_of_rules(nondifferentiable) == known


@pytest.mark.parametrize(
    "f", [pytest.param(f, id=name) for name, fs in ANSWERS.items() for f in fs]
)
def test_answers(f: Answer) -> None:
    """The answer is that for a plain tensor, and is a plain one itself."""
    answers: list[object] = []

    def model(x: Tensor) -> Tensor:
        answers.append(f(x))
        return x.sum(1)

    model(POINTS)
    Taylor().jet(model, POINTS, torch.ones_like(POINTS), 2)
    plain, found = answers
    assert type(found) is type(plain)
    assert not isinstance(found, Jet)
    pairs = zip(found, plain, strict=True) if isinstance(plain, tuple) else [(found, plain)]
    for a, b in pairs:
        assert torch.equal(a, b) and a.dtype == b.dtype if isinstance(b, Tensor) else a == b


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_those_of_the_value(name: str) -> None:
    answers: list[Tensor] = []

    def model(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        answers.append(RANDOM[name](x))
        return x.sum(1)

    model(POINTS)
    Taylor().jet(model, POINTS, torch.ones_like(POINTS), 2)
    assert torch.equal(*answers)
    assert not isinstance(answers[1], Jet)


@pytest.mark.parametrize(
    "f", [pytest.param(f, id=name) for name, fs in CONSTANTS.items() for f in fs]
)
def test_constants(f: Callable[[Tensor], Tensor]) -> None:
    assert_rule(f, POINTS + 0.1)


def test_masks_made_like_the_input_select() -> None:
    def f(x: Tensor) -> Tensor:
        mask = torch.ones_like(x, dtype=torch.bool)
        mask[:, 0] = False
        places = torch.zeros_like(x, dtype=torch.long)
        return torch.where(mask & ~(x > 1.7), x.square(), x) + x.gather(1, places)

    assert_rule(f, POINTS)


@pytest.mark.parametrize("f", [lambda x: x.detach(), lambda x: x.round(), torch.zeros_like])
def test_constant_models_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="does not depend on its input"):
        Taylor().jet(lambda x: f(x).sum(1), POINTS, torch.ones_like(POINTS), 1)


@pytest.mark.parametrize("name", sorted(ATTRIBUTES))
def test_attributes_are_those_of_the_value(name: str) -> None:
    seen: list[object] = []

    def model(x: Tensor) -> Tensor:
        seen.append(getattr(x, name))
        return x.sum(1)

    model(POINTS)
    Taylor().jet(model, POINTS, torch.ones_like(POINTS), 2)
    assert seen[0] == seen[1]
