"""Complex numbers inside of a model: right if there is a rule, refused otherwise."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import Autodiff, MissingRule, Taylor
from fdsm.derivatives.taylor.registry import _COMPLEX_RULES, _LINEAR, _RULES

from ..agreement import assert_agrees, assert_rule
from .tensor_cases import Rule, constant, parts

X = constant(2, 3, 4)
W = torch.complex(constant(4, 3), constant(3, 4).T.sin())
INDEX = torch.tensor([[0, 2, 1, 1]])


def z(x: Tensor) -> Tensor:
    """Return a complex tensor of degree one if the input is."""
    return torch.complex(x, 2 * x.roll(1, 0)) + (0.3 - 0.2j)


def curved(x: Tensor) -> Tensor:
    """Return a complex tensor of all degrees."""
    return torch.polar(x.cosh(), x.sin())


def written(y: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    """Return a copy of a tensor after something was written into it."""
    copy = y * (1 + 1j)
    write(copy)
    return copy


CASES: dict[str, Rule] = {
    "add": lambda x: z(x) + curved(x) + x + 1j + torch.add(z(x), x, alpha=2) + W[:, 0],
    "add_to_real": lambda x: (x + 1j * x.exp()) + torch.add(x, W.T, alpha=-1.5) + (2 - z(x)),
    "sub": lambda x: z(x) - curved(x) - 2j - torch.rsub(z(x), x) - (1j - z(x)),
    "mul": lambda x: z(x) * curved(x) * W.T + x * z(x) * 1j + z(x.sin()).mul(3),
    "mul_of_parts": lambda x: x * W.T + (W.T * x) * z(x),
    "div": lambda x: z(x) / (curved(x) + 3) + z(x) / W.T + x / (z(x) + 3j) + curved(x) / (2 - 1j),
    "rdiv": lambda x: 1 / (z(x) + 4) + (2j / (curved(x) + 3)) + (z(x) + 3).reciprocal(),
    "pow": lambda x: z(x) ** 3 + curved(x).pow(2.0) + (z(x) + 3) ** -2 + z(x) ** 0,
    "square": lambda x: z(x).square() + curved(x).neg(),
    "exp": lambda x: z(x).exp() + (1j * x).exp() + curved(x).exp(),
    "log": lambda x: (z(x) + 2).log() + (curved(x) - 3).log(),
    "conj": lambda x: z(x).conj() * curved(x) + z(x).conj_physical() + torch.conj(x) + x.conj(),
    "resolved": lambda x: z(x).conj().resolve_conj() + z(x).imag.resolve_neg() + x.real,
    "adjoint": lambda x: z(x).mH @ z(x) + z(x).adjoint() @ curved(x) + (z(x)[0].H @ z(x)[1]),
    "view_as_real": lambda x: torch.view_as_real(z(x)) * torch.view_as_real(curved(x)),
    "view_as_complex": lambda x: torch.view_as_complex(x.sin().reshape(2, 3, 2, 2)).exp(),
    "complex": lambda x: torch.complex(x[0].exp(), x) * torch.complex(X, x.sin()),
    "polar": lambda x: torch.polar(X.exp(), x) + torch.polar(x.exp(), X[0]),
    "abs": lambda x: z(x).abs() + curved(x).absolute() + torch.view_as_real(z(x)).sum(),
    "angle": lambda x: z(x).angle() + x * x.angle(),
    "vector_norm": lambda x: torch.linalg.vector_norm(z(x), 3, 1, True)
    + torch.linalg.vector_norm(z(x), dim=(0, -1), keepdim=True),
    "vector_norm_of_all": lambda x: torch.linalg.vector_norm(curved(x)) + z(x).norm()
    + z(x).norm(1) + z(x).norm(dim=1).sum() + torch.norm(z(x), 4, dim=-1, keepdim=True),
    "matmul": lambda x: z(x) @ W + curved(x) @ z(x).mT + z(x).matmul(W).mean(),
    "linear": lambda x: functional.linear(z(x), W.T, W[0]) + functional.linear(curved(x), W.T),
    "einsum": lambda x: torch.einsum("bij,jk,bkl->bil", z(x), W, curved(x)),
    "dots": lambda x: torch.vdot(z(x)[0, 0], curved(x)[1, 1]) + z(x)[0, 0].dot(W[:, 0])
    + torch.linalg.vecdot(z(x), curved(x), dim=1).sum() + torch.inner(z(x)[0, 0], W[:, 1]),
    "outer": lambda x: torch.outer(z(x)[0, 0], W[0]) + torch.kron(z(x)[0], W).sum()
    + torch.tensordot(z(x), W, 1).sum(),
    "addmm": lambda x: torch.addmm(W[:3, :3], z(x)[0], W) + torch.baddbmm(
        W[None, :3, :3], z(x), curved(x).mT
    ),
    "sums": lambda x: z(x).sum(1, True) + curved(x).mean() + z(x).cumsum(2) + z(x)[0].trace(),
    "prod": lambda x: z(x).prod(2, True) + curved(x).cumprod(1) + curved(x)[0].diff().sum(),
    "shapes": lambda x: z(x).reshape(4, 6).unsqueeze(0).permute(2, 0, 1).flatten().view(3, 8)
    + curved(x).movedim(0, 2).flatten(1),
    "more_shapes": lambda x: z(x).roll(1, 2).flip(0).tril() + z(x).repeat(1, 1, 2)[..., 2:6]
    + z(x).mT.mT.squeeze() + curved(x).expand(2, 3, 4),
    "joined": lambda x: torch.cat([z(x), W.T[None]], 0).sum(0) + torch.stack([z(x), curved(x)])[1],
    "split": lambda x: torch.stack(z(x).chunk(2, 2)) * torch.stack(curved(x).split(2, 2))
    + z(x).unbind(0)[0][:, :2],
    "index": lambda x: z(x)[:, 1:, [0, 2]] + z(x).index_select(2, INDEX[0, :2])[:, :2]
    + curved(x)[0].gather(1, INDEX.expand(3, 4))[:2, :2],
    "written": lambda x: written(z(x), lambda y: y[:, 1:].copy_(curved(x)[:, :2]))
    + written(z(x), lambda y: y.__setitem__((..., 0), 1j)),
    "in_place": lambda x: written(z(x), lambda y: y.mul_(curved(x)).add_(1j).sub_(x).div_(2j)),
    "written_parts": lambda x: written(z(x), lambda y: y.real.mul_(2)),
    "new": lambda x: written(
        x.new_zeros(2, 3, 4, dtype=torch.complex128),
        lambda y: y.__setitem__((..., slice(2)), z(x)[..., 2:]),
    ),
    "where": lambda x: torch.where(X > 0, z(x), curved(x)) + curved(x).masked_fill(X > 0, 1j),
    "pad": lambda x: functional.pad(z(x), (1, 0, 0, 2), value=2),
    "scattered": lambda x: z(x)[0].scatter_add(1, INDEX.expand(3, 4), curved(x)[0])
    + z(x)[0].index_add(0, INDEX[0, :3], curved(x)[0]),
    "converted": lambda x: x.to(torch.complex128) * x.cdouble() * z(x).type(torch.complex128),
    "clone": lambda x: z(x).clone().contiguous() * curved(x).detach() + z(x).detach().abs() * x,
    "queries": lambda x: z(x) * (z(x).isfinite() & (z(x) != 0) & (z(x) == z(x)))
    * z(x).dim() * z(x).is_complex() * z(x).numel(),
}  # fmt: skip


@pytest.mark.parametrize("f", CASES.values(), ids=CASES)
def test_agrees_with_autodiff(f: Rule) -> None:
    weight = W.detach().clone()
    assert_rule(lambda x: parts(f(x) * weight[0, 0]), X, weight)


@pytest.mark.parametrize("name", ["add", "mul", "div", "pow", "exp", "log", "abs", "einsum"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    f = lambda x: parts(CASES[name](x[0])).sin().sum()[None]
    assert_agrees(f, X[None].clone(), orders=(3, 4), directions=(), rtol=1e-9)


def test_complex_parameters_have_the_gradients_of_autodiff() -> None:
    a, b = (torch.randn(4, dtype=torch.complex128) for _ in range(2))

    def f(x: Tensor) -> Tensor:
        y = torch.complex(x, x.sin()) * a + b
        return (y / (3 + y.conj() * a)).abs().sum(1) + (y.exp() * b).real.sum(1)

    assert_agrees(f, torch.randn(3, 4), a, b, orders=(1, 2, 4))


def test_real_parameters_added_to_complex_numbers() -> None:
    a = torch.randn(4)
    f = lambda x: ((torch.complex(x, x.sin()) + a) * a).abs().sum(1)
    assert_agrees(f, torch.randn(3, 4), a)


def test_zero_has_the_derivatives_of_autodiff() -> None:
    f = lambda x: (torch.complex(x, 2 * x) * torch.tensor([1, 0])).abs().sum(1)
    x, v = torch.tensor([[1.0, 2.0]]), torch.ones(1, 2)
    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))
    norm = lambda x: torch.linalg.vector_norm(torch.complex(x, 2 * x), dim=1)
    x, v = torch.tensor([[0.0, 2.0]]), torch.ones(1, 2)
    torch.testing.assert_close(Taylor().jet(norm, x, v, 2), Autodiff().jet(norm, x, v, 2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: z(x).tanh(),
        lambda x: functional.silu(z(x)),
        lambda x: z(x).sin(),
        lambda x: z(x).sgn(),
        lambda x: z(x).var(),
        lambda x: z(x) ** 0.5,
        lambda x: z(x) ** x,
        lambda x: x**1j,
        lambda x: 2 ** z(x),
        lambda x: torch.linalg.solve(z(x)[:, :, :3], z(x)),
        lambda x: torch.linalg.eigvalsh(z(x)[:, :, :3]),
        lambda x: functional.conv1d(z(x), W[None, :3, :2]),
        lambda x: torch.linalg.norm(z(x), 2, (1, 2)),
        lambda x: x.softmax(1, dtype=torch.complex128),
        lambda x: z(x).double(),
        lambda x: z(x).requires_grad_(),
        lambda x: torch.prod(z(x)).sigmoid_(),
    ],
)
def test_other_functions_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(MissingRule, match="complex"):
        Taylor().jet(lambda x: (f(x[0]), x.sum((1, 2, 3)))[1], X[None], X[None], 2)


def test_custom_functions_are_refused() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return grad * 2

    with pytest.raises(MissingRule):
        Taylor().jet(lambda x: Double.apply(z(x)).abs().sum((1, 2)), X, X, 2)


def test_complex_results_are_refused() -> None:
    with pytest.raises(ValueError, match="real numbers"):
        Taylor().jet(lambda x: z(x).sum((1, 2)), X, X, 2)
    with pytest.raises(RuntimeError, match="complex result"):
        Taylor().jet(lambda x: (1 * x).mul_(1j).sum((1, 2)), X, X, 2)


def test_linear_functions_have_rules() -> None:
    """A function that is declared linear has a rule, and not another one for complex numbers."""
    named = {f for f in _LINEAR if f in _RULES}
    assert len(named) > 250
    assert not _LINEAR & _COMPLEX_RULES.keys()
