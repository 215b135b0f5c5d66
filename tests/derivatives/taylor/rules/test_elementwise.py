"""Smooth elementwise functions have the right derivatives, in the tails too."""

import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives.taylor.rules import elementwise

from ..agreement import assert_rule, names_of_rules
from .elementwise_cases import (
    EVERYWHERE,
    INSIDE,
    POSITIVE,
    UNIT,
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
from .operand_cases import MASK, MatrixOp, check_matrices

CASES: ElementwiseCases = {
    "exp": (EVERYWHERE, (torch.exp, lambda x: x.exp(), lambda x: x.clone().exp_())),
    "exp2": (EVERYWHERE, (torch.exp2,)),
    "expm1": (EVERYWHERE, (torch.expm1,)),
    "log": (POSITIVE, (torch.log, lambda x: torch.log(input=x))),
    "log2": (POSITIVE, (torch.log2,)),
    "log10": (POSITIVE, (torch.log10,)),
    "log1p": (INSIDE, (torch.log1p,)),
    "reciprocal": (POSITIVE, (torch.reciprocal, lambda x: (-x).reciprocal())),
    "sqrt": (POSITIVE, (torch.sqrt,)),
    "rsqrt": (POSITIVE, (torch.rsqrt,)),
    "square": (EVERYWHERE, (torch.square,)),
    "sin": (EVERYWHERE, (torch.sin,)),
    "cos": (EVERYWHERE, (torch.cos,)),
    "tan": ((-1.2, 1.2), (torch.tan,)),
    "asin": (INSIDE, (torch.asin,)),
    "arcsin": (INSIDE, (torch.arcsin,)),
    "acos": (INSIDE, (torch.acos,)),
    "arccos": (INSIDE, (torch.arccos,)),
    "atan": (EVERYWHERE, (torch.atan,)),
    "arctan": (EVERYWHERE, (torch.arctan,)),
    "sinh": (EVERYWHERE, (torch.sinh,)),
    "cosh": (EVERYWHERE, (torch.cosh,)),
    "tanh": (EVERYWHERE, (torch.tanh, functional.tanh, lambda x: x.clone().tanh_())),
    "asinh": (EVERYWHERE, (torch.asinh,)),
    "arcsinh": (EVERYWHERE, (torch.arcsinh,)),
    "acosh": ((1.3, 4.0), (torch.acosh,)),
    "arccosh": ((1.3, 4.0), (torch.arccosh,)),
    "atanh": (INSIDE, (torch.atanh,)),
    "arctanh": (INSIDE, (torch.arctanh,)),
    "sigmoid": (EVERYWHERE, (torch.sigmoid, functional.sigmoid, lambda x: x.sigmoid())),
    "special_expit": (EVERYWHERE, (torch.special.expit,)),
    "logit": (
        UNIT,
        (torch.logit, lambda x: torch.logit(x, eps=0.2), lambda x: x.logit()),
    ),
    "deg2rad": (EVERYWHERE, (torch.deg2rad,)),
    "rad2deg": (EVERYWHERE, (torch.rad2deg,)),
}
for _name in ("exp2", "expm1", "log1p", "logit"):
    CASES[f"special_{_name}"] = (CASES[_name][0], (getattr(torch.special, _name),))
ELSEWHERE = {
    "arctan2",
    "atan2",
    "hypot",
    "nan_to_num",
    "special_xlog1py",
    "special_xlogy",
    "xlogy",
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(elementwise) == set(CASES) | ELSEWHERE


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
    torch.sigmoid: lambda x: 1 / (1 + mpmath.exp(-x)),
    torch.exp: mpmath.exp,
}
OTHERS = {
    torch.tanh: mpmath.tanh,
    torch.expm1: mpmath.expm1,
    torch.asinh: mpmath.asinh,
    torch.atan: mpmath.atan,
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


@pytest.mark.parametrize(
    ("f", "g", "x"),
    [
        (torch.log1p, mpmath.log1p, 1e-12),
        (torch.log1p, mpmath.log1p, -1 + 1e-9),
        (torch.expm1, mpmath.expm1, 1e-12),
        (torch.sqrt, mpmath.sqrt, 1e-12),
        (torch.rsqrt, lambda x: 1 / mpmath.sqrt(x), 1e-12),
        (torch.log, mpmath.log, 1e-30),
        (torch.asin, mpmath.asin, 1 - 1e-9),
        (torch.acos, mpmath.acos, -1 + 1e-9),
        (torch.atanh, mpmath.atanh, 1 - 1e-9),
        (torch.acosh, mpmath.acosh, 1 + 1e-9),
    ],
)
def test_near_the_edge(
    f: Callable[[Tensor], Tensor], g: Callable[[mpmath.mpf], mpmath.mpf], x: float
) -> None:
    assert derivatives(f, x, 4) == pytest.approx(exact(g, x), rel=1e-12)


def test_clamped_logit_is_constant() -> None:
    f = lambda x: torch.logit(x, eps=0.25)
    assert derivatives(f, 0.2, 2) == pytest.approx([math.log(0.25 / 0.75), 0, 0])
    assert derivatives(f, 0.9, 3) == pytest.approx([math.log(0.75 / 0.25), 0, 0, 0])


SMOOTH: dict[str, MatrixOp] = {
    "hypot": lambda a, b, c: torch.hypot(a, b) + torch.hypot(c, a) + b.hypot(c),
    "atan2": lambda a, b, c: torch.atan2(a, b) + torch.atan2(c, a) + b.atan2(c[:, :1]),
    "arctan2": lambda a, b, c: torch.arctan2(-a.square() - 1, b) + torch.arctan2(a, -b.exp()),
    "xlogy": lambda a, b, c: torch.xlogy(a, b.exp() + 1) + torch.xlogy(c, a.exp()),
    "xlogy_numbers": lambda a, b, c: torch.xlogy(2.0, b + 2) + a.xlogy(3.0) + torch.special.xlogy(
        b, c.exp()
    ),
    "xlogy_of_zero": lambda a, b, c: torch.xlogy(MASK, b + 2) + torch.xlogy(a - a.detach(), b + 2),
    "xlog1py": lambda a, b, c: torch.special.xlog1py(a, b + 1) + torch.special.xlog1py(c, b),
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_functions_of_two_arguments_agree_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


@pytest.mark.parametrize("name", ["hypot", "atan2", "xlogy"])
def test_high_orders_of_two_arguments_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.where(x > 0, x, float("inf")).nan_to_num(posinf=2.0),
        lambda x: x.nan_to_num(),
    ],
)
def test_nan_to_num_agrees_with_autodiff(f: Function) -> None:
    assert_rule(f, points(EVERYWHERE))
