r"""Series of any order along one direction, from differential equations.

Let $y = g(u)$ and $w = g'(u)$. Then $\dot y = w \dot u$, or

$$k y_k = \sum_{j=1}^k j u_j w_{k-j}.$$

A solver has a second equation, which gives $w_k$ from $y_0, …, y_k$. Each coefficient is added to
all sums that it occurs in as soon as it is known, with one kernel for all of them: the work is
quadratic in the order and the number of kernels linear. Because $∂y_k / ∂u_j = w_{k-j}$, the
backward pass needs only $w$: $\bar u_j = \sum_k w_{k-j} \bar y_k$.

Reference:
    Griewank and Walther (2008), Evaluating derivatives, section 13.2 and table 13.2.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .jet import Jet
from .series import ClosedForm, Truncation, convolve, correlate, empty_rows

Function = Callable[[Tensor], Tensor]
Solver = Callable[[Tensor, int, bool], tuple[Tensor, Tensor]]
"""Takes the coefficients of $u$, the order, and whether the last coefficient of $w$ is needed.

Returns the coefficients of $y = g(u)$ and of $w = g'(u)$.
"""


def solve(x: Jet, solver: Solver, slope: Callable[[Jet], Tensor]) -> Jet:
    """Return the series of $g(x)$.

    Args:
        x: The jet, along one direction.
        solver: The recurrence.
        slope: $g'$, computed by functions that have rules, for gradients of gradients.

    Returns:
        The series.
    """
    stacked: Tensor = _Solution.apply(x.coefficients, x.truncation, solver, slope)
    return Jet(stacked, x.truncation)


class _Solution(ClosedForm):
    """The coefficients of $g(u)$, with a backward pass in closed form."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        truncation: Truncation,
        solver: Solver,
        slope: Callable[[Jet], Tensor],
    ) -> Tensor:
        keeping = truncation.propagation.keeping and ctx.needs_input_grad[0]
        y, w = solver(u, truncation.order, keeping)
        ctx.save_for_backward(u, w)
        ctx.order, ctx.slope = truncation.order, slope
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, w = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is differentiated again: `w` depends on `u`
            w = ctx.slope(Jet(u, Truncation(ctx.order))).coefficients
        return correlate(grad, w, len(u)), None, None, None


def integrate(w: Tensor, u: Tensor, value: Tensor, order: int) -> Tensor:
    r"""Return $y$ with $\dot y = w \dot u$ and a given value, so that autograd can follow."""
    product: Tensor = _Convolution.apply(w, _derivative(u), order)
    return torch.cat([value[None], product / _degrees(product)])


