r"""How exact finite differences of growing order are, at any step and in any precision.

The error of a difference of order $T$ with the step $ε$ is one of truncation and one of rounding,

$$A\, |D^{T+2} f|\, ε² + C\, u\, |f|\, ε^{-T}, \qquad
  A = \frac{1}{(T + 2)!} \sum_j w_j γ_j^{T+2}, \quad C = \sum_j |w_j|,$$

for nodes $γ_j$, weights $w_j$ and the unit round-off $u$. The best relative error is of the order
of $u^{2/(T+2)}$, which in float32 is more than a per cent from some order on, whatever the step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...derivatives import Taylor, central_nodes, directional_derivative, stencil, step_size
from ...derivatives.precision import unit_round_off
from ...evaluation import Measurement
from ...samplers import Progress
from ...serialize import Json
from ...typing import LogDensity
from ..study import Line, Panel

PER_CENT = 0.01


def truth(f: LogDensity, x: Tensor, v: Tensor, order: int) -> Tensor:
    r"""Return $(v^T∇)^k f(x)$ for `k = 0, …, order` by Taylor series in float64.

    Args:
        f: The log-density, in float64.
        x: Where, shape `(B, *E)`, in float64.
        v: Along what, shape `(B, *E)`.
        order: The highest order.

    Returns:
        A row for each order, shape `(order + 1, B)`.
    """
    with torch.no_grad():
        return torch.stack(Taylor().jet(f, x, v, order))


def relative_error(approximate: Tensor, exact: Tensor) -> float:
    """Return the error relative to the exact values, both root mean square over examples."""
    error: Tensor = (approximate.double() - exact).norm() / exact.norm()
    return error.item()


def errors(
    f: LogDensity, x: Tensor, v: Tensor, exact: Tensor, steps: Sequence[float]
) -> list[float]:
    """Return the relative errors of differences with the given steps.

    Args:
        f: The log-density, in the precision in question.
        x: Where, in that precision.
        v: Unit directions, in that precision.
        exact: The derivatives of orders $0, …, T$; the last is the one compared.
        steps: The steps.

    Returns:
        An error for each step.
    """
    order = len(exact) - 1
    with torch.no_grad():
        return [
            relative_error(directional_derivative(f, x, v, order, step=step), exact[order])
            for step in steps
        ]


@dataclass(frozen=True)
class Balance:
    r"""Truncation against rounding: the relative error $a ε² + b ε^{-T}$.

    Attributes:
        order: The order $T$.
        truncation: The factor $a = A |D^{T+2} f| / |D^T f|$.
        rounding: The factor $b = C u |f| / |D^T f|$.

    Example:
        >>> balance = Balance(2, truncation=3.0, rounding=3.0)
        >>> balance.step, balance.error(balance.step)
        (1.0, 6.0)
    """

    order: int
    truncation: float
    rounding: float

    @property
    def step(self) -> float:
        r"""The best step, $(T b / 2 a)^{1/(T+2)}$."""
        ratio = self.order * self.rounding / (2 * self.truncation)
        return float(ratio ** (1 / (self.order + 2)))

    def error(self, step: float) -> float:
        """Return the relative error that is predicted for a step."""
        return float(self.truncation * step**2 + self.rounding * step**-self.order)


def balance_of(exact: Tensor, order: int, dtype: torch.dtype) -> Balance:
    r"""Return how truncation and rounding balance for the difference of Theorem 1.

    Args:
        exact: The derivatives of orders 0 to at least $T + 2$ along unit directions.
        order: The order $T$.
        dtype: The precision of the values.

    Returns:
        The factors, from the root mean squares of the derivatives.

    Example:
        >>> exact = torch.ones(9, 1)
        >>> balance = balance_of(exact, 2, torch.float64)
        >>> round(1 / balance.truncation), round(balance.rounding * 2**53)
        (12, 4)
    """
    nodes = central_nodes(order)
    weights = stencil(nodes)[order]
    moment = sum(w * node ** (order + 2) for w, node in zip(weights, nodes, strict=True))
    size = exact.double().norm(dim=1)
    truncation = float(moment) / math.factorial(order + 2) * size[order + 2] / size[order]
    rounding = float(sum(map(abs, weights))) * unit_round_off(dtype) * size[0] / size[order]
    return Balance(order, truncation.item(), rounding.item())


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The relative errors of differences of all orders from one on.

    Attributes:
        steps: The steps that were tried.
        exact: The derivatives, a row for each order from zero on, two more than are compared.
        float32: For each order the error with each step.
        float64: Likewise.
        recommended: The step that `step_size` recommends for each order in float64.
        reached: The error with it.
    """

    steps: Sequence[float]
    exact: Tensor
    float32: Sequence[Sequence[float]]
    float64: Sequence[Sequence[float]]
    recommended: Sequence[float]
    reached: Sequence[float]

    def numbers(self) -> dict[str, Measurement]:
        """Return up to which order the error is within a per cent, and the largest errors."""
        best = [min(row) for row in self.float32]
        steps = [self.steps[list(row).index(min(row))] for row in self.float32]
        numbers = {}
        for name, found, taken in (
            ("float64", self.reached, self.recommended),
            ("float32", best, steps),
        ):
            settings: dict[str, Json] = {"rows": self.exact.shape[1], "steps": list(taken)}
            within = next((k for k, e in enumerate(found) if not e <= PER_CENT), len(found))
            numbers[f"orders within 1 %, {name}"] = Measurement(within, settings=settings)
            numbers[f"largest error, {name}"] = Measurement(max(found), settings=settings)
        return numbers

    def panels(self, drawn: Sequence[int]) -> tuple[Panel, ...]:
        """Return the error against the order, and against the step for some orders."""
        orders = tuple(range(1, len(self.float32) + 1))
        lines = (
            Line("float64, recommended step", orders, tuple(self.reached)),
            Line("float32, best step", orders, tuple(map(min, self.float32))),
            self._predicted("float64, predicted", orders, torch.float64),
            self._predicted("float32, predicted", orders, torch.float32),
            Line("1 %", orders, (PER_CENT,) * len(orders), reference=True),
        )
        return (
            Panel("error", "order T", "relative error", lines, y_log=True),
            self._against_step("float32", self.float32, torch.float32, drawn),
            self._against_step("float64", self.float64, torch.float64, drawn),
        )

    def _predicted(self, name: str, orders: tuple[int, ...], dtype: torch.dtype) -> Line:
        balances = [balance_of(self.exact, order, dtype) for order in orders]
        best = tuple(balance.error(balance.step) for balance in balances)
        return Line(name, orders, best, reference=True)

    def _against_step(
        self,
        name: str,
        found: Sequence[Sequence[float]],
        dtype: torch.dtype,
        drawn: Sequence[int],
    ) -> Panel:
        steps, lines = tuple(self.steps), []
        for order in drawn:
            balance = balance_of(self.exact, order, dtype)
            lines += [
                Line(f"T = {order}", steps, tuple(found[order - 1])),
                Line(f"T = {order}, predicted", steps, tuple(map(balance.error, steps)), (), True),
            ]
        title = f"error against step, {name}"
        return Panel(title, "step", "relative error", tuple(lines), x_log=True, y_log=True)


def accuracy_of(
    narrow: LogDensity,
    wide: LogDensity,
    x: Tensor,
    v: Tensor,
    orders: int,
    steps: Sequence[float],
    progress: Progress,
) -> Accuracy:
    """Return the errors of differences in both precisions, against Taylor series in float64.

    Args:
        narrow: The log-density in float32.
        wide: The same in float64.
        x: Where, shape `(B, *E)`, in float32.
        v: Unit directions, shape `(B, *E)`, in float32.
        orders: The highest order.
        steps: The steps to try.
        progress: Watches the orders.

    Returns:
        The errors.
    """
    double = x.double(), v.double()
    exact = truth(wide, *double, orders + 2)
    float32: list[list[float]] = []
    float64: list[list[float]] = []
    recommended: list[float] = []
    reached: list[float] = []
    for i in progress(range(orders)):
        upto = exact[: i + 2]
        float32.append(errors(narrow, x, v, upto, steps))
        float64.append(errors(wide, *double, upto, steps))
        recommended.append(step_size(wide, *double, i + 1))
        reached.extend(errors(wide, *double, upto, recommended[-1:]))
    return Accuracy(steps, exact, float32, float64, recommended, reached)
