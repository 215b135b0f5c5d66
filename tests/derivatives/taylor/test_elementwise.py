"""Smooth functions of each element have the right derivatives, in the tails too."""

import math
from collections.abc import Callable
from functools import cache

import mpmath
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Taylor, elementwise
from tests.derivatives.taylor.agreement import assert_rule, names_of_rules

EVERYWHERE, POSITIVE, UNIT, INSIDE = (-2.0, 2.0), (0.3, 3.0), (0.1, 0.9), (-0.9, 0.9)
CASES: dict[str, tuple[tuple[float, float], tuple[Callable[[Tensor], Tensor], ...]]] = {
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
    "erf": (EVERYWHERE, (torch.erf,)),
    "erfc": (EVERYWHERE, (torch.erfc,)),
    "erfinv": (INSIDE, (torch.erfinv,)),
    "special_erfcx": (EVERYWHERE, (torch.special.erfcx,)),
    "special_ndtr": (EVERYWHERE, (torch.special.ndtr,)),
    "special_log_ndtr": (EVERYWHERE, (torch.special.log_ndtr,)),
    "lgamma": (POSITIVE, (torch.lgamma, lambda x: x.clone().lgamma_())),
    "special_gammaln": (POSITIVE, (torch.special.gammaln,)),
    "digamma": (POSITIVE, (torch.digamma,)),
    "special_digamma": (POSITIVE, (torch.special.digamma,)),
    "special_psi": (POSITIVE, (torch.special.psi,)),
    "polygamma": (
        POSITIVE,
        (lambda x: torch.polygamma(1, x), lambda x: x.polygamma(2), lambda x: x.polygamma(n=1)),
    ),
    "special_polygamma": (POSITIVE, (lambda x: torch.special.polygamma(1, x),)),
    "sinc": ((-1.7, 1.7), (torch.sinc,)),
    "deg2rad": (EVERYWHERE, (torch.deg2rad,)),
    "rad2deg": (EVERYWHERE, (torch.rad2deg,)),
}
for _name in ("erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "logit", "sinc"):
    CASES[f"special_{_name}"] = (CASES[_name][0], (getattr(torch.special, _name),))

each_case = pytest.mark.parametrize(
    ("f", "domain"),
    [pytest.param(f, domain, id=name) for name, (domain, fs) in CASES.items() for f in fs],
)


def points(domain: tuple[float, float]) -> Tensor:
    """Return a small matrix of points, none of them special."""
    low, high = domain
    spread = torch.tensor([0.03, 0.21, 0.34, 0.48, 0.77, 0.96]).view(2, 3)
    return low + (high - low) * spread


def test_all_rules_are_tested() -> None:
    assert names_of_rules(elementwise) == set(CASES)


@each_case
def test_agrees(f: Callable[[Tensor], Tensor], domain: tuple[float, float]) -> None:
    assert_rule(f, points(domain))


@each_case
def test_agrees_at_high_orders(f: Callable[[Tensor], Tensor], domain: tuple[float, float]) -> None:
    x = points(domain).view(-1, 1)
    v = torch.full_like(x, (domain[1] - domain[0]) / 8)
    g = lambda x: (x * 0.9 + 0.1 * x.detach() + (x - x.detach()).square()).sum(1)
    h = lambda x: f(g(x).clone())
    for found, truth in zip(Taylor().jet(h, x, v, 6), Autodiff().jet(h, x, v, 6), strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-9)


NEGLIGIBLE_ON_THE_LEFT = {
    functional.softplus: lambda x: mpmath.log1p(mpmath.exp(x)),
    functional.silu: lambda x: x / (1 + mpmath.exp(-x)),
    functional.mish: lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    functional.gelu: lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    torch.sigmoid: lambda x: 1 / (1 + mpmath.exp(-x)),
    torch.exp: mpmath.exp,
}
OTHERS = {
    functional.logsigmoid: lambda x: -mpmath.log1p(mpmath.exp(-x)),
    torch.tanh: mpmath.tanh,
    torch.expm1: mpmath.expm1,
    torch.asinh: mpmath.asinh,
    torch.atan: mpmath.atan,
    torch.sinc: mpmath.sincpi,
}


def derivatives(f: Callable[[Tensor], Tensor], x: float, order: int) -> list[float]:
    """Return what Taylor makes of a function of one number."""
    where, along = torch.tensor([[x]]), torch.ones(1, 1)
    return [term.item() for term in Taylor().jet(lambda x: f(x[:, 0]), where, along, order)]


@cache
def exact(g: Callable[[mpmath.mpf], mpmath.mpf], x: float) -> list[float]:
    """Return the derivatives of a function up to the fourth, from many digits."""
    with mpmath.workdps(250 if abs(x) > 20 else 80):
        return [float(c * mpmath.factorial(k)) for k, c in enumerate(mpmath.taylor(g, x, 4))]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("x", [-30.0, -11.0, 11.0, 30.0])
@pytest.mark.parametrize("f", [*NEGLIGIBLE_ON_THE_LEFT, *OTHERS], ids=lambda f: f.__name__)
def test_tails(f: Callable[[Tensor], Tensor], x: float, order: int) -> None:
    truth = exact((NEGLIGIBLE_ON_THE_LEFT | OTHERS)[f], x)[: order + 1]
    found = derivatives(f, x, order)
    relative = f in NEGLIGIBLE_ON_THE_LEFT and x < 0
    assert found[0] == pytest.approx(truth[0], rel=1e-10, abs=1e-15)
    assert found[1:] == pytest.approx(truth[1:], rel=1e-10, abs=0.0 if relative else 3e-14)


@pytest.mark.parametrize("x", [-30.0, -11.0, 11.0, 30.0])
def test_tails_of_the_normal_distribution(x: float) -> None:
    g = lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
    found, truth = derivatives(torch.special.log_ndtr, x, 3), exact(g, x)[:4]
    assert found == pytest.approx(truth, rel=1e-10, abs=1e-14 * abs(x) ** 5)


@pytest.mark.parametrize("x", [0.0, 1e-9, -1e-4, 0.02, -0.3, 0.477, 0.478, 0.6])
def test_sinc_near_zero(x: float) -> None:
    assert derivatives(torch.sinc, x, 4) == pytest.approx(
        exact(mpmath.sincpi, x), rel=1e-9, abs=1e-10
    )


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


def test_softplus_beyond_its_threshold_is_straight() -> None:
    f = lambda x: functional.softplus(x, beta=2.0, threshold=3.0)
    assert derivatives(f, 1.6, 4) == [1.6, 1.0, 0.0, 0.0, 0.0]
    slope = 1 / (1 + math.exp(-2.8))
    assert derivatives(f, 1.4, 1)[1] == pytest.approx(slope)


def test_clamped_logit_is_constant() -> None:
    f = lambda x: torch.logit(x, eps=0.25)
    assert derivatives(f, 0.2, 2) == pytest.approx([math.log(0.25 / 0.75), 0, 0])
    assert derivatives(f, 0.9, 3) == pytest.approx([math.log(0.75 / 0.25), 0, 0, 0])


def test_in_place_changes_its_input() -> None:
    def f(x: Tensor) -> Tensor:
        h = 2 * x
        y = torch.nn.SiLU(inplace=True)(h)
        return (h * y).sum(1)

    x, v = torch.randn(2, 3, 2)
    for found, truth in zip(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2), strict=True):
        torch.testing.assert_close(found, truth)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype) -> None:
    for domain, functions in CASES.values():
        for f in functions:
            x = points(domain)[:1].to(dtype)
            try:
                expected = f(x)
            except (NotImplementedError, RuntimeError):
                continue  # torch itself has no such function of this type
            found = Taylor().jet(lambda x, f=f: f(x).sum(1), x, torch.ones_like(x), 2)
            assert {term.dtype for term in found} == {expected.dtype}
            assert all(term.isfinite().all() for term in found)