class _Convolution(ClosedForm):
    r"""The first coefficients of a product of series, $y_k = \sum_i a_i b_{k-i}$."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(a, b)
        return convolve(a, b, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        return correlate(grad, b, len(a)), correlate(grad, a, len(b)), None


def _degrees(c: Tensor) -> Tensor:
    """Return 1, 2, …, one number for each row of `c`."""
    numbers = torch.arange(1, len(c) + 1, dtype=c.dtype, device=c.device)
    return numbers.view(-1, *[1] * (c.ndim - 1))


def _derivative(u: Tensor) -> Tensor:
    r"""Return the coefficients of $\dot u$: $u_1, 2 u_2, 3 u_3, …$."""
    rest = u[1:]
    return rest * _degrees(rest) if len(rest) > 1 else rest


def _push(sums: Tensor, degree: int, factor: Tensor, u: Tensor, value: float = 1) -> None:
    """Add a coefficient of a given degree times all of `u`, from its first degree on."""
    start, rows = degree + 1, u.shape[0]
    left = sums.shape[0] - start
    sums[start : start + rows].addcmul_(factor, u[:left], value=value)


def _zeros(u: Tensor, order: int) -> Tensor:
    return empty_rows(u, order + 1).zero_()


def riccati(g: Function, a: float, b: float, c: float) -> Solver:
    r"""Return the solver of functions with $g' = a + b g + c g²$, such as exp, tanh and sigmoid.

    The second equation is $w_k = (b + 2 c y_0) y_k + c \sum_{0<i<k} y_i y_{k-i}$ for $k > 0$.
    """
    return partial(_riccati, g=g, a=a, b=b, c=c)


def _riccati(
    u: Tensor, order: int, keeping: bool, *, g: Function, a: float, b: float, c: float
) -> tuple[Tensor, Tensor]:
    y, w, du = empty_rows(u, order + 1), _zeros(u, order), _derivative(u)
    ys, ws = y.unbind(), w.unbind()
    value = g(u[0])
    ws[0].copy_(quadratic(value, value, a, b, c))
    if c:
        torch.add(value, b / (2 * c), out=ys[0])
    torch.mul(ws[0], du, out=y[1 : len(u)])
    if len(u) <= order:
        y[len(u) :].zero_()
    for k in range(1, order + keeping):
        top = ys[k] if k == 1 else ys[k].div_(k)
        if c:
            w[k : 2 * k].addcmul_(top, y[: min(k, order + 1 - k)], value=2 * c)
            if 2 * k < order + keeping:
                ws[2 * k].addcmul_(top, top, value=c)
        else:
            ws[k].add_(top, alpha=b)
        if k < order:
            _push(y, k, ws[k], du)
    if not keeping:
        ys[order].div_(order)
    ys[0].copy_(value)
    return y, w


def quadratic(x: Tensor, y: Tensor, a: float, b: float, c: float) -> Tensor:
    """Return $a + b x + c x y$."""
    if b == 0:
        line = x.new_full((), a)
    else:
        line = x if b == 1 else b * x
        line = line + a if a else line
    return torch.addcmul(line, x, y, value=c) if c else line


def oscillator(g: Function, slope: Function, sign: int) -> Solver:
    r"""Return the solver of functions with $g'' = ±g$: $k w_k = ± \sum_j j u_j y_{k-j}$."""
    return partial(_oscillator, g=g, slope=slope, sign=sign)


def _oscillator(
    u: Tensor, order: int, keeping: bool, *, g: Function, slope: Function, sign: int
) -> tuple[Tensor, Tensor]:
    y, w, du = _zeros(u, order), _zeros(u, order), _derivative(u)
    ys, ws = y.unbind(), w.unbind()
    ys[0].copy_(g(u[0]))
    ws[0].copy_(slope(u[0]))
    for k in range(order + 1):
        if k > 1:
            ys[k].div_(k)
            ws[k].div_(k)
        if k < order:
            _push(y, k, ws[k], du)
            _push(w, k, ys[k], du, value=sign)
    return y, w


def power(g: Function, p: float) -> Solver:
    r"""Return the solver of $g = u^p$ where $u_0 ≠ 0$.

    From $u \dot y = p y \dot u$ and $u w = p y$, with $h_j = u_j / u_0$,

    $$k y_k = \sum_{j=1}^k (p j - k + j) h_j y_{k-j}, \qquad
      w_k = p y_k / u_0 - \sum_{j=1}^k h_j w_{k-j}.$$
    """
    return partial(_power, g=g, p=p)


def _power(
    u: Tensor, order: int, keeping: bool, *, g: Function, p: float
) -> tuple[Tensor, Tensor]:
    h = u[1:] / u[0]
    slopes = p * h * _degrees(h)
    y = _zeros(u, order)
    ys = y.unbind()
    ys[0].copy_(g(u[0]))
    for k in range(order + 1):
        if k > 1:
            ys[k].div_(k)
        if k < order:
            _push(y, k, ys[k], torch.sub(slopes, h, alpha=k))
    w = y * (p / u[0])
    for k in range(order):
        _push(w, k, w[k], h, value=-1)
    return y, w


def silu(u: Tensor, order: int, keeping: bool) -> tuple[Tensor, Tensor]:
    r"""Return the series of $u σ(u)$ and of its slope $σ + u σ'$."""
    s, q = _riccati(u, order, keeping, g=torch.sigmoid, a=0, b=1, c=-1)
    y = convolve(u, s, order + 1)
    return y, convolve(u, q, order + 1).add_(s) if keeping else q
