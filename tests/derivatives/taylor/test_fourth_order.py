"""The algebra of series of order four: its products, their gradients and compositions."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from fdsm.derivatives import Taylor
from fdsm.derivatives.taylor.algebra import bilinear
from fdsm.derivatives.taylor.fourth_order import gradient_of_factor, multiply
from fdsm.derivatives.taylor.jet import Jet
from fdsm.derivatives.taylor.series import Truncation

DIRECTIONS = [2, 3, 5]
ROWS = {v: 2 + 2 * v + v * (v + 1) // 2 for v in DIRECTIONS}


def table(directions: int) -> Tensor:
    """Return the coefficients of the products of all pairs of symbols, shape `(N, N, N)`."""
    truncation = Truncation(4, directions)
    symbols = torch.eye(ROWS[directions])
    first = symbols[:, :, None].expand(-1, -1, len(symbols))
    rows = [multiply(a, symbols, truncation) for a in first]
    return torch.stack([functional.pad(y, (0, 0, 0, len(symbols) - len(y))).T for y in rows])


def series(directions: int, generator: Generator, *shape: int) -> Tensor:
    return torch.randn(ROWS[directions], *shape, generator=generator)


@pytest.mark.parametrize("v", DIRECTIONS)
def test_products_of_four_symbols(v: int) -> None:
    truncation = Truncation(4, v)
    slopes = torch.eye(ROWS[v])[1 : v + 1]
    delta = torch.eye(v)
    for i, j, k, m in itertools.product(range(v), repeat=4):
        y = slopes[i]
        for n in (j, k, m):
            y = multiply(y, slopes[n], truncation)
        expected = (
            delta[i, j] * delta[k, m] + delta[i, k] * delta[j, m] + delta[i, m] * delta[j, k]
        )
        torch.testing.assert_close(y[-1], expected)
        torch.testing.assert_close(y[:-1], torch.zeros(ROWS[v] - 1))


@pytest.mark.parametrize("v", DIRECTIONS)
def test_products_commute_and_associate_and_the_basis_is_orthonormal(v: int) -> None:
    products, truncation = table(v), Truncation(4, v)
    torch.testing.assert_close(products, products.transpose(0, 1))
    left = torch.einsum("abm,mcn->abcn", products, products)
    right = torch.einsum("amn,bcm->abcn", products, products)
    torch.testing.assert_close(left, right)
    dual = torch.cat([torch.eye(ROWS[v])[truncation.block(k)] for k in range(4, -1, -1)])
    torch.testing.assert_close(products[..., -1], dual)
    torch.testing.assert_close(products[0], torch.eye(ROWS[v]))


@pytest.mark.parametrize("v", DIRECTIONS)
def test_products_of_shorter_series_and_of_other_shapes(v: int, generator: Generator) -> None:
    products, truncation = table(v), Truncation(4, v)
    a, b = series(v, generator, 4, 1), series(v, generator, 3)
    for i, j in itertools.product(range(5), repeat=2):
        x, y = a[: truncation.rows(i)], b[: truncation.rows(j)]
        found = multiply(x, y[:, None], truncation)
        known = products[: len(x), : len(y)]
        expected = torch.einsum("ijk,imn,jn->kmn", known, x.expand(-1, -1, 3), y)
        assert len(found) == truncation.rows(min(4, i + j))
        torch.testing.assert_close(found, expected[: len(found)])
        torch.testing.assert_close(expected[len(found) :].abs().sum(), torch.tensor(0.0))


@pytest.mark.parametrize("v", DIRECTIONS)
def test_the_gradient_of_a_product_is_a_product(v: int, generator: Generator) -> None:
    products, truncation = table(v), Truncation(4, v)
    b, grad = series(v, generator, 3), series(v, generator, 3)
    for k in range(1, 5):
        rows = truncation.rows(k)
        factor = b[: truncation.rows(5 - k)]
        known = products[:rows, : len(factor)]
        expected = torch.einsum("ijk,jn,kn->in", known, factor, grad)
        torch.testing.assert_close(gradient_of_factor(grad, factor, rows, truncation), expected)


@pytest.mark.parametrize("v", DIRECTIONS)
@pytest.mark.parametrize("degrees", [(4, 4), (1, 1), (2, 1), (1, 3), (2, 2)], ids=str)
def test_bilinear_functions(v: int, degrees: tuple[int, int], generator: Generator) -> None:
    truncation = Truncation(4, v)
    a, b = (series(v, generator, 3, 3)[: truncation.rows(k)] for k in degrees)
    found = bilinear(torch.matmul, Jet(a, truncation), Jet(b, truncation)).coefficients
    pairs = [multiply(a[:, :, k, None], b[:, k, None, :], truncation) for k in range(3)]
    torch.testing.assert_close(found, torch.stack(pairs).sum(0))


@pytest.mark.parametrize("v", DIRECTIONS)
def test_compositions_are_sums_of_powers(v: int, generator: Generator) -> None:
    truncation = Truncation(4, v)
    for k in range(1, 5):
        u = series(v, generator, 3)[: truncation.rows(k)].requires_grad_()
        found = Jet(u, truncation).exp().coefficients
        power = n = torch.cat([torch.zeros(1, 3), u.detach()[1:]])
        expected = torch.zeros(ROWS[v], 3)
        expected[0] = 1
        for j in range(1, 5):
            expected[: len(power)] += power / math.factorial(j)
            power = multiply(power, n, truncation)
        torch.testing.assert_close(found, u[0].exp() * expected)


@pytest.mark.parametrize(
    "g",
    [
        torch.tanh,
        functional.softplus,
        torch.log,
        torch.reciprocal,
        torch.square,
        lambda x: x * x.flip(0),
        lambda x: x @ x.mT,
    ],
)
def test_gradients_of_gradients(g: Callable[[Tensor], Tensor], generator: Generator) -> None:
    truncation = Truncation(4, 2)
    u = torch.rand(ROWS[2], 2, 2, generator=generator) + 0.5
    f = lambda u: g(Jet(u, truncation)).coefficients
    assert torch.autograd.gradcheck(f, u.requires_grad_())
    assert torch.autograd.gradgradcheck(f, u)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.SiLU(), nn.Linear(6, 1), nn.Flatten(0)
    )


def test_directions_that_all_rows_share(generator: Generator) -> None:
    f, x = network(), torch.randn(4, 5, generator=generator, requires_grad=True)
    v = torch.randn(3, 1, 5, generator=generator, requires_grad=True)
    wanted = [x, v, *list(f.parameters())[:-1]]
    results = []
    for expanded in (v.expand(-1, 4, -1), v.expand(-1, 4, -1).contiguous()):
        y = Taylor().biharmonic(f, x, expanded)
        results.append((y, *torch.autograd.grad(y.square().sum(), wanted)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("v", [1, 2, 3])
def test_sums_over_pairs_of_directions(v: int, generator: Generator) -> None:
    f, x = network(), torch.randn(4, 5, generator=generator)
    directions = torch.randn(v, 4, 5, generator=generator)
    fourth = lambda v: Taylor().jet(f, x, v, 4)[4]
    expected = sum(fourth(a) for a in directions)
    for a, b in itertools.combinations(directions, 2):
        both = fourth(a + b) + fourth(a - b) - 2 * fourth(a) - 2 * fourth(b)
        expected = expected + both / 6
    torch.testing.assert_close(Taylor().biharmonic(f, x, directions), expected)


def test_each_layer_sees_as_few_coefficients_as_there_can_be(generator: Generator) -> None:
    """The value, the slopes, the Hessian, the slopes of the Laplacian, and the last one."""
    f, seen = network(), []
    for layer in f:
        layer.register_forward_hook(lambda _, __, y: seen.append(y))
    Taylor().biharmonic(
        f, torch.randn(4, 5, generator=generator), torch.eye(5)[:, None].expand(-1, 4, -1)
    )
    assert seen[0].factors[1].shape == (5, 7)
    assert [len(y.coefficients) for y in seen[1:]] == [1 + 5 + 15 + 5 + 1] * 5


@pytest.mark.parametrize(
    "g",
    [torch.log, torch.log2, torch.log10, torch.sqrt, torch.rsqrt, torch.reciprocal,
     lambda p: p**0.25, lambda p: 1e-6 * p**-0.5],
)  # fmt: skip
def test_powers_and_logarithms_of_small_numbers(
    g: Callable[[Tensor], Tensor], generator: Generator
) -> None:
    """Their fourth derivatives overflow, but not those of the composition."""
    x = torch.randn(4, 3, generator=generator)
    v = torch.eye(3)[:, None].expand(-1, 4, -1)
    f = lambda x: g(1e-12 * (x.sum(1).sin() * x[:, 0]).exp())
    results = []
    for points in (x.float(), x):
        points = points.clone().requires_grad_()
        y = Taylor().biharmonic(f, points, v.to(points))
        results.append((y.double(), torch.autograd.grad(y.sum(), points)[0].double()))
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3 * results[1][1].abs().max().item())
