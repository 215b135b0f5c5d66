"""Cost and accuracy of the engines on models of this package.

`python -m benchmarks engines` prints, for a ResNet and a flow,

- the time of a step of sliced score matching with one and with eight directions, as ratios
  measured interleaved in one run,
- the bytes that are saved for the backward pass,
- the cosine between the parameter gradient, in float32 and under bfloat16 autocast, and the
  gradient in float64, at initialization and after some training,
- the time of the exact score-matching loss relative to one double backward per coordinate.

The arguments `time`, `memory`, `accuracy` and `exact` select parts.
"""

import argparse
import copy
import warnings
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor, nn

from benchmarks.problems import Problem
from benchmarks.records import Case, Record
from benchmarks.records.tables import ratio_tables
from benchmarks.step import GRADIENT, bound, gradient_step, mean_of
from benchmarks.timing import Build, Group, time_group
from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning, Taylor
from fdsm.evaluation import peak_saved_bytes, sm_losses
from fdsm.models import NICE, QuadraticResNet
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative
from paper.data import Digits

ENGINES: dict[str, Derivative] = {
    "FiniteDifference": FiniteDifference(),
    "Taylor": Taylor(),
    "Autodiff": Autodiff(),
}
PROBLEMS = (
    Problem("ResNet", partial(QuadraticResNet, (1, 16, 16), width=16), (32, 1, 16, 16), 10),
    Problem("NICE", NICE, (128, 784), 10),
)
"""QuadraticResNet on 16 x 16 images with width 16, and NICE with 4 couplings of 4 x 1000."""
VALUE = "exact loss"


def sliced(engine: Derivative, directions: int) -> SSM:
    """Return the objective that is compared."""
    return SSM(engine, Sphere(0.1), directions)


def show(groups: list[Group], reference: Case) -> None:
    """Time groups and print ratios to one of their cases."""
    costs = tuple(cost for group in groups for cost in time_group(group))
    (table,) = ratio_tables(Record("engines", "seconds", {reference.mode: reference}, costs))
    Console().print(table.terminal())


def times() -> None:
    """Print the times of a step."""
    for directions in (1, 8):
        groups = []
        for problem in PROBLEMS:
            cases: dict[Case, Build] = {}
            for name, engine in ENGINES.items():
                loss = bound(mean_of(sliced(engine, directions)))
                case = Case(GRADIENT, f"{name}, directions: {directions}")
                cases[case] = partial(gradient_step, loss, problem)
            groups.append(Group(problem.name, cases, problem.repeats))
        show(groups, next(iter(groups[0].cases)))


def memory() -> None:
    """Print the bytes that are saved for the backward pass."""
    table = Table("", *ENGINES, title="saved for the backward pass, relative to FiniteDifference")
    for problem in PROBLEMS:
        f, x = problem.build()
        for directions in (1, 8):
            sizes = [
                peak_saved_bytes(partial(sliced(engine, directions), f, x))
                for engine in ENGINES.values()
            ]
            ratios = (f"{size / sizes[0]:.2f}" for size in sizes)
            table.add_row(f"{problem.name}, directions: {directions}", *ratios)
    Console().print(table)


def gradient(engine: Derivative, model: nn.Module, x: Tensor, autocast: bool = False) -> Tensor:
    """Return the parameter gradient for fixed directions, in float64."""
    model.zero_grad(set_to_none=True)
    v = Sphere(0.1).sample(x.double(), Generator().manual_seed(0)).to(x.dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = sliced(engine, 1).at(model, x, v).mean()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.cat([grad.flatten().double() for grad in grads])


def train_model(model: nn.Module, data: Tensor, steps: int) -> nn.Module:
    """Return the model after some steps of sliced score matching on slightly noisy data."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        x = data[torch.randint(len(data), (128,))]
        optimizer.zero_grad()
        mean_of(sliced(Taylor(), 4))(model, x + 0.3 * torch.randn_like(x)).backward()
        optimizer.step()
    return model


def accuracy() -> None:
    """Print the cosines of parameter gradients with those in float64."""
    data = Digits().load().train / 16
    models = {
        "QuadraticResNet, 8x8": (QuadraticResNet((1, 8, 8), width=8), data),
        "NICE, 64": (NICE(64, hidden=256), data.flatten(1)),
    }
    table = Table("", "precision", *ENGINES, title="cosine with the float64 gradient")
    for name, (model, digits) in models.items():
        for stage, steps in (("at initialization", 0), ("after 100 steps", 100)):
            model = train_model(model, digits, steps)
            x = digits[:128] + 0.3 * torch.randn(digits[:128].shape)
            truth = gradient(Autodiff(), copy.deepcopy(model).double(), x.double())
            for autocast in (False, True):
                cosines = [
                    torch.cosine_similarity(gradient(engine, model, x, autocast), truth, 0)
                    for engine in ENGINES.values()
                ]
                precision = "bfloat16 autocast" if autocast else "float32"
                table.add_row(f"{name} {stage}", precision, *(f"{c:.6f}" for c in cosines))
    Console().print(table)


def exact() -> None:
    """Print the times of the exact loss of a few rows."""
    engines: dict[str, Derivative] = {
        "Taylor": Taylor(),
        "a double backward per coordinate": Autodiff(),
    }
    groups = []
    for problem in PROBLEMS:
        f, x = problem.build()
        losses = {
            Case(VALUE, name): partial(sm_losses, f, x[:16], derivative=engine)
            for name, engine in engines.items()
        }
        fast, slow = (loss() for loss in losses.values())
        rows, means = ((fast - slow) / slow).abs().max(), fast.mean() / slow.mean() - 1
        print(f"relative difference of the losses: {abs(means):.1e}, of a row: {rows:.1e} at most")
        cases: dict[Case, Build] = {case: partial(_same, loss) for case, loss in losses.items()}
        groups.append(Group(problem.name, cases, 2))
    show(groups, Case(VALUE, "Taylor"))


def _same(function: Callable[[], object]) -> Callable[[], object]:
    return function


PARTS = {"time": times, "memory": memory, "accuracy": accuracy, "exact": exact}


def main(arguments: list[str] | None = None) -> None:
    """Print the given parts, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks engines")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all.")
    parts = parser.parse_args(arguments).parts
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}. There are: {', '.join(PARTS)}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore", PrecisionWarning)  # the table shows the error
    for part in parts or PARTS:
        PARTS[part]()
