"""A jet passes for a tensor, and what would lose its derivatives fails in words."""

import copy
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import (
    Jet,
    MissingRule,
    Taylor,
    einsum,
    elementwise,
    linear,
    matrix_products,
    products,
    rule,
    shapes,
    sums,
    values,
)
from fdsm.derivatives.taylor.registry import _RULES
from fdsm.derivatives.taylor.series import Truncation
from tests.derivatives.taylor.agreement import is_from

OURS = (elementwise, linear, products, matrix_products, sums, einsum, shapes, values)


@pytest.fixture
def jet() -> Jet:
    return Jet(torch.arange(12.0).view(2, 2, 3), Truncation(2))


def refuses(f: Callable[[Tensor], object], match: str) -> None:
    """Check that a model is refused by a message."""
    x = torch.ones(2, 3)
    with pytest.raises(MissingRule, match=match):
        Taylor().jet(lambda x: (f(x), x.sum(1))[1], x, torch.ones_like(x), 2)


def test_it_passes_for_a_tensor(jet: Jet) -> None:
    assert isinstance(jet, Tensor)
    assert isinstance(jet, Jet)
    assert torch.is_tensor(jet)
    assert not isinstance(jet, nn.Parameter)
    assert (len(jet), jet.shape, jet.ndim, jet.size(1)) == (2, (2, 3), 2, 3)
    assert (jet.dtype, jet.device, jet.layout) == (
        torch.float64,
        torch.device("cpu"),
        torch.strided,
    )
    assert not any((jet.is_cuda, jet.is_sparse, jet.is_quantized, jet.requires_grad))
    assert (jet.is_cpu, jet.is_floating_point(), jet.is_complex()) == (True, True, False)


def test_coefficients(jet: Jet) -> None:
    assert jet.degree == 1
    assert torch.equal(jet.value, jet.coefficients[0])
    assert torch.equal(jet.part(1), jet.coefficients[1:])
    several = Jet(torch.zeros(5, 2), Truncation(2, 3))
    assert (several.degree, len(several.part(1)), len(several.part(2))) == (2, 3, 1)


def test_iteration(jet: Jet) -> None:
    rows = list(jet)
    assert [row.shape for row in rows] == [(3,), (3,)]
    assert torch.equal(rows[1].coefficients, jet.coefficients[:, 1])
    first, *others = jet
    assert torch.equal(first.value, rows[0].value)
    assert len(others) == 1
    assert [k for k, _ in enumerate(jet)] == [0, 1]


def test_numbers_of_python() -> None:
    x = Jet(torch.tensor([[2.5], [1.0]]), Truncation(1))
    assert [float(x)] == [2.5]
    assert int(x) == 2
    assert bool(x)
    assert f"{x.sum():.2f}" == "2.50"
    assert "Jet" in repr(x)
    larger = x.sum()
    assert max(larger, larger - 1) is larger


def test_truth_of_many_is_ambiguous(jet: Jet) -> None:
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(jet)


def test_it_can_be_hashed(jet: Jet) -> None:
    assert len({jet, jet, jet + 0}) == 2
    assert {jet: 1}[jet] == 1


def test_attributes(jet: Jet) -> None:
    assert not hasattr(jet, "nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        jet.nonsense  # ruff: ignore[useless-expression]
    assert getattr(jet, "nonsense", 3) == 3


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float32(1.5), np.int64(2)])
def test_numbers_of_numpy(scalar: np.generic, jet: Jet) -> None:
    for y in (scalar * jet, scalar + jet, scalar - jet, jet * scalar, jet / scalar):
        assert isinstance(y, Jet)
        assert y.shape == jet.shape


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_jets_or_errors(copied: Callable[[Jet], Jet], jet: Jet) -> None:
    try:
        other = copied(jet)
    except (MissingRule, RuntimeError, TypeError):
        return
    assert isinstance(other, Jet)
    assert torch.equal(other.coefficients, jet.coefficients)


def test_pickles_are_jets_or_errors(jet: Jet) -> None:
    try:
        other = pickle.loads(pickle.dumps(jet))
    except (MissingRule, RuntimeError, TypeError, AttributeError, pickle.PicklingError):
        return
    assert isinstance(other, Jet)
    assert torch.equal(other.coefficients, jet.coefficients)


LOSING = {
    "torch.tensor": lambda x: torch.tensor(x),
    "torch.as_tensor": lambda x: torch.as_tensor(x) * 1,
    "torch.asarray": lambda x: torch.asarray(x) * 1,
    "torch.Tensor": lambda x: torch.Tensor(x) * 1,
    "new_tensor": lambda x: torch.ones(1).new_tensor(x),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "numpy function": lambda x: np.exp(x),
    "set_": lambda x: torch.ones(2, 3).set_(x),
    "storage": lambda x: x.untyped_storage(),
    "aten": lambda x: torch.ops.aten.frac(x),
    "parameter": lambda x: nn.Parameter(x) * 1,
}


