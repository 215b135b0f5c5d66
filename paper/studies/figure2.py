r"""Cost and error of directional derivatives of order $T$ (Figure 2).

Nested autograd differentiates all its previous operations once more, so that its graph grows by a
factor with every order. Finite differences need $T + 1$ values of the function. Taylor mode needs
one forward pass with $T + 1$ coefficients, whose products cost up to $T²$.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar, cast

from torch import Tensor

from fdsm.derivatives import Autodiff
from fdsm.evaluation import Measurement
from fdsm.projections import Sphere
from fdsm.samplers import Progress
from fdsm.serialize import Json
from fdsm.typing import LogDensity

from ..recipes import HasLogDensity
from ..run_store import RunStore
from ..runs import SavedModel
from ..study import StudyResult
from ..support.derivative_cost import Budget, cost_panels, growth_numbers, measure_costs
from ..support.fd_error import FDErrors, measure_errors, relative_error


@dataclass(frozen=True)
class Figure2:
    """Time, memory and error against the order, for a trained deep energy-based model.

    Attributes:
        target: Table of the model.
        row: Row of the model.
        budget: Limits of the measurement of costs.
        cost_rows: Number of test images for the costs.
        error_rows: Number of test images for the errors.
        steps: Step sizes for the errors.
        plotted_orders: The orders whose error is plotted against the step.
        checked_order: Highest order at which Taylor mode is compared with nested autograd.
    """

    target: str = "table2"
    row: str = "FD-DSM"
    budget: Budget = Budget()
    cost_rows: int = 1
    error_rows: int = 8
    steps: tuple[float, ...] = tuple(10 ** (k / 3) for k in range(-9, 7))
    plotted_orders: tuple[int, ...] = (1, 2, 4, 8)
    checked_order: int = 4
    provenance: ClassVar[str] = (
        "Figure 2 and Sec. 3.3. The paper claims errors within 1 %. It gives neither the orders "
        "nor the step nor the precision. Costs are measured in float64, where finite differences "
        "are accurate enough, on test images along random unit directions, with the graph that is "
        "needed for training. Memory is the amount that this graph saves besides parameters and "
        "data. The error is the root mean square over images, relative to Taylor mode in float64. "
        "In float64 the step is the one that `step_size` recommends from function values. In "
        "float32 it is the best of all steps in hindsight. Times are those of one thread. On a "
        "GPU with free capacity the paper's parallel differences take about the same time at any "
        "order. On one thread the time is linear in the T + 1 evaluations. Nested autograd is "
        "measured up to a limit of time and memory. Taylor mode is not in the paper. Up to order "
        "2 one of its nodes stands for several operations."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return costs and errors for the trained model of a run."""
        saved = store.trained(self.target, self.row, seed)
        x = _test_rows(saved, self.error_rows)
        v = Sphere(1.0).sample(x, saved.run.generator("figure2", seed))
        recipe = cast(HasLogDensity, saved.run.recipe)
        wide = recipe.log_density(copy.deepcopy(saved.model).double())
        narrow = recipe.log_density(copy.deepcopy(saved.model).float())
        return self.for_density(narrow, wide, x, v, progress)

    def for_density(
        self, narrow: LogDensity, wide: LogDensity, x: Tensor, v: Tensor, progress: Progress
    ) -> StudyResult:
        """Return costs and errors for any log-density.

        Args:
            narrow: The log-density in float32.
            wide: The same in float64.
            x: Points, shape `(B, *E)`, in float32.
            v: Unit directions, shape `(B, *E)`, in float32.
            progress: Wraps the loops over orders to show their progress.

        Returns:
            Plots of time, memory, nodes and errors, and numbers that summarize them.
        """
        rows, max_order = self.cost_rows, self.budget.max_order
        costs = measure_costs(wide, x[:rows].double(), v[:rows].double(), self.budget, progress)
        errors = measure_errors(narrow, wide, x, v, max_order, self.steps, progress)
        numbers = growth_numbers(costs) | errors.numbers() | self._agreement(wide, x, v, errors)
        plotted = [order for order in self.plotted_orders if order <= max_order]
        return StudyResult(numbers, (*cost_panels(costs), *errors.panels(plotted)))

    def _agreement(
        self, wide: LogDensity, x: Tensor, v: Tensor, errors: FDErrors
    ) -> dict[str, Measurement]:
        nested = Autodiff().jet(wide, x.double(), v.double(), self.checked_order)
        pairs = zip(nested, errors.exact, strict=False)
        worst = max(relative_error(derivative.detach(), exact) for derivative, exact in pairs)
        settings: dict[str, Json] = {"up to order": self.checked_order, "rows": len(x)}
        return {"Taylor against nested autograd": Measurement(worst, settings=settings)}


def _test_rows(saved: SavedModel, rows: int) -> Tensor:
    data = saved.run.recipe.data.load()
    return saved.transform.deterministic(data.test[:rows].to(saved.run.device)).float()


CPU = Figure2()
"""One image, so that nested autograd reaches a high order within a minute."""

PAPER = Figure2(
    budget=Budget(repeats=50, timing_seconds=60.0, max_seconds=120.0, max_bytes=10e9),
    cost_rows=8,
    error_rows=64,
    checked_order=3,
)
"""The network of the published width, trained at that scale."""
