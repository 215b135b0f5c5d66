"""Sums, products, quotients and powers of all shapes, degrees and types."""

import operator
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Autodiff, Jet, Taylor
from fdsm.derivatives.taylor.rules import arithmetic

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import Rule, nonzero_constant, parameters

C = nonzero_constant
CASES: dict[str, tuple[Rule, ...]] = {
    "add": (
        lambda x: x + 2,
        lambda x: 2.5 + x,
        lambda x: torch.add(x, x.sin(), alpha=0.3),
        lambda x: x.sin().add(x, alpha=-2),
        lambda x: torch.add(C(3, 4), x, alpha=0.7),
        lambda x: x.add(other=C(4)),
        lambda x: torch.add(input=x, other=x[0]),
        lambda x: x.clone().add_(x.sin()),
    ),
    "sub": (
        lambda x: x - 2,
        lambda x: 2 - x,
        lambda x: C(3, 4) - x,
        lambda x: x - C(2, 1, 4),
        lambda x: C(2, 1, 4) - x,
        lambda x: x.sub(x.exp(), alpha=0.4),
        lambda x: torch.sub(C(4), x.exp(), alpha=3),
        lambda x: x.exp() - x,
    ),
    "subtract": (lambda x: torch.subtract(x, x.exp()),),
    "rsub": (
        lambda x: torch.rsub(x, 3),
        lambda x: torch.rsub(x, C(3, 4), alpha=2),
        lambda x: torch.rsub(x, x.exp(), alpha=0.5),
    ),
    "__rsub__": (lambda x: x.__rsub__(3.0), lambda x: Tensor.__rsub__(x, C(4))),
    "mul": (
        lambda x: x * 3,
        lambda x: x * x,
        lambda x: x.mul(x[0]),
        lambda x: x[:, :1] * x[:1].sin(),
        lambda x: torch.mul(input=C(2, 3, 1), other=x),
    ),
    "multiply": (lambda x: torch.multiply(x, x.cos()),),
    "neg": (lambda x: -x, lambda x: x.neg()),
    "negative": (lambda x: x.negative(),),
    "div": (
        lambda x: x / 3,
        lambda x: 3 / (x + 5),
        lambda x: x / C(2, 1, 4),
        lambda x: C(2, 1, 4) / (x + 5),
        lambda x: x.sin() / (x + 5),
        lambda x: torch.div(x, C(4), rounding_mode=None),
        lambda x: x * torch.div(x, C(4), rounding_mode="floor"),
        lambda x: x * torch.div(x, x.exp(), rounding_mode="trunc"),
        lambda x: x.clone().div_(x + 5),
    ),
    "divide": (lambda x: torch.divide(x, x + 5),),
    "true_divide": (lambda x: torch.true_divide(C(4), x + 5),),
    "__rdiv__": (lambda x: (x + 5).__rdiv__(2.0), lambda x: (x + 5).__rtruediv__(C(4))),
    "float_power": (
        lambda x: torch.float_power(x, 3),
        lambda x: torch.float_power(x + 3, C(4)),
        lambda x: x.float_power(2),
        lambda x: torch.float_power(2, x),
    ),
    "addcmul": (
        lambda x: torch.addcmul(x, x, x.sin(), value=0.3),
        lambda x: torch.addcmul(C(3, 4), C(4), x, value=-1),
        lambda x: x.clone().addcmul_(x, C(4)),
    ),
    "addcdiv": (
        lambda x: torch.addcdiv(x, x, x + 5, value=0.3),
        lambda x: torch.addcdiv(C(3, 4), C(4), x + 5),
    ),
    "lerp": (
        lambda x: torch.lerp(x, x.exp(), 0.3),
        lambda x: torch.lerp(C(3, 4), C(4) * 2, x),
        lambda x: x.lerp(C(3, 4), weight=x.sigmoid()),
    ),
    "pow": (
        *(
            (lambda x, p=p: (x.square() + 0.5) ** p)
            for p in (0, 1, 2, 3, -1, 0.5, -0.3, 2.0, True)
        ),
        lambda x: x**2,
        lambda x: x**3 + x**4,
        lambda x: x**-2,
        lambda x: torch.pow(x, exponent=3),
        lambda x: x ** torch.tensor([0, 1, 2, 3]),
        lambda x: x ** torch.tensor(2.0),
        lambda x: x ** torch.tensor([0.0, 1.0, 2.0, -3.0]),
        lambda x: (x + 3) ** C(2, 1, 4),
        lambda x: (x + 3).pow(x),
        lambda x: 2**x,
        lambda x: torch.pow(0.7, x),
        lambda x: C(4).abs() ** x,
        lambda x: C(2, 1, 4).abs() ** (x + 3),
        lambda x: (x + 3).clone().pow_(2),
        lambda x: operator.pow(C(4).abs(), x),
        lambda x: (x - 2).pow(torch.full_like(x, 3)),
        lambda x: torch.full_like(x, 2).pow(x),
    ),
    "positive": (lambda x: +x, lambda x: torch.positive(x)),
    "__rpow__": (lambda x: x.__rpow__(2.0), lambda x: x.__rpow__(C(4).abs())),
    "fmod": (
        lambda x: torch.fmod(x - 2, -torch.ones(4) * 0.7),
        lambda x: torch.fmod(x - 2, 0.7),
        lambda x: torch.fmod(C(4), x.square() + 0.3),
    ),
    "remainder": (
        lambda x: torch.remainder(x - 2, 0.7),
        lambda x: x % C(3, 1),
        lambda x: torch.remainder(C(4), x.square() + 0.3),
    ),
    "__rmod__": (lambda x: reflected_remainder(2.3, x.square() + 0.3),),
}


