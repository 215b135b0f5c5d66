"""What directional derivatives of growing order cost: time, memory and operations."""

import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ...derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor, central_nodes
from ...evaluation import Measurement
from ...evaluation.timing import peak_saved_bytes, single_threaded, time_interleaved
from ...samplers import Progress
from ...serialize import Json
from ...typing import Derivative, LogDensity
from ..study import Line, Panel
from .autograd_graph import leaf_of, recorded_nodes
from .powers import exponent

NESTED, SERIAL, PARALLEL, TAYLOR = "nested autograd", "FD, one by one", "FD, one batch", "Taylor"

ENGINES: Mapping[str, Derivative] = {
    NESTED: Autodiff(),
    SERIAL: FiniteDifference(parallel=False),
    PARALLEL: FiniteDifference(),
    TAYLOR: Taylor(),
}
"""What is compared."""


@dataclass(frozen=True)
class Cost:
    """What one derivative costs, the graph to train through it included.

    Attributes:
        seconds: The fastest of several, of one thread: the processor's on a CPU, which other work
            there lengthens least, and those on the clock on any other device.
        bytes: The size of all memory that is kept for the backward pass, parameters and data
            apart.
        nodes: The operations that autograd recorded.
    """

    seconds: float
    bytes: int
    nodes: int


@dataclass(frozen=True)
class Budget:
    """How far measurements go.

    Attributes:
        orders: The highest order.
        repeats: How often each derivative is timed, at most.
        enough: A derivative that has taken so many seconds in all is not timed again.
        seconds: An order that is predicted to take longer is not tried.
        bytes: Nor is one that is predicted to keep more.
    """

    orders: int = 8
    repeats: int = 20
    enough: float = 4.0
    seconds: float = 20.0
    bytes: float = 4e9

    def __post_init__(self) -> None:
        if self.orders < 2 or self.repeats < 1:
            raise ValueError(f"it takes two orders and one repeat at least, but got {self}")

    def allows(self, before: Sequence[Cost]) -> bool:
        """Return whether to go on, if costs grow as they did from the last order but one."""
        if len(before) < 2:
            return True
        here, last = before[-2:]
        seconds = last.seconds**2 / here.seconds
        size = last.bytes**2 / max(here.bytes, 1)
        return seconds <= self.seconds and size <= self.bytes


def costs(
    f: LogDensity, x: Tensor, v: Tensor, budget: Budget, progress: Progress
) -> dict[str, list[Cost]]:
    """Return the costs of the orders from one on, by engine.

    Within an order the engines take turns, so that a slow spell of the machine hits them all.

    Args:
        f: The log-density.
        x: Where to differentiate, shape `(B, *E)`.
        v: Along what, shape `(B, *E)`.
        budget: How far to go.
        progress: Watches the orders.

    Returns:
        As many costs for each engine as the budget allows.
    """
    found: dict[str, list[Cost]] = {name: [] for name in ENGINES}
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # the step does not change the cost
        for i in progress(range(budget.orders)):
            runs = {
                name: _derivative(ENGINES[name], f, x, v, i + 1)
                for name, before in found.items()
                if len(before) == i and budget.allows(before)
            }
            kept = {name: kept_by(run) for name, run in runs.items()}
            times = time_interleaved(runs, budget.repeats, x.device, max_seconds=budget.enough)
            for name in runs:
                found[name].append(Cost(min(times[name]), *kept[name]))
    return found


def _derivative(
    engine: Derivative, f: LogDensity, x: Tensor, v: Tensor, order: int
) -> Callable[[], Tensor]:
    return lambda: engine.jet(f, x, v, order)[-1]


def kept_by(run: Callable[[], Tensor]) -> tuple[int, int]:
    """Return how many bytes a graph keeps, leaves apart, and how many nodes it has.

    Args:
        run: Computes a tensor that requires a gradient.

    Returns:
        Bytes, each storage counted once, and nodes, leaves included.

    Example:
        >>> import torch
        >>> a = torch.ones(10, dtype=torch.float32, requires_grad=True)
        >>> kept_by(lambda: (a.exp() * a).sum())  # keeps exp(a), and a leaf
        (40, 4)
    """
    nodes = recorded_nodes(run())
    leaves = [leaf for leaf in map(leaf_of, nodes) if leaf is not None]
    return peak_saved_bytes(run, ignore=leaves), len(nodes)


def cost_panels(spent: Mapping[str, Sequence[Cost]]) -> tuple[Panel, ...]:
    """Return time, memory and nodes against the order, given what `costs` returned."""

    def panel(title: str, label: str, value: Callable[[Cost], float]) -> Panel:
        lines = tuple(
            Line(name, tuple(range(1, len(found) + 1)), tuple(map(value, found)))
            for name, found in spent.items()
        )
        return Panel(title, "order T", label, lines, y_log=True)

    return (
        panel("time", "milliseconds", lambda cost: 1000 * cost.seconds),
        panel("memory", "megabytes kept for the backward pass", lambda cost: cost.bytes / 1e6),
        panel("graph", "nodes", lambda cost: float(cost.nodes)),
    )


def growth(values: Sequence[float]) -> float:
    """Return the factor from one order to the next that fits best, by their logarithms.

    Example:
        >>> round(growth([1.0, 3.0, 9.0]), 6)
        3.0
    """
    return math.exp(
        statistics.linear_regression(range(len(values)), list(map(math.log, values))).slope
    )


def growth_of(spent: Mapping[str, Sequence[Cost]]) -> dict[str, Measurement]:
    """Return how costs grow with the order, each with how that was computed.

    Args:
        spent: What `costs` returned.

    Returns:
        The factor from order to order for nested autograd, how linear the time of finite
        differences is in their evaluations, and how many times as long the one takes.
    """
    nested, serial = spent[NESTED], spent[SERIAL]
    kinds: dict[str, list[float]] = {
        "time": [cost.seconds for cost in nested],
        "memory": [float(cost.bytes) for cost in nested],
        "nodes": [float(cost.nodes) for cost in nested],
    }
    numbers = {
        f"factor per order of {kind}, {NESTED}": Measurement(
            growth(values),
            settings={
                "fit": "least squares of the logarithm on T",
                "orders": len(values),
                "last factor": values[-1] / values[-2],
            },
        )
        for kind, values in kinds.items()
    }
    for name in (SERIAL, PARALLEL):
        numbers |= _linearity(name, [cost.seconds for cost in spent[name]])
    numbers[f"time of {NESTED} over {SERIAL}"] = Measurement(
        nested[-1].seconds / serial[len(nested) - 1].seconds,
        settings={"order": len(nested), "times": "the fastest, measured in turn"},
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
            exponent(evaluations, seconds),
            settings={"fit": "least squares of log time on log(T + 1)", **orders},
        ),
    }
