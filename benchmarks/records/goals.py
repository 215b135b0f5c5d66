"""Goals for ratios, and whether they are reached."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from .. import exact, operators
from ..orders import VALUE
from ..problems import LARGE_MLP, SMALL_MLP, SMALL_MLP_256
from ..problems import RESNET as RESNET_W8
from ..step import ADAM, GRADIENT, GRAPH
from .record import Case, Cost, Ratio, Record
from .tables import RatioTable

SMALL, SMALL_256, LARGE, RESNET = (
    p.name for p in (SMALL_MLP, SMALL_MLP_256, LARGE_MLP, RESNET_W8)
)
LAPLACE, BIHARMONIC = (task.problem.name for task in operators.PROBLEMS)
NESTED = operators.NESTED


@dataclass(frozen=True)
class Goal:
    """A limit of the ratio of two costs on one problem.

    Attributes:
        text: What is compared.
        benchmark: Name of the benchmark.
        problem: Name of the problem.
        ours: Cases of which the fastest counts.
        theirs: Cases of which the fastest counts.
        limit: Largest ratio.
    """

    text: str
    benchmark: str
    problem: str
    ours: tuple[Case, ...]
    theirs: tuple[Case, ...]
    limit: float

    def ratio(self, records: Mapping[str, Record]) -> Ratio | None:
        """Return the measured ratio, or `None` if one side was not measured."""
        costs = records[self.benchmark].costs if self.benchmark in records else ()
        of_problem = [cost for cost in costs if cost.problem == self.problem]
        ours, theirs = (_fastest(of_problem, cases) for cases in (self.ours, self.theirs))
        return ours.ratio_to(theirs) if ours and theirs else None


def _fastest(costs: Iterable[Cost], cases: tuple[Case, ...]) -> Cost | None:
    chosen = [cost for cost in costs if cost.case in cases]
    return min(chosen, key=lambda cost: min(cost.samples), default=None)


def _with_adam(method: str) -> tuple[Case, ...]:
    return Case(ADAM, method), Case(GRAPH, method)


def _jax(*methods: str) -> tuple[Case, ...]:
    return tuple(Case(GRAPH, method, "JAX jit") for method in methods)


_SSM = _jax("SSM jvp(grad)", "SSM jvp(jvp)")
_TAYLOR = _with_adam("Taylor-SSM, 1 direction")
_FOLX = "folx jit"


def _gradient(method: str, by: str = "fdsm") -> tuple[Case, ...]:
    return (Case(GRADIENT, method, by),)


GOALS = (
    *(
        goal
        for problem in (SMALL, SMALL_256)
        for goal in (
            Goal("FD-SSM with Adam / JAX jit", "step", problem, _with_adam("FD-SSM"),
                 _jax("FD-SSM"), 1.0),
            Goal("Taylor-SSM with Adam / JAX jit", "step", problem, _TAYLOR, _SSM, 1.0),
            Goal("DSM with Adam / JAX jit", "step", problem, _with_adam("DSM"), _jax("DSM"), 1.0),
            Goal("FD-SSM, eager / by hand", "step", problem, _gradient("FD-SSM"),
                 _gradient("FD-SSM", "by hand"), 1.1),
        )
    ),
    *(
        Goal("Taylor-SSM, eager / FD-SSM", "directions", problem, _gradient("Taylor-SSM, V = 1"),
             _gradient("FD-SSM, V = 1"), limit)
        for problem, limit in ((SMALL, 1.25), (LARGE, 1.05))
    ),
    *(
        Goal("four directions: Taylor-SSM / FD-SSM", "directions", problem,
             _gradient("Taylor-SSM, V = 4"), _gradient("FD-SSM, V = 4"), 0.6)
        for problem in (SMALL, LARGE, RESNET)
    ),
    *(
        Goal(text, "exact", problem.name, ours, theirs, limit)
        for problem, (text, ours, theirs, limit) in product(exact.PROBLEMS, (
            ("exact SM and gradient / folx jit", _gradient("SM(Taylor())"),
             _gradient("SM", _FOLX), 0.85),
            ("exact SM, value / folx jit", (Case(VALUE, "exact_sm_loss"),),
             (Case(VALUE, "SM", _FOLX),), 1.0),
        ))
    ),
    *(
        Goal(f"order {order}, {mode}: Taylor / FD", "orders", SMALL,
             (Case(mode, f"Taylor, order {order}"),), (Case(mode, f"FD, order {order}"),), limit)
        for (order, limit), mode in product(((4, 2.0), (8, 4.0)), (VALUE, GRADIENT))
    ),
    *(
        Goal(f"{text} / {NESTED}", benchmark, problem,
             (Case(mode, method),), (Case(mode, NESTED, "torch"),), limit)
        for text, benchmark, problem, mode, method, limit in (
            ("Laplacian", "operators", LAPLACE, "Laplacian", "laplacian", 0.33),
            ("Laplacian and gradient", "operators", LAPLACE, "Laplacian and gradient",
             "laplacian", 0.38),
            ("memory of the Laplacian and gradient", "memory", LAPLACE,
             "Laplacian and gradient", "laplacian", 0.4),
            ("biharmonic", "operators", BIHARMONIC, "biharmonic", "biharmonic", 0.3),
        )
    ),
    *(
        Goal(f"{mode} / {method if by == 'torch' else by}", "fields", task.problem.name,
             (Case(mode, ours),), (Case(mode, method, by),), limit)
        for task, name, ours, peers in (
            *((task, operators.JVP, "jvp", ((operators.FORWARD, "torch", 1.1),))
              for task in operators.FIELDS[:2]),
            *((task, name, "partials", ((operators.GRADIENTS, "torch", 0.5),
                                        ("jet", "torch-jet", 1.0)))
              for task, name in zip(operators.FIELDS[2:], (operators.KDV, operators.NAVIER_STOKES),
                                    strict=True)),
        )
        for (method, by, limit), mode in product(peers, (name, name + operators.WITH_GRADIENT))
    ),
    *(
        Goal(text, "memory", problem, ours, theirs, limit)
        for problem, (text, ours, theirs, limit) in product((SMALL_256, LARGE, RESNET), (
            ("memory of FD-SSM / SSM", _gradient("FD-SSM"), _gradient("SSM"), 0.67),
            ("memory of FD-SSM with chunk / plain", _gradient("FD-SSM, chunk = batch"),
             _gradient("plain", "torch"), 1.3),
        ))
    ),
)  # fmt: skip


def goal_table(records: Mapping[str, Record]) -> RatioTable:
    """Return the goals that were measured, with their ratios.

    Args:
        records: Results by name of the benchmark.

    Returns:
        The table. Its last column says by how much a goal is missed.
    """
    rows = []
    for goal in GOALS:
        ratio = goal.ratio(records)
        if ratio is not None:
            excess = round(ratio.fastest, 2) / goal.limit - 1  # as it is shown
            reached = "yes" if excess <= 0 else f"no, {excess:.0%} above"
            rows.append((goal.text, goal.problem, f"{goal.limit:g}", str(ratio), reached))
    head = ("ratio", "problem", "at most", "measured", "reached")
    return RatioTable("Goals", head, tuple(rows))
