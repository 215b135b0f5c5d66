"""The recurrences give the series of a composition and of its slope, to any order."""

from collections.abc import Callable

import mpmath
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from fdsm.derivatives.taylor import recurrence
from fdsm.derivatives.taylor.jet import Jet
from fdsm.derivatives.taylor.recurrence import Solver, integrate
from fdsm.derivatives.taylor.series import Truncation

Number = mpmath.mpf
ORDER = 7


def sigmoid(x: Number) -> Number:
    return 1 / (1 + mpmath.exp(-x))


CASES: dict[str, tuple[Solver, Callable[[Number], Number], Callable[[Number], Number]]] = {
    "exp": (recurrence.riccati(torch.exp, 0, 1, 0), mpmath.exp, mpmath.exp),
    "sigmoid": (
        recurrence.riccati(torch.sigmoid, 0, 1, -1),
        sigmoid,
        lambda x: sigmoid(x) * sigmoid(-x),
    ),
    "tanh": (recurrence.riccati(torch.tanh, 1, 0, -1), mpmath.tanh, lambda x: mpmath.sech(x) ** 2),
    "general": (
        recurrence.riccati(lambda u: 3 * u.tan() - 2, 13 / 3, 4 / 3, 1 / 3),
        lambda x: 3 * mpmath.tan(x) - 2,
        lambda x: 3 * mpmath.sec(x) ** 2,
    ),
    "cos": (
        recurrence.oscillator(torch.cos, lambda u: -u.sin(), -1),
        mpmath.cos,
        lambda x: -mpmath.sin(x),
    ),
    "sinh": (recurrence.oscillator(torch.sinh, torch.cosh, 1), mpmath.sinh, mpmath.cosh),
    "power": (
        recurrence.power(lambda u: u**-1.5, -1.5),
        lambda x: x**-1.5,
        lambda x: -1.5 * x**-2.5,
    ),
    "silu": (
        recurrence.silu,
        lambda x: x * sigmoid(x),
        lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
    ),
}


def coefficients(rows: int) -> Tensor:
    """Return the coefficients of a polynomial, of two elements, with positive values."""
    generator = torch.Generator().manual_seed(rows)
    rest = 0.3 * torch.randn(rows - 1, 2, generator=generator, dtype=torch.float64)
    return torch.cat([torch.tensor([[0.4, 1.1]], dtype=torch.float64), rest])


def truth(g: Callable[[Number], Number], u: Tensor) -> Tensor:
    """Return the coefficients of $g(u)$, with many digits."""
    columns = []
    for column in u.T.tolist():
        with mpmath.workdps(60):
            terms = mpmath.taylor(
                lambda t, c=column: g(sum(a * t**k for k, a in enumerate(c))), 0, ORDER
            )
        columns.append([float(term) for term in terms])
    return torch.tensor(columns, dtype=torch.float64).T


@pytest.mark.parametrize("rows", [2, 4, ORDER + 1])
@pytest.mark.parametrize("name", CASES)
def test_solvers_agree_with_many_digits(name: str, rows: int) -> None:
    solver, g, slope = CASES[name]
    u = coefficients(rows)
    y, w = solver(u, ORDER, True)
    torch.testing.assert_close(y, truth(g, u), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(w, truth(slope, u), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_series_does_not_depend_on_what_is_kept(name: str) -> None:
    solver, *_ = CASES[name]
    u = coefficients(ORDER + 1)
    assert torch.equal(solver(u, ORDER, True)[0], solver(u, ORDER, False)[0])


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    torch.exp,
    torch.tanh,
    torch.sin,
    torch.sqrt,
    functional.silu,
    functional.softplus,
    functional.gelu,
    torch.log,
    lambda x: x**-1.5,
    lambda x: x**2.5,
]


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients_and_their_gradients(f: Callable[[Tensor], Tensor], rows: int) -> None:
    def series(u: Tensor) -> Tensor:
        y = f(Jet(u, Truncation(3)))
        assert isinstance(y, Jet)
        return y.coefficients

    u = coefficients(rows).requires_grad_()
    assert gradcheck(series, u)
    assert gradgradcheck(series, u)


def test_integration_is_the_inverse_of_differentiation() -> None:
    """With $u = t$, the series of $t^3$ is the integral of that of $3 t^2$."""
    u = torch.tensor([0.0, 1.0])
    found = integrate(torch.tensor([0.0, 0.0, 3.0]), u, torch.tensor(0.0), 4)
    assert found.tolist() == [0, 0, 0, 1, 0]
