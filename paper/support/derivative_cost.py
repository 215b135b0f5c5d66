"""Time, memory and graph size of directional derivatives of increasing order."""

import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor, central_nodes
from fdsm.evaluation import Measurement, peak_saved_bytes, single_threaded, time_interleaved
from fdsm.samplers import Progress
from fdsm.serialize import Json
from fdsm.typing import Derivative, LogDensity

from ..report import Line, Panel
from .analysis import loglog_slope
from .autograd_graph import leaf_of, recorded_nodes

NESTED, SERIAL, PARALLEL, TAYLOR = "nested autograd", "FD, one by one", "FD, one batch", "Taylor"

ENGINES: Mapping[str, Derivative] = {
    NESTED: Autodiff(),
    SERIAL: FiniteDifference(parallel=False),
    PARALLEL: FiniteDifference(),
    TAYLOR: Taylor(),
}
"""The engines that are compared."""


@dataclass(frozen=True)
class Cost:
    """Cost of one derivative, including the graph that is needed to train through it.

    Attributes:
        seconds: Shortest of several times on one thread: CPU time on a CPU, elapsed time on other
            devices.
        bytes: Peak memory saved for the backward pass, without parameters and data.
        nodes: Number of nodes in the autograd graph.
    """

    seconds: float
    bytes: int
    nodes: int


@dataclass(frozen=True)
class Budget:
    """Limits of the measurement.

    Attributes:
        max_order: The highest order.
        repeats: Number of times each derivative is timed, at most.
        timing_seconds: A derivative is not timed again after this total time.
        max_seconds: An order is skipped if it is predicted to take longer.
        max_bytes: An order is skipped if it is predicted to save more memory.
    """

    max_order: int = 8
    repeats: int = 20
    timing_seconds: float = 4.0
    max_seconds: float = 20.0
    max_bytes: float = 4e9

    def __post_init__(self) -> None:
        if self.max_order < 2 or self.repeats < 1:
            raise ValueError(f"max_order must be at least 2 and repeats at least 1, got {self}")

    def allows_next_order(self, costs: Sequence[Cost]) -> bool:
        """Return whether to measure the next order, if costs keep growing by the last factor."""
        if len(costs) < 2:
            return True
        before, last = costs[-2:]
        seconds = last.seconds**2 / before.seconds
        size = last.bytes**2 / max(before.bytes, 1)
        return seconds <= self.max_seconds and size <= self.max_bytes


def measure_costs(
    f: LogDensity, x: Tensor, v: Tensor, budget: Budget, progress: Progress
) -> dict[str, list[Cost]]:
    """Measure the cost of derivatives of order one and higher for each engine.

    The engines are timed interleaved, so that slow phases of the machine affect all of them.

    Args:
        f: The log-density.
        x: Points, shape `(B, *E)`.
        v: Directions, shape `(B, *E)`.
        budget: Limits of the measurement.
        progress: Wraps the loop over orders to show its progress.

    Returns:
        The costs by engine, one for each order that the budget allows.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in ENGINES}
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # the step does not change the cost
        for i in progress(range(budget.max_order)):
            functions = {
                name: _derivative(ENGINES[name], f, x, v, i + 1)
                for name, before in costs.items()
                if len(before) == i and budget.allows_next_order(before)
            }
            sizes = {name: graph_size(function) for name, function in functions.items()}
            times = time_interleaved(
                functions, budget.repeats, x.device, max_seconds=budget.timing_seconds
            )
            for name in functions:
                costs[name].append(Cost(min(times[name]), *sizes[name]))
    return costs


def _derivative(
    engine: Derivative, f: LogDensity, x: Tensor, v: Tensor, order: int
) -> Callable[[], Tensor]:
    return lambda: engine.jet(f, x, v, order)[-1]


def graph_size(function: Callable[[], Tensor]) -> tuple[int, int]:
    """Return the saved bytes and the number of nodes of the autograd graph of a result.

    Args:
        function: Computes a tensor that requires a gradient.

    Returns:
        Peak of the saved bytes, without those of leaves, and number of nodes with leaves.

    Example:
        >>> import torch
        >>> a = torch.ones(10, dtype=torch.float32, requires_grad=True)
        >>> graph_size(lambda: (a.exp() * a).sum())  # saves exp(a), and a leaf
        (40, 4)
    """
    nodes = recorded_nodes(function())
    leaves = [leaf for leaf in map(leaf_of, nodes) if leaf is not None]
    return peak_saved_bytes(function, ignore=leaves), len(nodes)


def cost_panels(costs: Mapping[str, Sequence[Cost]]) -> tuple[Panel, ...]:
    """Return plots of time, memory and nodes against the order, given `measure_costs`."""

    def panel(title: str, label: str, value: Callable[[Cost], float]) -> Panel:
        lines = tuple(
            Line(name, tuple(range(1, len(by_order) + 1)), tuple(map(value, by_order)))
            for name, by_order in costs.items()
        )
        return Panel(title, "order T", label, lines, y_log=True)

    return (
        panel("time", "milliseconds", lambda cost: 1000 * cost.seconds),
        panel("memory", "megabytes kept for the backward pass", lambda cost: cost.bytes / 1e6),
        panel("graph", "nodes", lambda cost: float(cost.nodes)),
    )


def growth_factor(values: Sequence[float]) -> float:
    """Return the factor of a geometric sequence, by least squares on logarithms.

    Example:
        >>> round(growth_factor([1.0, 3.0, 9.0]), 6)
        3.0
    """
    return math.exp(
        statistics.linear_regression(range(len(values)), list(map(math.log, values))).slope
    )


def growth_numbers(costs: Mapping[str, Sequence[Cost]]) -> dict[str, Measurement]:
    """Return how costs grow with the order.

    Args:
        costs: The result of `measure_costs`.

    Returns:
        For nested autograd, the growth factor from one order to the next. For finite differences,
        how linear the time is in the number of evaluations. And the ratio of their times.
    """
    nested, serial = costs[NESTED], costs[SERIAL]
    kinds: dict[str, list[float]] = {
        "time": [cost.seconds for cost in nested],
        "memory": [float(cost.bytes) for cost in nested],
        "nodes": [float(cost.nodes) for cost in nested],
    }
    numbers = {
        f"factor per order of {kind}, {NESTED}": Measurement(
            growth_factor(values),
            settings={
                "fit": "least squares of the logarithm on T",
                "orders": len(values),
                "last factor": values[-1] / values[-2],
            },
        )
        for kind, values in kinds.items()
    }
    for name in (SERIAL, PARALLEL):
        numbers |= _linearity(name, [cost.seconds for cost in costs[name]])
    numbers[f"time of {NESTED} over {SERIAL}"] = Measurement(
        nested[-1].seconds / serial[len(nested) - 1].seconds,
        settings={"order": len(nested), "times": "the shortest, measured interleaved"},
    )
    return numbers


def _linearity(name: str, seconds: Sequence[float]) -> dict[str, Measurement]:
    evaluations = [float(len(central_nodes(order + 1))) for order in range(len(seconds))]
    orders: dict[str, Json] = {"orders": len(seconds)}
    return {
        f"R² of time linear in T + 1, {name}": Measurement(
            statistics.correlation(evaluations, seconds) ** 2,
            settings={"fit": "least squares of time on T + 1", **orders},
        ),
        f"power of T + 1 in time, {name}": Measurement(
            loglog_slope(evaluations, seconds),
            settings={"fit": "least squares of log time on log(T + 1)", **orders},
        ),
    }
