"""Sums and products of jets and constants of all shapes, degrees and types."""

import operator
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Taylor, einsum, matrix_products, products, sums
from tests.derivatives.taylor.agreement import assert_rule, names_of_rules

Rule = Callable[[Tensor], Tensor]


def constant(*shape: int) -> Tensor:
    """Return a tensor that is the same for the same shape, with elements away from zero."""
    generator = torch.Generator().manual_seed(sum(shape) + 100 * len(shape))
    values = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
    return torch.where(torch.rand(shape, generator=generator) < 0.3, -values, values)


C = constant
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
    ),
    "float_power": (
        lambda x: torch.float_power(x, 3),
        lambda x: torch.float_power(x + 3, C(4)),
        lambda x: x.float_power(2),
        lambda x: torch.float_power(2, x),
    ),
    "matmul": (
        lambda x: torch.matmul(x, C(4, 2)),
        lambda x: x @ x.mT,
        lambda x: torch.matmul(input=x, other=C(4)),
    ),
    "linalg_matmul": (lambda x: torch.linalg.matmul(C(5, 3), x),),
    "mm": (lambda x: torch.mm(x, x.T), lambda x: x.mm(mat2=C(4, 2)), lambda x: C(2, 3).mm(x)),
    "bmm": (
        lambda x: torch.bmm(x[:, None], x[:, :, None]),
        lambda x: torch.bmm(C(3, 5, 4), x[:, :, None]),
        lambda x: x[:, None].bmm(C(3, 4, 5)),
    ),
    "mv": (lambda x: torch.mv(x, x[0]), lambda x: C(2, 4).mv(x[0]), lambda x: x.mv(C(4))),
    "dot": (lambda x: x[0].dot(x[1]), lambda x: torch.dot(C(4), x[1])),
    "vdot": (lambda x: torch.vdot(x[0], x[1].exp()),),
    "linalg_multi_dot": (
        lambda x: torch.linalg.multi_dot([x, C(4, 2), C(2, 3), x]),
        lambda x: torch.linalg.multi_dot((C(3), x, x[0])),
    ),
    "chain_matmul": (lambda x: torch.chain_matmul(x, C(4, 2), C(2, 3)),),
    "linalg_vecdot": (
        lambda x: torch.linalg.vecdot(x, x.exp()),
        lambda x: torch.linalg.vecdot(C(3, 1), x, dim=0),
    ),
    "cross": (
        lambda x: torch.cross(x, x.exp(), dim=0),
        lambda x: torch.cross(C(3, 4), x, dim=-2),
        lambda x: x[:, :3].cross(C(3, 3), 1),
    ),
    "linalg_cross": (
        lambda x: torch.linalg.cross(x[:, :3], x[:, 1:].exp()),
        lambda x: torch.linalg.cross(x, C(3, 4), dim=0),
        lambda x: torch.linalg.cross(x[:1, :3], C(3, 3)),
    ),
    "kron": (
        lambda x: torch.kron(x, x.sin()),
        lambda x: torch.kron(C(2), x),
        lambda x: x.kron(C(2, 1, 3)),
    ),
    "linear": (
        lambda x: functional.linear(x, C(5, 4), C(5)),
        lambda x: functional.linear(x, C(5, 4)),
        lambda x: functional.linear(x[0], C(5, 4), bias=C(5)),
        lambda x: functional.linear(x, C(4)),
        lambda x: functional.linear(C(2, 4), x[0]),
        lambda x: functional.linear(C(2, 4), x, x[:, 0]),
        lambda x: functional.linear(x, C(3, 4), x[:, 0]),
        lambda x: functional.linear(x, x.sin(), C(3)),
        lambda x: functional.linear(x.expand(2, 5, 3, 4), C(2, 4), C(2)),
    ),
    "addmm": (
        lambda x: torch.addmm(C(3), x, x.T),
        lambda x: torch.addmm(x, C(3, 2), C(2, 4), beta=0.3, alpha=2),
        lambda x: x.addmm(x, C(4, 4), alpha=-1),
        lambda x: x.clone().addmm_(C(3, 3), x),
        lambda x: torch.addmm(input=x, mat2=x, mat1=C(3, 3)),
    ),
    "addmv": (lambda x: torch.addmv(C(3), x, x[0], alpha=2), lambda x: x[:, 0].addmv(x, C(4))),
    "baddbmm": (
        lambda x: torch.baddbmm(C(3, 2, 1), C(3, 2, 4), x[:, :, None], beta=0.1, alpha=0.2),
    ),
    "addbmm": (lambda x: torch.addbmm(C(2, 1), C(3, 2, 4), x[:, :, None], beta=2, alpha=0.2),),
    "addr": (
        lambda x: torch.addr(x, x[:, 0], x[0], beta=0.5, alpha=2),
        lambda x: x.addr(C(3), C(4)),
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
    "outer": (lambda x: torch.outer(x[0], x[:, 1]), lambda x: C(3).outer(x[0])),
    "ger": (lambda x: torch.ger(x[0], C(2)),),
    "inner": (
        lambda x: torch.inner(x, x),
        lambda x: torch.inner(x, C(2, 5, 4)),
        lambda x: torch.inner(x, C(1)[0]),
        lambda x: torch.inner(x[0], x[1]),
    ),
    "tensordot": (
        lambda x: torch.tensordot(x, x),
        lambda x: torch.tensordot(x, C(4, 5, 3), 1),
        lambda x: torch.tensordot(x, C(4, 5, 3), dims=([0, 1], [2, 0])),
        lambda x: torch.tensordot(C(4, 5, 3), x, dims=([-1, 0], [0, -1])),
        lambda x: torch.tensordot(x, C(2), dims=0),
    ),
    "bilinear": (
        lambda x: functional.bilinear(x, x.sin(), C(2, 4, 4), C(2)),
        lambda x: functional.bilinear(input2=C(3, 5), input1=x, weight=C(2, 4, 5)),
        lambda x: functional.bilinear(C(2, 3, 5), x.expand(2, 3, 4), C(2, 5, 4), C(2)),
    ),
    "einsum": (
        *(
            (lambda x, equation=equation, factors=factors: torch.einsum(equation, *factors(x)))
            for equation, factors in [
                ("ij->j", lambda x: (x,)),
                ("ij", lambda x: (x,)),
                ("ji", lambda x: (x,)),
                ("ii->i", lambda x: (x[:, :3],)),
                ("ii", lambda x: (x[:, :3],)),
                ("...j->...", lambda x: (x,)),
                ("bi, oi -> bo", lambda x: (x, C(5, 4))),
                ("bi,oi", lambda x: (C(5, 4), x)),
                ("ij,ij->", lambda x: (x, x.sin())),
                ("ij,kj", lambda x: (x, x)),
                ("...i,...i->...", lambda x: (x, x.exp())),
                ("i...,...->i...", lambda x: (x, x[0])),
                ("...ij,jk->...ik", lambda x: (x.expand(2, 3, 4), C(4, 2))),
                ("bi,ij,bj->b", lambda x: (x, C(4, 4), x)),
                ("i,ij,kij->k", lambda x: (C(3), x, C(2, 3, 4))),
                ("bi,bj,bk->ijk", lambda x: (x, x.sin(), x.cos())),
                ("bi,bi,bi,bj->bj", lambda x: (x, x.sin(), x.cos(), C(3, 2))),
                ("...i,...i,...j->...j", lambda x: (x, x.sin(), x.cos())),
                ("ii,i->", lambda x: (x[:, :3], x[0, :3])),
                ("Ai,Zi->AZ", lambda x: (x, x)),
                (",ij->ij", lambda x: (x[0, 0], x)),
            ]
        ),
        lambda x: torch.einsum("ij,ij->i", [x, C(3, 4)]),
        lambda x: torch.einsum(x, [0, 1], C(4, 2), [1, 2], [2, 0]),
    ),
}


