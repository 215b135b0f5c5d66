"""Peak memory of a gradient step."""

from collections.abc import Callable, Sequence
from functools import partial

from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere
from fdsm.typing import Objective

from . import operators
from .peers.by_hand import EPS, LOSSES, SIGMA, plain
from .problems import LARGE_MLP, RESNET, SMALL_MLP_256, Problem
from .records.record import Case, Cost
from .step import GRADIENT, PLAIN, bound, gradient_step, mean_of
from .timing import Build, Group, quiet

REFERENCES = {GRADIENT: PLAIN, **operators.REFERENCES}
WARM_UP = 4
"""Calls before the measured ones. `FiniteDifference` inspects the model at the first, second,
fourth and eighth."""
REPEATS = 3


def groups(
    peers: frozenset[str] = frozenset(),
    problems: Sequence[Problem] = (LARGE_MLP, SMALL_MLP_256, RESNET),
) -> list[Group]:
    """Return the steps and operators to compare on each problem.

    Args:
        peers: Other packages to compare with. Those with JAX are left out, because torch does not
            see their memory.
        problems: Networks and batches of the steps.

    Returns:
        One group for each problem.
    """
    steps = [Group(problem.name, _cases(problem, peers), REPEATS) for problem in problems]
    return steps + [
        Group(task.problem.name, operators.torch_cases(task), REPEATS)
        for task in operators.PROBLEMS
    ]


def _cases(problem: Problem, peers: frozenset[str]) -> dict[Case, Build]:
    rows = problem.shape[0]
    objectives: dict[str, Objective] = {
        "FD-SSM": SSM(FiniteDifference(), Sphere(EPS)),
        "FD-SSM, chunk = batch": SSM(FiniteDifference(chunk=rows), Sphere(EPS)),
        "FD-SSM, chunk = batch / 2": SSM(FiniteDifference(chunk=rows // 2), Sphere(EPS)),
        "Taylor-SSM": SSM(Taylor(), Sphere(EPS)),
        "Taylor-SSM, 4 directions": SSM(Taylor(), Sphere(EPS), 4),
        "SSM": SSM(Autodiff(), Sphere(EPS)),
        "DSM": DSM(SIGMA),
    }
    cases: dict[Case, Build] = {PLAIN: partial(gradient_step, bound(plain), problem)}
    for name, objective in objectives.items():
        loss = bound(mean_of(objective))
        cases[Case(GRADIENT, name)] = partial(gradient_step, loss, problem)
    for name, by_hand in LOSSES.items():
        loss = bound(by_hand)
        cases[Case(GRADIENT, name, "by hand")] = partial(gradient_step, loss, problem)
    if "torchebm" in peers:
        from .peers import torchebm_losses

        for name, bind in torchebm_losses.LOSSES.items():
            cases[Case(GRADIENT, name, "torchebm")] = partial(gradient_step, bind, problem)
    return cases


def measure_memory(group: Group) -> list[Cost]:
    """Return the peak memory of the functions of a group."""
    costs = []
    for case, build in group.cases.items():
        with quiet():
            function = build()
            for _ in range(WARM_UP):
                function()
            peaks = tuple(float(peak_bytes(function)) for _ in range(group.repeats))
        costs.append(Cost(group.problem, case, peaks))
    return costs


def peak_bytes(function: Callable[[], object]) -> int:
    """Return the peak memory that torch allocates on the CPU while a function runs.

    Memory that exists before, such as that of parameters, is not counted. If the function frees
    some of it, such as old gradients, this reduces the result.

    Args:
        function: The function.

    Returns:
        The number of bytes.

    Example:
        >>> import torch
        >>> x = torch.ones(1000, dtype=torch.float32)
        >>> peak_bytes(lambda: x.exp().log())
        8000
    """
    config = ProfilerConfig(
        ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig()
    )
    _enable_profiler_legacy(config)
    try:
        function()
    finally:
        threads = _disable_profiler_legacy()
    current = peak = 0
    for event in (event for events in threads for event in events):
        if str(event.kind()) == "memory_alloc":
            current += event.cpu_memory_usage()
            peak = max(peak, current)
    return peak
