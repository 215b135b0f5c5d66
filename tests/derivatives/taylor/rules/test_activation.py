"""Smooth activation functions have the right derivatives, in the tails too."""

import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff, Taylor
from fdsm.derivatives.taylor.rules import activation

from ..agreement import assert_rule, names_of_rules
from .elementwise_cases import (
    EVERYWHERE,
    Domain,
    ElementwiseCases,
    Function,
    assert_high_orders_agree,
    assert_types_are_kept,
    derivatives,
    each_case,
    exact,
    points,
)
from .operand_cases import check_batches

CASES: ElementwiseCases = {
    "softplus": (
        EVERYWHERE,
        (
            functional.softplus,
            lambda x: functional.softplus(x, 2.5),
            lambda x: functional.softplus(x, beta=-0.7, threshold=7.0),
            lambda x: functional.softplus(x, threshold=0.5),
            lambda x: functional.softplus(x, 0.5, -0.1),
            lambda x: functional.softplus(15 * x, threshold=30),
        ),
    ),
    "log_sigmoid": (EVERYWHERE, (functional.logsigmoid,)),
    "silu": (
        EVERYWHERE,
        (functional.silu, lambda x: torch.nn.SiLU(inplace=True)(2 * x)),
    ),
    "mish": (EVERYWHERE, (functional.mish, lambda x: torch.nn.Mish(True)(2 * x))),
    "gelu": (
        (-3.0, 3.0),
        (functional.gelu, lambda x: functional.gelu(x, approximate="tanh")),
    ),
    "tanhshrink": (EVERYWHERE, (functional.tanhshrink,)),
}
ELSEWHERE = {"glu"}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(activation) == set(CASES) | ELSEWHERE


@pytest.mark.parametrize(("f", "domain"), each_case(CASES))
def test_agrees_with_autodiff(f: Function, domain: Domain) -> None:
    assert_rule(f, points(domain))


@pytest.mark.parametrize(("f", "domain"), each_case(CASES))
def test_high_orders_agree_with_autodiff(f: Function, domain: Domain) -> None:
    assert_high_orders_agree(f, domain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype) -> None:
    assert_types_are_kept(CASES, dtype)


NEGLIGIBLE_ON_THE_LEFT = {
    functional.softplus: lambda x: mpmath.log1p(mpmath.exp(x)),
    functional.silu: lambda x: x / (1 + mpmath.exp(-x)),
    functional.mish: lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    functional.gelu: lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
}
OTHERS = {
    functional.logsigmoid: lambda x: -mpmath.log1p(mpmath.exp(-x)),
}


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("x", [-30.0, -11.0, 11.0, 30.0])
@pytest.mark.parametrize("f", [*NEGLIGIBLE_ON_THE_LEFT, *OTHERS], ids=lambda f: f.__name__)
def test_tails(f: Callable[[Tensor], Tensor], x: float, order: int) -> None:
    truth = exact((NEGLIGIBLE_ON_THE_LEFT | OTHERS)[f], x)[: order + 1]
    found = derivatives(f, x, order)
    relative = f in NEGLIGIBLE_ON_THE_LEFT and x < 0
    assert found[0] == pytest.approx(truth[0], rel=1e-10, abs=1e-15)
    assert found[1:] == pytest.approx(truth[1:], rel=1e-10, abs=0.0 if relative else 3e-14)


def test_softplus_beyond_its_threshold_is_straight() -> None:
    f = lambda x: functional.softplus(x, beta=2.0, threshold=3.0)
    assert derivatives(f, 1.6, 4) == [1.6, 1.0, 0.0, 0.0, 0.0]
    slope = 1 / (1 + math.exp(-2.8))
    assert derivatives(f, 1.4, 1)[1] == pytest.approx(slope)


def test_in_place_changes_its_input() -> None:
    def f(x: Tensor) -> Tensor:
        h = 2 * x
        y = torch.nn.SiLU(inplace=True)(h)
        return (h * y).sum(1)

    x, v = torch.randn(2, 3, 2)
    for found, truth in zip(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2), strict=True):
        torch.testing.assert_close(found, truth)


def test_glu_is_smooth() -> None:
    check_batches(
        lambda a, b, c: functional.glu(a) * functional.glu(b, dim=-1) + functional.glu(b + c, 2)
    )
