"""Time of a training step of a deep kernel exponential family, for each method (Table 1).

The speed-up of finite differences depends on the method that they are compared with. The usual
implementation of SSM differentiates the kernels with nested backward passes. The library has
hand-written derivatives of the kernels, which all exact rows of Table 1 use, and Taylor mode for
the loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import ClassVar

import torch
from torch import Tensor

from fdsm.evaluation import Measurement, single_threaded, time_interleaved
from fdsm.models import Kernels, NormalEquations
from fdsm.samplers import Progress
from fdsm.training import derived_seed

from ..data import Dataset
from ..recipes import KernelFamily, seeded
from ..run_store import RunStore
from ..study import StudyResult
from ..tables import table1

DOUBLE_BACKWARD = "SSM by double backward"
METHODS = (DOUBLE_BACKWARD, "SSM", "Taylor-SSM", "SSMVR", "FD-SSM", "FD-SSM-all", "Taylor-SM")
"""The methods. The first three are the baselines."""


@dataclass(frozen=True)
class NestedEquations:
    """Normal equations of SSM, with automatic derivatives of the kernels."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the normal equations of a batch."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            slopes = directional_slopes(model.kernels(x), x, v)
            curvatures = directional_slopes(slopes, x, v)
        scale = x.shape[1] / v.square().sum(1).mean()
        moment = curvatures.sum(0) + (model.base_score(x) * v).sum(1) @ slopes
        return NormalEquations(scale * slopes.T @ slopes, scale * moment, len(x))


def directional_slopes(y: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """Return the slopes of `y` along `v`, shape `(B, M)`, with two nested backward passes.

    The gradient of $u^T y$ with respect to `x` is linear in `u`. The gradient of its product with
    `v` with respect to `u` is the slopes.
    """
    u = torch.zeros_like(y, requires_grad=True)
    (gradient,) = torch.autograd.grad(y, x, u, create_graph=True)
    (slopes,) = torch.autograd.grad((gradient * v).sum(), u, create_graph=True)
    return slopes


def recipes_of(data: str) -> dict[str, KernelFamily]:
    """Return the recipes of all methods for one data set of Table 1."""
    rows = {row.name: row for row in table1.PAPER}
    recipes = {method: rows[f"{data} {method}"] for method in METHODS[1:]}
    return {DOUBLE_BACKWARD: replace(recipes["SSM"], equations=NestedEquations()), **recipes}


@dataclass(frozen=True)
class Times:
    """Times of a method in seconds.

    Attributes:
        steps: Times of training steps.
        validations: Times of validations, divided by the number of steps between two of them.
    """

    steps: Sequence[float]
    validations: Sequence[float]


@dataclass(frozen=True)
class StepTimes:
    """Ratios of the times of one iteration, measured interleaved.

    Attributes:
        data: Names of the data sets.
        steps: Number of timed steps of each method.
        validations: Number of timed validations of each method.
    """

    data: tuple[str, ...] = ("RedWine", "Parkinsons")
    steps: int = 40
    validations: int = 6
    provenance: ClassVar[str] = (
        "Table 1. The published times are those of a training step, including the solution for "
        "the coefficients. The paper does not say whether they include validation. The authors' "
        "code validates after every step. Here both are given: a step alone, and a step with the "
        "validation that follows it (for Taylor-SM a tenth of a validation). Times are CPU times "
        "of one thread, measured interleaved. Ratios are those of the shortest times. The ratio "
        "of the medians is given as a setting. SSM by double backward is the usual "
        "implementation. SSM uses hand-written derivatives of the kernels and backward passes for "
        "the loss. Taylor-SSM uses Taylor mode for the loss as well."
    )

    def run(self, store: RunStore, seed: int, progress: Progress) -> StudyResult:
        """Return times and ratios on each data set.

        Args:
            store: Its device is used.
            seed: Random seed of weights and batches.
            progress: Wraps the loop over data sets to show its progress.
        """
        numbers: dict[str, Measurement] = {}
        for i in progress(range(len(self.data))):
            recipes = recipes_of(self.data[i])
            data = recipes[DOUBLE_BACKWARD].data.load()
            with single_threaded():
                times = self.measure_times(recipes, data, store.device, seed)
            numbers |= compare_times(times, self.data[i])
        return StudyResult(numbers)

    def measure_times(
        self, recipes: Mapping[str, KernelFamily], data: Dataset, device: str, seed: int
    ) -> dict[str, Times]:
        """Time steps, then validations, of several recipes.

        Args:
            recipes: The recipes by method.
            data: The data.
            device: The device.
            seed: Random seed of weights and batches.

        Returns:
            The times by method.
        """
        prepared = {name: prepare(recipe, data, device, seed) for name, recipe in recipes.items()}
        where = torch.device(device)
        steps = time_interleaved(
            {name: step for name, (step, _) in prepared.items()}, self.steps, where
        )
        validations = time_interleaved(
            {name: validate for name, (_, validate) in prepared.items()}, self.validations, where
        )
        every = {name: recipe.plan.validate_every for name, recipe in recipes.items()}
        return {
            name: Times(steps[name], [seconds / every[name] for seconds in validations[name]])
            for name in recipes
        }


def prepare(
    recipe: KernelFamily, data: Dataset, device: str, seed: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a function that takes a training step, and one that validates."""
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


def compare_times(times: Mapping[str, Times], data: str) -> dict[str, Measurement]:
    """Return the times of all methods, and their ratios to the baselines.

    Args:
        times: The times by method.
        data: Name of the data set.

    Returns:
        Milliseconds of a step, and ratios without and with validation.
    """
    numbers = {
        f"milliseconds, {method}, {data}": Measurement(1000 * min(measured.steps))
        for method, measured in times.items()
    }
    pairs = [(base, method) for base, method in combinations(METHODS, 2) if base in METHODS[:3]]
    for base, method in pairs:
        name, ours, base_times = f"{method} over {base}, {data}", times[method], times[base]
        numbers[name] = ratio([ours.steps], [base_times.steps])
        numbers[f"{name}, with validation"] = ratio(
            [ours.steps, ours.validations], [base_times.steps, base_times.validations]
        )
    return numbers


def ratio(
    numerator: Sequence[Sequence[float]], denominator: Sequence[Sequence[float]]
) -> Measurement:
    """Return the ratio of the shortest times, with the ratio of the medians as a setting.

    Args:
        numerator: Times of each part of the numerator. The parts are added.
        denominator: Times of each part of the denominator.

    Returns:
        The ratio.

    Example:
        >>> ratio([[2.0, 3.0, 8.0]], [[4.0, 4.0, 8.0]])
        Measurement(value=0.5, error=None, settings={'median': 0.75})
    """
    shortest = sum(map(min, numerator)) / sum(map(min, denominator))
    medians = sum(map(median, numerator)) / sum(map(median, denominator))
    return Measurement(shortest, settings={"median": medians})


CPU = StepTimes()
"""One or two minutes on one core."""

PAPER = StepTimes(("RedWine", "Parkinsons", "WhiteWine"), steps=200, validations=50)
"""All three data sets."""
