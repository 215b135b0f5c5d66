"""Partial derivatives against closed forms and nested gradients."""

import math
from itertools import combinations_with_replacement

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, FiniteDifference, MissingRule, Taylor
from fdsm.derivatives.taylor import Jet
from fdsm.operators import partials
from fdsm.operators.partials import directions_for
from fdsm.typing import Derivative

ENGINES = [Taylor(), Autodiff(), Taylor(fallback=Autodiff())]
engines = pytest.mark.parametrize("engine", ENGINES, ids=["taylor", "autodiff", "fallback"])
NAMES = "xyt"
KDV = ["", "t", "x", "xx", "xxx"]
STREAM = ["xxx", "xxy", "xyy", "yyy", "xt", "yt", "xx", "yy", "x", "y"]
SETS = {
    "Korteweg-de Vries": KDV,
    "stream function": STREAM,
    "one mixed": ["xy"],
    "three mixed": ["xyt"],
    "all of order three": ["".join(c) for c in combinations_with_replacement(NAMES, 3)],
    "plate": ["xxxx", "xxyy", "yyyy"],
    "odd": ["xxxy", "tty", "y"],
    "fifth": ["xxxxx", "xxxyt"],
    "value": [""],
    "first": ["x", "y", "t"],
}


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 2))


def nested(f: nn.Module, x: Tensor, key: str) -> Tensor:
    """Return a partial derivative of all outputs by gradients of gradients."""
    x = x if x.requires_grad else x.clone().requires_grad_()
    results = []
    for y in f(x).unbind(1):
        for name in key:
            (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            y = gradient[:, NAMES.index(name)]
        results.append(y)
    return torch.stack(results, 1)


@engines
@pytest.mark.parametrize("name", SETS)
def test_nested_gradients(name: str, engine: Derivative, generator: Generator) -> None:
    """Values, and gradients in the parameters and in `x`."""
    f, x = network(), torch.randn(4, 3, generator=generator).requires_grad_()
    wanted = [x, *f.parameters()]
    found = partials(f, x, SETS[name], names=NAMES, derivative=engine)
    assert list(found) == SETS[name]
    for key, actual in found.items():
        expected = nested(f, x, key)
        scale = float(expected.detach().abs().max())
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10 * max(1, scale))
        weights = torch.linspace(0.5, 1.5, 8).view(4, 2)
        gradients = [
            torch.cat([
                g.flatten()
                for g in torch.autograd.grad(
                    (weights * y).sum(), wanted, retain_graph=True, materialize_grads=True
                )
            ])
            for y in (actual, expected)
        ]  # fmt: skip
        scale = float(gradients[1].abs().max())
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-10 * max(1, scale))


def test_closed_form(generator: Generator) -> None:
    """Every derivative of an exponential of a linear function is a product of its slopes."""
    x, slopes = torch.randn(5, 3, generator=generator), (0.5, -2.0, 3.0)
    f = lambda x: (x @ torch.tensor(slopes)).exp()
    keys = [c for k in range(5) for c in combinations_with_replacement(range(3), k)]
    for key, found in partials(f, x, keys).items():
        expected = math.prod(slopes[i] for i in key) * f(x)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    permuted = partials(f, x, [(2, 0, 1), (1, 2, 0), (0, 1, 2)])
    for found in permuted.values():
        torch.testing.assert_close(found, permuted[0, 1, 2])


def test_differences(generator: Generator) -> None:
    f, x = network(), 0.5 * torch.randn(4, 3, generator=generator)
    engine = FiniteDifference(accuracy=6)
    found = partials(f, x, [*STREAM, ""], names=NAMES, derivative=engine, step=0.1)
    for key, actual in found.items():
        expected = nested(f, x, key).detach()
        assert (actual - expected).abs().max() < 1e-4 * expected.abs().max(), key
    assert torch.equal(partials(f, x, ["", "xx"], names=NAMES, derivative=engine)[""], f(x))


def test_images_and_conditions(generator: Generator) -> None:
    x, c = torch.randn(4, 1, 2, 2, generator=generator), torch.arange(4.0)
    f = lambda x, c, a: a * c[:, None, None] * x[:, 0] ** 2 * x[:, :, 0, 0, None]
    found = partials(f, x, [(0, 3), (3, 3)], c, 2.0)
    assert found[0, 3].shape == (4, 2, 2)
    expected = torch.zeros(4, 2, 2)
    expected[:, 1, 1] = 4 * c * x[:, 0, 1, 1]
    torch.testing.assert_close(found[0, 3], expected)
    expected[:, 1, 1] = 4 * c * x[:, 0, 0, 0]
    torch.testing.assert_close(found[3, 3], expected)


