"""A jet behaves like a tensor, and operations that would lose its derivatives are refused."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fdsm.derivatives import Jet, MissingRule, Taylor
from fdsm.derivatives.taylor.series import Truncation


@pytest.fixture
def jet() -> Jet:
    return Jet(torch.arange(12.0).view(2, 2, 3), Truncation(2))


def refuses(f: Callable[[Tensor], object], match: str) -> None:
    """Check that a model is refused by a message."""
    x = torch.ones(2, 3)
    with pytest.raises(MissingRule, match=match):
        Taylor().jet(lambda x: (f(x), x.sum(1))[1], x, torch.ones_like(x), 2)


def test_a_jet_looks_like_a_tensor(jet: Jet) -> None:
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


def test_conversions_to_python_numbers() -> None:
    x = Jet(torch.tensor([[2.5], [1.0]]), Truncation(1))
    assert [float(x)] == [2.5]
    assert int(x) == 2
    assert bool(x)
    assert f"{x.sum():.2f}" == "2.50"
    assert "Jet" in repr(x)
    larger = x.sum()
    assert max(larger, larger - 1) is larger


def test_the_truth_value_of_several_elements_is_ambiguous(jet: Jet) -> None:
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(jet)


def test_a_jet_can_be_hashed(jet: Jet) -> None:
    assert len({jet, jet, jet + 0}) == 2
    assert {jet: 1}[jet] == 1


def test_attributes(jet: Jet) -> None:
    assert not hasattr(jet, "nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        jet.nonsense  # ruff: ignore[useless-expression]
    assert getattr(jet, "nonsense", 3) == 3


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float32(1.5), np.int64(2)])
def test_arithmetic_with_numpy_scalars(scalar: np.generic, jet: Jet) -> None:
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
@pytest.mark.filterwarnings("ignore:torch.asarray")
def test_derivatives_are_not_lost_silently(name: str) -> None:
    """Code that bypasses the coefficients fails, or returns a jet that has them."""
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


def test_out_may_be_none() -> None:
    x = torch.ones(2, 3)
    value, slope = Taylor().jet(lambda x: torch.exp(x, out=None).sum(1), x, x, 1)
    torch.testing.assert_close(value, slope)


def test_a_condition_can_be_passed_by_name() -> None:
    """The derivative of $|x|$ along `v` is the sign of `x` times `v`."""
    x, v = torch.tensor([[1.0, -2.0, 3.0]]), torch.tensor([[0.5, 0.25, 2.0]])
    f = lambda x: torch.where(condition=x > 0, input=x, other=-x).sum(1)
    value, slope = Taylor().jet(f, x, v, 1)
    assert (value.item(), slope.item()) == (6.0, 2.25)
