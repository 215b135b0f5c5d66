"""Products of matrices and vectors, and einsum."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff, Taylor
from fdsm.derivatives.taylor.rules import matmul

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import Rule, nonzero_constant, parameters

C = nonzero_constant
CASES: dict[str, tuple[Rule, ...]] = {
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
    "__rmatmul__": (lambda x: x.__rmatmul__(C(2, 3)),),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(matmul) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, nonzero_constant(3, 4))


PARAMETRIC: dict[str, tuple[tuple[int, ...], Callable[[Tensor, Tensor], Tensor]]] = {
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
    "non-contiguous": ((4, 5), lambda x, w: functional.linear(x.sin(), w.T, w[0, ::1]).T.cos()),
    "expanded": ((1, 4), lambda x, w: functional.linear(x, w.expand(5, 4), w.expand(5, 4)[:, 0])),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_gradients_of_parameters(name: str) -> None:
    shape, f = PARAMETRIC[name]
    w = nonzero_constant(*shape)
    before = w.clone()
    assert_rule(lambda x: f(x, w), nonzero_constant(3, 4), w)
    assert torch.equal(w, before)


@pytest.mark.parametrize("left", [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4)], ids=str)
@pytest.mark.parametrize("right", [(4,), (4, 3), (2, 4, 3), (2, 1, 4, 3)], ids=str)
def test_matmul_of_all_ranks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a = lambda x: x[: torch.Size(left).numel()].view(left)
    b = lambda x: x[-torch.Size(right).numel() :].view(right)
    for f in (
        lambda x: a(x) @ b(x.sin()),
        lambda x: a(x) @ nonzero_constant(*right),
        lambda x: nonzero_constant(*left) @ b(x),
    ):
        assert_rule(f, nonzero_constant(50))


def test_adding_a_bias_in_place_changes_no_other_tensor() -> None:
    """The output of a layer is changed in place, but no parameter, input or earlier result."""
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
