"""Checks that the tests of all elementwise functions share."""

from collections.abc import Callable, Iterable
from functools import cache

import mpmath
import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Autodiff, Taylor

EVERYWHERE, POSITIVE, UNIT, INSIDE = (-2.0, 2.0), (0.3, 3.0), (0.1, 0.9), (-0.9, 0.9)
Function = Callable[[Tensor], Tensor]
Domain = tuple[float, float]
ElementwiseCases = dict[str, tuple[Domain, tuple[Function, ...]]]


def each_case(cases: ElementwiseCases) -> Iterable[object]:
    """Return all functions with their domains, with their names as ids."""
    return [pytest.param(f, domain, id=name) for name, (domain, fs) in cases.items() for f in fs]


def points(domain: Domain) -> Tensor:
    """Return a small matrix of points, none of them special."""
    low, high = domain
    spread = torch.tensor([0.03, 0.21, 0.34, 0.48, 0.77, 0.96]).view(2, 3)
    return low + (high - low) * spread


def assert_high_orders_agree(f: Function, domain: Domain) -> None:
    """Check the derivatives up to the sixth against Autodiff."""
    x = points(domain).view(-1, 1)
    v = torch.full_like(x, (domain[1] - domain[0]) / 8)
    g = lambda x: (x * 0.9 + 0.1 * x.detach() + (x - x.detach()).square()).sum(1)
    h = lambda x: f(g(x).clone())
    for found, truth in zip(Taylor().jet(h, x, v, 6), Autodiff().jet(h, x, v, 6), strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-9)


def assert_types_are_kept(cases: ElementwiseCases, dtype: torch.dtype) -> None:
    """Check the types of all derivatives, and that they are finite."""
    for domain, functions in cases.values():
        for f in functions:
            x = points(domain)[:1].to(dtype)
            try:
                expected = f(x)
            except (NotImplementedError, RuntimeError):
                continue  # torch does not have the function for this type
            found = Taylor().jet(lambda x, f=f: f(x).sum(1), x, torch.ones_like(x), 2)
            assert {term.dtype for term in found} == {expected.dtype}
            assert all(term.isfinite().all() for term in found)


def derivatives(f: Callable[[Tensor], Tensor], x: float, order: int) -> list[float]:
    """Return the derivatives of a function of one number by Taylor."""
    where, along = torch.tensor([[x]]), torch.ones(1, 1)
    return [term.item() for term in Taylor().jet(lambda x: f(x[:, 0]), where, along, order)]


@cache
def exact(g: Callable[[mpmath.mpf], mpmath.mpf], x: float) -> list[float]:
    """Return the derivatives of a function up to the fourth, computed with many digits."""
    with mpmath.workdps(250 if abs(x) > 20 else 80):
        return [float(c * mpmath.factorial(k)) for k, c in enumerate(mpmath.taylor(g, x, 4))]