def reflected_remainder(a: float, b: Tensor) -> Tensor:
    """Return `a % b`, which Autodiff cannot differentiate if `a` is a number."""
    return a % b if isinstance(b, Jet) else torch.remainder(torch.tensor(a), b)


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(arithmetic) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, nonzero_constant(3, 4))


PARAMETRIC: dict[str, tuple[tuple[int, ...], Callable[[Tensor, Tensor], Tensor]]] = {
    "add": ((4,), lambda x, w: x + w),
    "add larger": ((2, 1, 4), lambda x, w: (x + w).square()),
    "add smaller": ((3, 1), lambda x, w: (w - x).square()),
    "add scaled": ((3, 4), lambda x, w: torch.add(x, w, alpha=0.3).square()),
    "mul": ((3, 1), lambda x, w: (x * w).sin()),
    "mul by a number": ((), lambda x, w: (w * x).sin()),
    "div": ((2, 1, 4), lambda x, w: (x / w).sin()),
    "rdiv": ((4,), lambda x, w: w / (x + 5)),
    "power": ((4,), lambda x, w: (x + 3) ** w),
    "exponential": ((4,), lambda x, w: w.abs() ** x),
    "natural exponents": ((4,), lambda x, w: (x + 3) ** (w - w.detach() + torch.arange(3.0, 7.0))),
    "lerp": ((4,), lambda x, w: torch.lerp(x, x.sin(), w)),
    "where": ((4,), lambda x, w: torch.where(x > 0, x * w, w)),
    "cat": ((3, 2), lambda x, w: torch.cat([x.sin(), w], 1)),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_gradients_of_parameters(name: str) -> None:
    shape, f = PARAMETRIC[name]
    w = nonzero_constant(*shape)
    before = w.clone()
    assert_rule(lambda x: f(x, w), nonzero_constant(3, 4), w)
    assert torch.equal(w, before)


SHAPES = [(), (4,), (3, 1), (3, 4), (2, 1, 4), (5, 2, 3, 1)]


@pytest.mark.parametrize(
    "f", [torch.add, torch.sub, torch.mul, torch.div], ids=operator.attrgetter("__name__")
)
@pytest.mark.parametrize("left", SHAPES, ids=str)
def test_broadcasting(f: Callable[[Tensor, Tensor], Tensor], left: tuple[int, ...]) -> None:
    """All pairs of shapes, of series of degrees one and two, and of constants."""
    x, v = nonzero_constant(1, 120), nonzero_constant(1, 120).flip(1)
    for right in SHAPES:
        weights = nonzero_constant(4, *torch.broadcast_shapes(left, right))

        def g(x: Tensor, right: tuple[int, ...] = right, weights: Tensor = weights) -> Tensor:
            a = x[0, : torch.Size(left).numel()].view(left)
            b = 3 + x[0, -torch.Size(right).numel() :].view(right).sin()
            results = (
                f(a, b),
                f(b, 3 + a),
                f(a, nonzero_constant(*right)),
                f(nonzero_constant(*left), b),
            )
            return (torch.stack(results) * weights).sum()[None]

        found, truth = Taylor().jet(g, x, v, 2), Autodiff().jet(g, x, v, 2)
        torch.testing.assert_close(found, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("number", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("inner", [(3, 4), ()], ids=str)
def test_result_types_are_those_of_torch(
    number: torch.dtype, shape: tuple[int, ...], inner: tuple[int, ...]
) -> None:
    other, types = torch.ones(shape).to(number), []
    functions = [
        *(lambda a, b, f=f: f(a, b) for f in (torch.add, torch.mul, torch.div, torch.pow)),
        *(lambda a, b, f=f: f(b, a) for f in (torch.add, torch.mul, torch.div, torch.pow)),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.where(a > 0, b, a),
        lambda a, b: torch.masked_fill(a, a > 0, b.to(torch.float64).sum()),
        torch.float_power,
    ]
    if number != torch.bool:
        functions += [torch.sub, lambda a, b: b - a]

    def f(x: Tensor) -> Tensor:
        part = x[0, :3] if inner else x[0, 0, 0]
        results = [function(part + 1, other) for function in functions]
        types.append([y.dtype for y in results])
        return torch.stack([y.sum().double() for y in results]).sum()[None]

    x = torch.randn(1, 3, 4, dtype=torch.float32)
    f(x)
    terms = Taylor().jet(f, x, torch.ones_like(x), 2)
    assert types[0] == types[1]
    assert all(term.isfinite().all() for term in terms)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 2.0, 3.0])
@pytest.mark.parametrize("tensor", [False, True])
def test_natural_powers_of_zero(exponent: float, tensor: bool) -> None:
    power = torch.tensor(exponent) if tensor else exponent
    x, v = torch.zeros(1, 1), torch.full((1, 1), 2.0)
    found = Taylor().jet(lambda x: (x**power)[:, 0], x, v, 4)
    truth = [0.0] * 5
    truth[int(exponent)] = 2.0**exponent * torch.arange(1, exponent + 1).prod().item()
    assert [term.item() for term in found] == truth


@pytest.mark.parametrize("base", [0.0, torch.tensor(0.0)])
def test_powers_with_base_zero(base: float | Tensor) -> None:
    found = Taylor().jet(lambda x: (base**x)[:, 0], torch.ones(1, 1), torch.ones(1, 1), 2)
    assert [term.item() for term in found] == [0.0, 0.0, 0.0]


def test_roots_of_zero_have_values() -> None:
    x = torch.zeros(1, 1)
    for f in (torch.sqrt, lambda x: x**0.5, lambda x: x ** torch.tensor(0.5)):
        value, slope = Taylor().jet(lambda x, f=f: f(x)[:, 0], x, torch.ones(1, 1), 1)
        assert value == 0
        assert not slope.isfinite()
