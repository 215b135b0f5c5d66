"""Functions of `torch.special` have the right derivatives, in the tails too."""

import mpmath
import pytest
import torch
from torch import Tensor

from fdsm.derivatives import MissingRule, Taylor
from fdsm.derivatives.taylor.rules import special

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

SHAPES = torch.tensor(1.7, dtype=torch.float64)
CASES: ElementwiseCases = {
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
    "special_ndtri": (UNIT, (torch.special.ndtri,)),
    "igamma": (
        POSITIVE,
        (lambda x: torch.igamma(SHAPES, x), SHAPES.igamma),
    ),
    "igammac": (POSITIVE, (lambda x: torch.igammac(SHAPES, x),)),
    "special_gammainc": (POSITIVE, (lambda x: torch.special.gammainc(SHAPES, x),)),
    "special_gammaincc": (POSITIVE, (lambda x: torch.special.gammaincc(SHAPES, x),)),
    "sinc": ((-1.7, 1.7), (torch.sinc,)),
}
for _name in ("erf", "erfc", "erfinv", "sinc"):
    CASES[f"special_{_name}"] = (CASES[_name][0], (getattr(torch.special, _name),))


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(special) == set(CASES)


@pytest.mark.parametrize(("f", "domain"), each_case(CASES))
def test_agrees_with_autodiff(f: Function, domain: Domain) -> None:
    assert_rule(f, points(domain))


@pytest.mark.parametrize(("f", "domain"), each_case(CASES))
def test_high_orders_agree_with_autodiff(f: Function, domain: Domain) -> None:
    assert_high_orders_agree(f, domain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype) -> None:
    assert_types_are_kept(CASES, dtype)


@pytest.mark.parametrize("a", [torch.ones(2, 3), torch.tensor(0.5, requires_grad=True)])
def test_derivatives_with_respect_to_the_shape_are_refused(a: Tensor) -> None:
    x = torch.rand(2, 3)
    f = lambda x: torch.igamma(a if a.requires_grad else a * x, x).sum(1)
    with pytest.raises(MissingRule, match="first argument"):
        Taylor().jet(f, x, x, 1)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("x", [-30.0, -11.0, 11.0, 30.0])
def test_tails_of_sinc(x: float, order: int) -> None:
    found, truth = derivatives(torch.sinc, x, order), exact(mpmath.sincpi, x)[: order + 1]
    assert found[0] == pytest.approx(truth[0], rel=1e-10, abs=1e-15)
    assert found[1:] == pytest.approx(truth[1:], rel=1e-10, abs=3e-14)


@pytest.mark.parametrize("x", [0.0, 1e-9, -1e-4, 0.02, -0.3, 0.477, 0.478, 0.6])
def test_sinc_near_zero(x: float) -> None:
    assert derivatives(torch.sinc, x, 4) == pytest.approx(
        exact(mpmath.sincpi, x), rel=1e-9, abs=1e-10
    )


@pytest.mark.parametrize("x", [-30.0, -11.0, 11.0, 30.0])
def test_tails_of_the_normal_distribution(x: float) -> None:
    g = lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
    found, truth = derivatives(torch.special.log_ndtr, x, 3), exact(g, x)[:4]
    assert found == pytest.approx(truth, rel=1e-10, abs=1e-14 * abs(x) ** 5)
