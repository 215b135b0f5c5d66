"""What a training step of a deep kernel exponential family costs, in each way (Table 1).

How much finite differences gain depends on what they are compared with. The usual way to write
SSM takes the derivatives of the kernels by backward passes of backward passes; the library has a
jet written by hand for them, which all exact rows of Table 1 use, and Taylor series for the loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import median

import torch
from torch import Tensor

from ...data import Dataset
from ...evaluation import Measurement
from ...evaluation.timing import single_threaded, time_interleaved
from ...models.normal_equations import Kernels, NormalEquations
from ...recipes.kernel import KernelFamily
from ...recipes.recipe import seeded
from ...samplers import Progress
from ...tensors import dot
from ...training import derived_seed
from ..run_store import RunStore
from ..study import Findings
from ..tables import table1

USUAL = "SSM by double backward"
WAYS = (USUAL, "SSM", "Taylor-SSM", "SSMVR", "FD-SSM", "FD-SSM-all", "Taylor-SM")
"""What is compared; ways are held against the first three."""


@dataclass(frozen=True)
class NestedEquations:
    """The minimiser of SSM, by automatic differentiation of the kernels."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            slopes = along(model.kernels(x), x, v)
            curvatures = along(slopes, x, v)
        scale = x.shape[1] / v.square().sum(1).mean()
        moment = curvatures.sum(0) + dot(model.base_score(x), v) @ slopes
        return NormalEquations(scale * slopes.T @ slopes, scale * moment, len(x))


def along(y: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """Return the slopes of `y` along `v`, shape `(B, M)`, by a backward pass of a backward pass.

    The gradient of $u^T y$ in `x` is linear in `u`, and its product with `v` has the slopes for
    a gradient in `u`.
    """
    u = torch.zeros_like(y, requires_grad=True)
    (gradient,) = torch.autograd.grad(y, x, u, create_graph=True)
    (slopes,) = torch.autograd.grad(dot(gradient, v).sum(), u, create_graph=True)
    return slopes


def ways_of(table: str) -> dict[str, KernelFamily]:
    """Return the rows of Table 1 for one of its tables, after the usual way."""
    rows = {row.name: row for row in table1.TABLE}
    named = {way: rows[f"{table} {way}"] for way in WAYS if way != USUAL}
    return {USUAL: replace(named["SSM"], equations=NestedEquations()), **named}


@dataclass(frozen=True)
class Taken:
    """What iterations of a way took.

    Attributes:
        steps: The seconds of some steps.
        validations: The seconds of some validations, over the number of steps to each.
    """

    steps: Sequence[float]
    validations: Sequence[float]


@dataclass(frozen=True)
class StepTimes:
    """Ratios of the times of one iteration, measured in turn.

    Attributes:
        tables: The tables.
        steps: How often a step of each way is timed.
        validations: How often a validation is.
        title: What it shows.
        provenance: Where in the paper it is.
    """

    tables: tuple[str, ...] = ("RedWine", "Parkinsons")
    steps: int = 40
    validations: int = 6
    title: str = field(default="The times of Table 1, against several exact ways", repr=False)
    provenance: str = field(
        default="Table 1, whose times are of a training step with its solve for the coefficients; "
        "whether validation is in them is not said, and the authors' code validates after "
        "every step. Here are both: a step alone, and with the validation that follows it "
        "(for Taylor-SM a tenth of one). Times are the processor's, of one thread, taken in "
        "turn; ratios are of the fastest, and beside each is that of the medians. SSM by "
        "double backward is the usual way to write it; SSM has a jet written by hand for the "
        "kernels, and backward passes for the loss; Taylor-SSM has series for that, too.",
        repr=False,
    )

    def measure(self, store: RunStore, seed: int, progress: Progress) -> Findings:
        """Return times and ratios on each table.

        Args:
            store: Says on which device.
            seed: Decides weights and batches.
            progress: Watches the tables.
        """
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.tables))):
            ways = ways_of(self.tables[i])
            data = ways[USUAL].data.load()
            with single_threaded():
                taken = self.times(ways, data, store.device, seed)
            numbers |= compared(taken, self.tables[i])
        return Findings(numbers)

    def times(
        self, ways: Mapping[str, KernelFamily], data: Dataset, device: str, seed: int
    ) -> dict[str, Taken]:
        """Return the times of steps, then of validations, each measured in turn.

        Args:
            ways: The recipes by name.
            data: What they are trained on.
            device: Where.
            seed: Decides weights and batches.

        Returns:
            The times by name.
        """
        works = {name: ready(recipe, data, device, seed) for name, recipe in ways.items()}
        on, every = torch.device(device), {name: ways[name].plan.validate_every for name in ways}
        steps = time_interleaved({name: step for name, (step, _) in works.items()}, self.steps, on)
        validate = {name: validation for name, (_, validation) in works.items()}
        validations = time_interleaved(validate, self.validations, on)
        return {
            name: Taken(steps[name], [seconds / every[name] for seconds in validations[name]])
            for name in ways
        }


def ready(
    recipe: KernelFamily, data: Dataset, device: str, seed: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that take a training step, and that validate."""
    generator = seeded(device, derived_seed(seed, "times"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "weights"))
        model = recipe.build(data.shape).to(device)
    recipe.before_training(model, data, generator)
    step = recipe.step(model, data)
    batch = data.transform.deterministic(data.train[: recipe.plan.batch]).to(device)
    return (
        lambda: step(batch, generator),
        lambda: recipe.validate(model, data, seeded(device, derived_seed(seed, "validate"))),
    )


def compared(taken: Mapping[str, Taken], table: str) -> dict[str, Measurement]:
    """Return the times and the ratios of all ways to the first three.

    Args:
        taken: What `times` returned.
        table: The table that it was on.

    Returns:
        Milliseconds of a step, and ratios without and with validation, by name.
    """
    numbers = {
        f"milliseconds, {way}, {table}": Measurement(1000 * min(its.steps))
        for way, its in taken.items()
    }
    pairs = [(base, way) for base, way in combinations(WAYS, 2) if base in WAYS[:3]]
    for base, way in pairs:
        name, mine, its = f"{way} over {base}, {table}", taken[way], taken[base]
        numbers[name] = ratio([mine.steps], [its.steps])
        numbers[f"{name}, with validation"] = ratio(
            [mine.steps, mine.validations], [its.steps, its.validations]
        )
    return numbers


def ratio(mine: Sequence[Sequence[float]], its: Sequence[Sequence[float]]) -> Measurement:
    """Return the ratio of the fastest times, with that of the medians.

    Args:
        mine: The seconds of each part of the one, which are added up.
        its: Those of the other.

    Returns:
        The ratio.

    Example:
        >>> ratio([[2.0, 3.0, 8.0]], [[4.0, 4.0, 8.0]])
        Measurement(value=0.5, error=None, settings={'median': 0.75})
    """
    fastest = sum(map(min, mine)) / sum(map(min, its))
    typical = sum(map(median, mine)) / sum(map(median, its))
    return Measurement(fastest, settings={"median": typical})


STUDY = StepTimes()
"""A minute or two on one core."""

PAPER = StepTimes(("RedWine", "Parkinsons", "WhiteWine"), steps=200, validations=50)
"""All three tables."""
