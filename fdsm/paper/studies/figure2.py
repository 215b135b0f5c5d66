r"""What a directional derivative of order $T$ costs and how exact it is (Figure 2).

Nested autograd differentiates all that it did before once more, so that its graph grows by a
factor with every order. Finite differences take $T + 1$ values of the function, and Taylor series
one forward pass with $T + 1$ coefficients, whose products cost up to $T²$.
"""

import copy
from dataclasses import dataclass, field

from torch import Tensor

from ...derivatives import Autodiff
from ...evaluation import Measurement
from ...projections import Sphere
from ...runs.saved_model import SavedModel, density_of
from ...samplers import Progress
from ...serialize import Json
from ...typing import LogDensity
from ..run_store import RunStore
from ..study import Findings
from ..support.derivative_cost import Budget, cost_panels, costs, growth_of
from ..support.fd_error import Accuracy, accuracy_of, relative_error


@dataclass(frozen=True)
class Figure2:
    """Time, memory and error against the order, on a trained deep log-density.

    Attributes:
        target: What the run of the model is for.
        recipe: The recipe of the model, as `experiment/row`.
        budget: How far costs are measured.
        rows: How many test images the costs are of.
        error_rows: How many the errors are of.
        steps: The steps among which the best one is looked for.
        drawn: The orders whose error is drawn against the step.
        checked: Up to which order Taylor series are held against nested autograd.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    target: str = "table2"
    recipe: str = "deep_ebm/FD-DSM"
    budget: Budget = Budget()
    rows: int = 1
    error_rows: int = 8
    steps: tuple[float, ...] = tuple(10 ** (k / 3) for k in range(-9, 7))
    drawn: tuple[int, ...] = (1, 2, 4, 8)
    checked: int = 4
    title: str = field(
        default="Figure 2: time, memory and error of directional derivatives", repr=False
    )
    provenance: str = field(
        default="Figure 2 and Sec. 3.3, which give neither the orders nor the step nor the "
        "precision, and claim errors within 1 %. Costs are in float64, in which the differences "
        "are exact enough, of test images along random unit directions, with the graph to train "
        "through; memory is what that graph keeps beside parameters and data, not the peak. The "
        "error is relative to Taylor series in float64, root mean square over images; in float64 "
        "with the step that `step_size` recommends from values alone, in float32 with the best "
        "step in hindsight. Time is of one thread: the paper's parallel differences take about "
        "as long at any order while a GPU has room, on one thread they cannot but be linear in "
        "their T + 1 evaluations. Nested autograd goes as far as a budget of time and memory "
        "allows. Taylor series are an addition; up to order 2 one node of theirs stands for "
        "several operations.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return costs and errors of the trained model of a run."""
        trained = store.trained(self.target, self.recipe, seed)
        x = _test_rows(trained, self.error_rows)
        v = Sphere(1.0).sample(x, trained.run.generator("figure2", seed))
        wide = density_of(trained.run, copy.deepcopy(trained.model).double())
        narrow = density_of(trained.run, copy.deepcopy(trained.model).float())
        return self.of(narrow, wide, x, v, progress)

    def of(
        self, narrow: LogDensity, wide: LogDensity, x: Tensor, v: Tensor, progress: Progress
    ) -> Findings:
        """Return costs and errors of any log-density.

        Args:
            narrow: The log-density in float32.
            wide: The same in float64.
            x: Where, shape `(B, *E)`, in float32.
            v: Unit directions, shape `(B, *E)`, in float32.
            progress: Watches the orders.

        Returns:
            Panels of time, memory, nodes and errors, and what they come down to in numbers.
        """
        spent = costs(
            wide, x[: self.rows].double(), v[: self.rows].double(), self.budget, progress
        )
        orders = self.budget.orders
        accuracy = accuracy_of(narrow, wide, x, v, orders, self.steps, progress)
        numbers = growth_of(spent) | accuracy.numbers() | self._agreement(wide, x, v, accuracy)
        drawn = [order for order in self.drawn if order <= orders]
        return Findings(numbers, (*cost_panels(spent), *accuracy.panels(drawn)))

    def _agreement(
        self, wide: LogDensity, x: Tensor, v: Tensor, accuracy: Accuracy
    ) -> dict[str, Measurement]:
        nested = Autodiff().jet(wide, x.double(), v.double(), self.checked)
        pairs = zip(nested, accuracy.exact, strict=False)
        worst = max(relative_error(approximate.detach(), exact) for approximate, exact in pairs)
        settings: dict[str, Json] = {"up to order": self.checked, "rows": len(x)}
        return {"Taylor against nested autograd": Measurement(worst, settings=settings)}


def _test_rows(trained: SavedModel, rows: int) -> Tensor:
    data = trained.run.recipe.data.load()
    return trained.transform.deterministic(data.test[:rows].to(trained.run.device)).float()


STUDY = Figure2()
"""On one image, which lets nested autograd get far in a minute."""

PAPER = Figure2(
    budget=Budget(repeats=50, enough=60.0, seconds=120.0, bytes=10e9),
    rows=8,
    error_rows=64,
    checked=3,
)
"""With the network of the published width, as trained at that scale."""