def test_all_rules_are_tested() -> None:
    families = (products, sums, matrix_products, einsum)
    assert set().union(*map(names_of_rules, families)) == set(CASES)


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, fs in CASES.items() for f in fs])
@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
def test_agrees(f: Rule) -> None:
    assert_rule(f, constant(3, 4))


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
    "matmul": ((4, 2), lambda x, w: (x @ w).sin()),
    "rmatmul": ((2, 3), lambda x, w: (w @ x).sin()),
    "mv": ((4,), lambda x, w: (x @ w).sin()),
    "linear": ((5, 4), lambda x, w: functional.linear(x, w, w[:, 0]).sin()),
    "linear used twice": (
        (4, 4),
        lambda x, w: functional.linear(functional.linear(x, w, w[0]).sin(), w, w[0]),
    ),
    "addmm": ((4, 4), lambda x, w: torch.addmm(w[0], x, w, beta=0.5, alpha=0.3)),
    "bilinear": ((2, 4, 4), lambda x, w: functional.bilinear(x, x.sin(), w, w[:, 0, 0])),
    "einsum": ((4, 4), lambda x, w: torch.einsum("bi,ij,bj->b", x, w, x.sin())),
    "lerp": ((4,), lambda x, w: torch.lerp(x, x.sin(), w)),
    "where": ((4,), lambda x, w: torch.where(x > 0, x * w, w)),
    "cat": ((3, 2), lambda x, w: torch.cat([x.sin(), w], 1)),
    "non-contiguous": ((4, 5), lambda x, w: functional.linear(x.sin(), w.T, w[0, ::1]).T.cos()),
    "expanded": ((1, 4), lambda x, w: functional.linear(x, w.expand(5, 4), w.expand(5, 4)[:, 0])),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_gradients_of_parameters(name: str) -> None:
    shape, f = PARAMETRIC[name]
    w = constant(*shape)
    before = w.clone()
    assert_rule(lambda x: f(x, w), constant(3, 4), w)
    assert torch.equal(w, before)


