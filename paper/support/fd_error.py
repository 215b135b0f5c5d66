r"""Error of finite differences of increasing order, for any step and precision.

The error of the difference of order $T$ with step $ε$ has a truncation and a rounding part,

$$A\, |D^{T+2} f|\, ε² + C\, u\, |f|\, ε^{-T}, \qquad
  A = \frac{1}{(T + 2)!} \sum_j w_j γ_j^{T+2}, \quad C = \sum_j |w_j|,$$

for nodes $γ_j$, weights $w_j$ and unit round-off $u$. The smallest relative error is of order
$u^{2/(T+2)}$. In float32 it exceeds one percent from some order on, for every step.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fdsm.derivatives import (
    FiniteDifference,
    PrecisionWarning,
    Taylor,
    central_nodes,
    stencil,
    step_size,
)
from fdsm.evaluation import Measurement
from fdsm.operators import directional_derivative
from fdsm.samplers import Progress
from fdsm.serialize import Json
from fdsm.typing import LogDensity

from ..report import Line, Panel

TOLERANCE = 0.01
"""The error that the paper claims for Figure 2, one percent."""


def exact_derivatives(f: LogDensity, x: Tensor, v: Tensor, order: int) -> Tensor:
    r"""Return $(v^T∇)^k f(x)$ for `k = 0, …, order` by Taylor-mode differentiation in float64.

    Args:
        f: The log-density, in float64.
        x: Points, shape `(B, *E)`, in float64.
        v: Directions, shape `(B, *E)`.
        order: The highest order.

    Returns:
        A row for each order, shape `(order + 1, B)`.
    """
    with torch.no_grad():
        return torch.stack(Taylor().jet(f, x, v, order))


def relative_error(approximate: Tensor, exact: Tensor) -> float:
    """Return the root mean square error relative to the root mean square of the exact values."""
    error: Tensor = (approximate.double() - exact).norm() / exact.norm()
    return error.item()


def relative_errors(
    f: LogDensity, x: Tensor, v: Tensor, exact: Tensor, steps: Sequence[float]
) -> list[float]:
    """Return the relative errors of finite differences with several steps.

    Args:
        f: The log-density.
        x: Points. Their precision is that of the differences.
        v: Unit directions, in the same precision.
        exact: The exact derivatives of orders $0, …, T$. The last of them is compared.
        steps: The steps.

    Returns:
        The error for each step.
    """
    order = len(exact) - 1
    difference = partial(directional_derivative, f, x, v, order, derivative=FiniteDifference())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # the result shows the error
        return [relative_error(difference(step=step), exact[order]) for step in steps]


@dataclass(frozen=True)
class ErrorModel:
    r"""Predicted relative error, $a ε² + b ε^{-T}$.

    Attributes:
        order: The order $T$.
        truncation: Coefficient $a = A |D^{T+2} f| / |D^T f|$.
        rounding: Coefficient $b = C u |f| / |D^T f|$.

    Example:
        >>> model = ErrorModel(2, truncation=3.0, rounding=3.0)
        >>> model.best_step, model.error(model.best_step)
        (1.0, 6.0)
    """

    order: int
    truncation: float
    rounding: float

    @property
    def best_step(self) -> float:
        r"""The best step, $(T b / 2 a)^{1/(T+2)}$."""
        ratio = self.order * self.rounding / (2 * self.truncation)
        return float(ratio ** (1 / (self.order + 2)))

    def error(self, step: float) -> float:
        """Return the predicted relative error for a step."""
        return float(self.truncation * step**2 + self.rounding * step**-self.order)


def error_model(exact: Tensor, order: int, dtype: torch.dtype) -> ErrorModel:
    r"""Return the error model of the finite difference of Theorem 1.

    Args:
        exact: Exact derivatives of orders 0 to at least $T + 2$ along unit directions.
        order: The order $T$.
        dtype: The precision of the function values.

    Returns:
        The model, with root mean squares of the derivatives.

    Example:
        >>> exact = torch.ones(9, 1)
        >>> model = error_model(exact, 2, torch.float64)
        >>> round(1 / model.truncation), round(model.rounding * 2**53)
        (12, 4)
    """
    nodes = central_nodes(order)
    weights = stencil(nodes)[order]
    moment = sum(w * node ** (order + 2) for w, node in zip(weights, nodes, strict=True))
    size = exact.double().norm(dim=1)
    truncation = float(moment) / math.factorial(order + 2) * size[order + 2] / size[order]
    rounding = float(sum(map(abs, weights))) * torch.finfo(dtype).eps / 2 * size[0] / size[order]
    return ErrorModel(order, truncation.item(), rounding.item())


@dataclass(frozen=True, eq=False)
class FDErrors:
    """Relative errors of finite differences of order one and higher.

    Attributes:
        steps: The steps.
        exact: Exact derivatives, one row for each order from zero to two above the highest.
        float32: Error in float32 for each order and step.
        float64: Error in float64 for each order and step.
        recommended_steps: The step that `step_size` recommends for each order in float64.
        recommended_errors: The error in float64 with that step.
    """

    steps: Sequence[float]
    exact: Tensor
    float32: Sequence[Sequence[float]]
    float64: Sequence[Sequence[float]]
    recommended_steps: Sequence[float]
    recommended_errors: Sequence[float]

    def numbers(self) -> dict[str, Measurement]:
        """Return the highest order up to which errors are within 1 %, and the largest errors."""
        best_errors = [min(row) for row in self.float32]
        best_steps = [self.steps[list(row).index(min(row))] for row in self.float32]
        numbers = {}
        for name, errors, steps in (
            ("float64", self.recommended_errors, self.recommended_steps),
            ("float32", best_errors, best_steps),
        ):
            settings: dict[str, Json] = {"rows": self.exact.shape[1], "steps": list(steps)}
            within = next((k for k, e in enumerate(errors) if not e <= TOLERANCE), len(errors))
            numbers[f"orders within 1 %, {name}"] = Measurement(within, settings=settings)
            numbers[f"largest error, {name}"] = Measurement(max(errors), settings=settings)
        return numbers

    def panels(self, plotted_orders: Sequence[int]) -> tuple[Panel, ...]:
        """Return plots of the error against the order, and against the step for some orders."""
        orders = tuple(range(1, len(self.float32) + 1))
        lines = (
            Line("float64, recommended step", orders, tuple(self.recommended_errors)),
            Line("float32, best step", orders, tuple(map(min, self.float32))),
            self._predicted("float64, predicted", orders, torch.float64),
            self._predicted("float32, predicted", orders, torch.float32),
            Line("1 %", orders, (TOLERANCE,) * len(orders), reference=True),
        )
        return (
            Panel("error", "order T", "relative error", lines, y_log=True),
            self._against_step("float32", self.float32, torch.float32, plotted_orders),
            self._against_step("float64", self.float64, torch.float64, plotted_orders),
        )

    def _predicted(self, name: str, orders: tuple[int, ...], dtype: torch.dtype) -> Line:
        models = [error_model(self.exact, order, dtype) for order in orders]
        best = tuple(model.error(model.best_step) for model in models)
        return Line(name, orders, best, reference=True)

    def _against_step(
        self,
        name: str,
        errors: Sequence[Sequence[float]],
        dtype: torch.dtype,
        plotted_orders: Sequence[int],
    ) -> Panel:
        steps, lines = tuple(self.steps), []
        for order in plotted_orders:
            model = error_model(self.exact, order, dtype)
            lines += [
                Line(f"T = {order}", steps, tuple(errors[order - 1])),
                Line(f"T = {order}, predicted", steps, tuple(map(model.error, steps)), (), True),
            ]
        title = f"error against step, {name}"
        return Panel(title, "step", "relative error", tuple(lines), x_log=True, y_log=True)


def measure_errors(
    narrow: LogDensity,
    wide: LogDensity,
    x: Tensor,
    v: Tensor,
    max_order: int,
    steps: Sequence[float],
    progress: Progress,
) -> FDErrors:
    """Compare finite differences in float32 and float64 with exact derivatives.

    Args:
        narrow: The log-density in float32.
        wide: The same in float64.
        x: Points, shape `(B, *E)`, in float32.
        v: Unit directions, shape `(B, *E)`, in float32.
        max_order: The highest order.
        steps: The steps.
        progress: Wraps the loop over orders to show its progress.

    Returns:
        The errors.
    """
    double = x.double(), v.double()
    exact = exact_derivatives(wide, *double, max_order + 2)
    float32: list[list[float]] = []
    float64: list[list[float]] = []
    recommended_steps: list[float] = []
    recommended_errors: list[float] = []
    for i in progress(range(max_order)):
        upto = exact[: i + 2]
        float32.append(relative_errors(narrow, x, v, upto, steps))
        float64.append(relative_errors(wide, *double, upto, steps))
        recommended_steps.append(step_size(wide, *double, i + 1))
        recommended_errors.extend(relative_errors(wide, *double, upto, recommended_steps[-1:]))
    return FDErrors(steps, exact, float32, float64, recommended_steps, recommended_errors)