@pytest.mark.parametrize("name", LOSING)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_derivatives_are_not_lost_silently(name: str) -> None:
    """Whatever looks past the coefficients fails, or gives a jet that has them."""
    kept = []

    def f(x: Tensor) -> Tensor:
        kept.append(LOSING[name](x))
        return x.sum(1)

    try:
        Taylor().jet(f, torch.ones(2, 3), torch.ones(2, 3), 1)
    except (MissingRule, RuntimeError, TypeError, NotImplementedError, ValueError):
        return
    assert isinstance(kept[0], Jet)
    assert kept[0].degree == 1


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (torch.frac, r"torch\.frac"),
        (lambda x: x.frac(), r"torch\.Tensor\.frac"),
        (lambda x: x.frac_(), r"torch\.Tensor\.frac_"),
        (torch.special.i0, r"special\.i0"),
        (lambda x: functional.ctc_loss(x, x, x, x), r"torch\.nn\.functional\.ctc_loss"),
        (lambda x: torch.fft.fft(x), "fft_fft"),
        (lambda x: x.register_hook(print), "register_hook"),
        (lambda x: x.backward(), "backward"),
        (lambda x: x.grad, "grad"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: torch.linspace(x[0, 0], 1, 3), "linspace"),
    ],
)
def test_missing_rules_are_named(f: Callable[[Tensor], object], name: str) -> None:
    refuses(f, f"no rule for `.*{name}.*@fdsm.derivatives.rule.*fallback=Autodiff")


def test_gradients_switched_off() -> None:
    def f(x: Tensor) -> Tensor:
        with torch.no_grad():
            return x * 2

    refuses(f, r"switched off.*no_grad.*detach")


class Doubled(torch.autograd.Function):
    """A function with a backward pass of its own."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        return 2 * grad


def test_functions_with_their_own_backward() -> None:
    refuses(Doubled.apply, r"custom `autograd\.Function`")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_functions_with_their_own_backward_where_there_is_none(
    mode: Callable[[], AbstractContextManager[None]],
) -> None:
    with mode():
        refuses(Doubled.apply, r"custom `autograd\.Function`")


def test_fallback() -> None:
    x = torch.rand(2, 3) + 0.1
    f = lambda x: torch.special.i0(x).sum(1)
    found = Taylor(fallback=Autodiff()).jet(f, x, torch.ones_like(x), 2)
    torch.testing.assert_close(found, Autodiff().jet(f, x, torch.ones_like(x), 2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, out: torch.exp(x, out=out),
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.matmul(x, x.T, out=out),
        lambda x, out: torch.cat([x, x], out=out),
        lambda x, out: torch.sum(x, 1, out=out),
        lambda x, out: torch.tril(x, out=out),
        lambda x, out: torch.clamp(x, 0, 1, out=out),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_out_is_refused(f: Callable[[Tensor, Tensor], Tensor], plain: bool) -> None:
    out = torch.empty(0)
    refuses(lambda x: f(x, out if plain else x.sin()), "out")
    assert out.numel() == 0


def test_out_none_is_nothing() -> None:
    x = torch.ones(2, 3)
    value, slope = Taylor().jet(lambda x: torch.exp(x, out=None).sum(1), x, x, 1)
    torch.testing.assert_close(value, slope)


def test_own_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdsm.derivatives.taylor.registry._RULES", dict(_RULES))
    calls = []

    @rule("frac")
    def frac(x: Tensor) -> Tensor:
        calls.append(x)
        return x - x.detach().floor()

    x = torch.tensor([[1.5, -0.3]])
    for f in (torch.frac, lambda x: x.frac(), lambda x: (1 * x).frac_()):
        value, slope = Taylor().jet(lambda x, f=f: f(x).sum(1), x, torch.ones_like(x), 1)
        torch.testing.assert_close(value, torch.tensor([1.2]))
        assert slope == 2
    assert len(calls) == 3
    with pytest.raises(AttributeError, match="no function called 'nonsense'"):
        rule("nonsense")(frac)


PLACES = (torch, Tensor, functional, torch.special, torch.linalg, torch._C._nn)


def rules_by_place(name: str) -> list[object]:
    """Return the rules of the different functions that torch has under a name."""
    functions = {id(f): f for p in PLACES if (f := getattr(p, name, None)) is not None}
    return [_RULES[f] for f in functions.values() if callable(f) and f in _RULES]


@pytest.mark.parametrize(
    "name",
    [
        "unfold",  # windows along a dimension, or patches of images
        "diagonal",  # of the first two dimensions, or in linalg of the last two
        "cross",  # along the first dimension of length three, or in linalg the last
        "where",  # the condition comes first, or second in the method
        "polygamma",  # the order comes first, or second in the method
        "norm",  # a power for vectors, or in linalg for matrices too
        "batch_norm",  # the parameters come in another order
        "instance_norm",
    ],
)
def test_names_with_several_meanings_have_several_rules(name: str) -> None:
    assert len(set(rules_by_place(name))) > 1


def test_functions_of_a_name_agree_on_their_arguments() -> None:
    """Of names that are not only those of a method too, all have been compared by hand."""
    same = {
        "adaptive_avg_pool2d", "adaptive_avg_pool3d", "digamma", "erf", "erfc", "erfinv", "exp2",
        "expm1", "log1p", "logit", "matmul", "mish", "sigmoid", "silu", "sinc", "tanh",
    }  # fmt: skip
    names = {getattr(f, "__name__", "") for f in _RULES}
    found = set()
    for name in names:
        elsewhere = any(hasattr(place, name) for place in PLACES[2:])
        known = rules_by_place(name)
        ours = known and any(is_from(module, known[0]) for module in OURS)
        if elsewhere and ours and len(known) > 1 and len(set(known)) == 1:
            found.add(name)
    assert found == same


@pytest.mark.parametrize("f", [lambda x: x * 1j, lambda x: x.to(torch.complex128)])
def test_complex_numbers_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    refuses(f, "complex")


def test_conditions_by_name() -> None:
    x = torch.ones(2, 3)
    f = lambda x: torch.where(condition=x > 0, input=x, other=-x).sum(1)
    Taylor().jet(f, x, x, 1)