SHAPES = [(), (4,), (3, 1), (3, 4), (2, 1, 4), (5, 2, 3, 1)]


@pytest.mark.parametrize(
    "f", [torch.add, torch.sub, torch.mul, torch.div], ids=operator.attrgetter("__name__")
)
@pytest.mark.parametrize("left", SHAPES, ids=str)
def test_broadcasting(f: Callable[[Tensor, Tensor], Tensor], left: tuple[int, ...]) -> None:
    """All pairs of shapes, of series of degrees one and two, and of constants."""
    x, v = constant(1, 120), constant(1, 120).flip(1)
    for right in SHAPES:
        weights = constant(4, *torch.broadcast_shapes(left, right))

        def g(x: Tensor, right: tuple[int, ...] = right, weights: Tensor = weights) -> Tensor:
            a = x[0, : torch.Size(left).numel()].view(left)
            b = 3 + x[0, -torch.Size(right).numel() :].view(right).sin()
            results = f(a, b), f(b, 3 + a), f(a, constant(*right)), f(constant(*left), b)
            return (torch.stack(results) * weights).sum()[None]

        found, truth = Taylor().jet(g, x, v, 2), Autodiff().jet(g, x, v, 2)
        torch.testing.assert_close(found, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("left", [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4)], ids=str)
@pytest.mark.parametrize("right", [(4,), (4, 3), (2, 4, 3), (2, 1, 4, 3)], ids=str)
def test_matmul_of_all_ranks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a = lambda x: x[: torch.Size(left).numel()].view(left)
    b = lambda x: x[-torch.Size(right).numel() :].view(right)
    for f in (
        lambda x: a(x) @ b(x.sin()),
        lambda x: a(x) @ constant(*right),
        lambda x: constant(*left) @ b(x),
    ):
        assert_rule(f, constant(50))


@pytest.mark.parametrize("number", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("inner", [(3, 4), ()], ids=str)
def test_types_as_torch_has_them(
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


def test_shift_in_place_leaves_others_alone() -> None:
    """What a layer makes is changed in place, but no parameter, input or earlier result is."""
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(3, 4, requires_grad=True)
    before = [p.clone() for p in (x, *layer.parameters())]

    def f(x: Tensor) -> Tensor:
        a, b = layer(x), layer(x)
        c = 1 - a
        return (a * b * c + a.sin() * layer(c) + (2 - c)).sum(1)

    v = torch.randn(3, 4)
    parameters = [x, *layer.parameters()]
    results = []
    for engine in (Taylor(), Autodiff()):
        terms = engine.jet(f, x, v, 2)
        first = torch.autograd.grad(terms[2].sum(), parameters, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), parameters)
        results.append((*terms, *first, *second))
    torch.testing.assert_close(*results)
    assert all(torch.equal(p, q) for p, q in zip((x, *layer.parameters()), before, strict=True))


def test_autocast() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1), torch.nn.Flatten(0)
    ).float()
    x, v = torch.randn(2, 5, 4, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = Taylor().jet(model, x, v, 2)
        assert model(x).dtype == torch.bfloat16
    truth = Autodiff().jet(model, x, v, 2)
    torch.testing.assert_close(list(found), list(truth), rtol=0.1, atol=0.1)


def test_types_that_do_not_match_are_refused() -> None:
    layer = torch.nn.Linear(4, 1).double()
    with pytest.raises(RuntimeError, match="dtype"):
        Taylor().jet(
            lambda x: layer(x)[:, 0], torch.ones(2, 4).float(), torch.ones(2, 4).float(), 1
        )