@pytest.mark.parametrize(
    ("keys", "orders"),
    [
        (["", "t", "x", "xx", "xxx"], [3, 1]),
        (["xy"], [2, 2]),
        (["xx", "xy", "yy"], [2, 2, 2]),
        (["xxy"], [3, 3, 3]),
        (["xxx", "xxy", "xyy", "yyy"], [3] * 4),
        (["xyt"], [3] * 4),
        (["xxxx", "xxyy", "yyyy"], [4] * 4),
        (STREAM, [3] * 4 + [2] * 3),
    ],
    ids=str,
)
def test_numbers_of_directions(keys: list[str], orders: list[int], generator: Generator) -> None:
    """The rank of these forms over the real numbers, or less beside others."""
    powers = frozenset(tuple(key.count(name) for name in NAMES) for key in keys)
    assert sorted(directions_for(powers).values(), reverse=True) == orders
    calls = []
    f = lambda x: calls.append((len(x), x.truncation.rows(9))) or x.prod(1)
    partials(f, torch.randn(4, 3, generator=generator), keys, names=NAMES)
    assert calls == [(4, 1 + sum(orders))]


def test_chunks_of_rows(monkeypatch: pytest.MonkeyPatch, generator: Generator) -> None:
    from fdsm.operators import coordinates

    f, x, rows = network(), torch.randn(6, 3, generator=generator), []
    f.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    results = []
    for memory in (2**30, 1):
        monkeypatch.setattr(coordinates, "MEMORY", memory)
        monkeypatch.setattr(coordinates, "MIN_CHUNK_ROWS", 2)
        found = partials(f, x, KDV, names=NAMES)
        loss = sum(y.square().sum() for y in found.values())
        results.append((found, torch.autograd.grad(loss, list(f.parameters()))))
    assert rows == [6, 2, 2, 2, 2, 2, 2]  # in the backward pass again
    torch.testing.assert_close(*results)


def test_models_without_a_rule_for_several_directions(generator: Generator) -> None:
    """A model that takes gradients itself has a rule along one direction, and others none."""

    def score(x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.requires_grad_()
            (gradient,) = torch.autograd.grad(x.pow(4).prod(1).sum(), x, create_graph=True)
        return gradient

    x = torch.rand(4, 3, generator=generator) + 0.5
    a, b, c = x.unbind(1)
    found = partials(score, x, [(0, 1), (2,)], derivative=Taylor())
    first = torch.stack(
        [48 * a**2 * b**3 * c**4, 48 * a**3 * b**2 * c**4, 64 * (a * b * c) ** 3], 1
    )
    torch.testing.assert_close(found[0, 1], first)
    f = lambda x: torch.mvlgamma(2 + x.square(), 1)
    with pytest.raises(MissingRule, match="mvlgamma"):
        partials(f, x, [(0, 0)], derivative=Taylor())
    expected = partials(lambda x: torch.lgamma(2 + x.square()), x, [(0, 0)])
    torch.testing.assert_close(partials(f, x, [(0, 0)]), expected)


def test_one_call_for_all_directions(generator: Generator) -> None:
    calls = []
    f = lambda x: calls.append(type(x)) or x.prod(1)
    partials(f, torch.randn(4, 3, generator=generator), STREAM, names=NAMES)
    assert calls == [Jet]
    assert partials(f, torch.ones(4, 3), []) == {}


def test_refusals(generator: Generator) -> None:
    x, f = torch.randn(4, 3, generator=generator), lambda x: x.prod(1)
    for names in (None, "xy", "xxt"):
        with pytest.raises(ValueError, match=r"one letter for each of the 3 coordinates.*'xyz'"):
            partials(f, x, ["x"], names=names)
    with pytest.raises(ValueError, match="'z' in 'xz' is not a coordinate of names='xyt'"):
        partials(f, x, ["xz"], names="xyt")
    with pytest.raises(ValueError, match=r"\(0, 3\) has a number that is not from 0 to 2"):
        partials(f, x, [(0, 3)])
    with pytest.raises(TypeError, match="must be a string"):
        partials(f, x, [0])  # type: ignore[list-item]
