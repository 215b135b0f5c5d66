"""Modified Bessel functions are accurate near zero, in between and far away."""

import mpmath
import pytest
import torch

from fdsm.derivatives import KinkWarning, Taylor
from fdsm.derivatives.taylor.rules import bessel

from ..agreement import assert_rule, names_of_rules
from .elementwise_cases import (
    Domain,
    ElementwiseCases,
    Function,
    assert_types_are_kept,
    derivatives,
    each_case,
    points,
)

BOTH, FAR = (-7.0, 7.0), (3.0, 40.0)
SMOOTH: ElementwiseCases = {
    "i0": (BOTH, (torch.i0, lambda x: x.clone().i0_())),
    "special_i0": (BOTH, (torch.special.i0,)),
    "special_i1": (BOTH, (torch.special.i1,)),
}
KINKED: ElementwiseCases = {
    "special_i0e": (FAR, (torch.special.i0e, lambda x: torch.special.i0e(-x))),
    "special_i1e": (FAR, (torch.special.i1e, lambda x: torch.special.i1e(-x))),
}
ignoring_kinks = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(bessel) == set(SMOOTH | KINKED)


@ignoring_kinks
@pytest.mark.parametrize(("f", "domain"), each_case(SMOOTH | KINKED))
def test_agrees_with_autodiff(f: Function, domain: Domain) -> None:
    assert_rule(f, points(domain))


@ignoring_kinks
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype) -> None:
    assert_types_are_kept(SMOOTH | KINKED, dtype)


def exact(n: int, sign: int, x: float) -> list[float]:
    """Return the derivatives of $e^{-s x} I_n(x)$ up to the fourth, computed with many digits."""
    with mpmath.workdps(60):
        g = lambda x: mpmath.exp(-sign * x) * mpmath.besseli(n, x)
        return [float(c * mpmath.factorial(k)) for k, c in enumerate(mpmath.taylor(g, x, 4))]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("x", [0.0, 1e-6, -0.003, 0.7, -3.999, 4.001, -11.0, 40.0, 600.0])
@pytest.mark.parametrize("n", [0, 1])
def test_derivatives(n: int, x: float, order: int) -> None:
    found = derivatives((torch.special.i0, torch.special.i1)[n], x, order)
    assert found == pytest.approx(exact(n, 0, x)[: order + 1], rel=1e-13)


@ignoring_kinks
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("x", [1e-6, -0.003, 0.7, -3.999, 4.001, -11.0, 19.9, 20.1, -45.0, 1e3])
@pytest.mark.parametrize("n", [0, 1])
def test_scaled_derivatives(n: int, x: float, order: int) -> None:
    """Each is relative to itself, though the fourth is 10⁻¹¹ of the value at 1,000."""
    found = derivatives((torch.special.i0e, torch.special.i1e)[n], x, order)
    truth = exact(n, 1 if x > 0 else -1, x)[: order + 1]
    assert found == pytest.approx(truth, rel=1e-10, abs=0)


@pytest.mark.parametrize("f", [torch.special.i0e, torch.special.i1e])
def test_kinks_are_reported(f: Function) -> None:
    with pytest.warns(KinkWarning, match=r"i\de"):
        Taylor().jet(lambda x: f(x).sum(1), torch.ones(1, 2), torch.ones(1, 2), 2)
