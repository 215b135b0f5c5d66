"""Deep kernel exponential families on three UCI tables (Table 1 of the paper)."""

from dataclasses import replace

from ...data import Parkinsons, RedWine, Source, WhiteWine
from ...derivatives import Autodiff, FiniteDifference, Taylor
from ...models import (
    DifferencedEquations,
    ExactEquations,
    FullGradientEquations,
)
from ...objectives import SM, SSM, SSMVR, ViaScore
from ...projections import Rademacher, Sphere
from ...recipes.kernel import KernelFamily
from ...recipes.recipe import TrainingPlan

_TABLES: dict[str, Source] = {
    "Parkinsons": Parkinsons(),
    "RedWine": RedWine(),
    "WhiteWine": WhiteWine(),
}
_EPOCH = {"Parkinsons": 23, "RedWine": 6, "WhiteWine": 19}


_PAPER = (
    "Sec. 6.1, App. C.2 and the authors' code: 500 epochs of batches of 200, stopped after 200 "
    "iterations without a better validation; 200 inducing points, Adam at 0.01, gradients clipped "
    "at 1. As in that code, rows are whitened with the moments of all data, test rows included, "
    "and noise of 0.05 is added once; the formula of the paper leaves out the coefficients and "
    "weights of the kernels, which are the code's. Ours: float64, and the same 1,000 training "
    "rows and directions at every validation."
)
_SHARED = (
    "Coefficients are solved for by exact derivatives even though the loss is by differences, as "
    "in the code (the paper's shared calculation)."
)
_STEP = (
    "Step 0.1 of App. C.2. For Parkinsons the paper has two likelihoods at it, 13.69 in Table 1 "
    "and 14.17 in the text; they are compared with the table's."
)
_SENSITIVITY = "The step is from the sentence on sensitivity in Sec. 6.1, with {:.2f} for the NLL."
_OURS = "Not in the paper: {}, the rest as its other rows."


def _rows(name: str, data: Source) -> tuple[KernelFamily, ...]:
    difference = SSM(FiniteDifference(), Sphere(0.1))
    plan = TrainingPlan(500 * _EPOCH[name], 200, 10, 1, 200, patience=200, num_samples=0)
    rows = (
        KernelFamily(
            "SSM",
            SSM(Autodiff(), Rademacher()),
            data,
            plan=plan,
            provenance="Directions are signs.",
        ),
        KernelFamily(
            "SSMVR",
            ViaScore(SSMVR(Autodiff(), Rademacher())),
            data,
            FullGradientEquations(),
            plan=plan,
            provenance="Directions are signs; coefficients are solved for with the exact norm of the "
            "gradient, as the loss is.",
        ),
        KernelFamily("FD-SSM", difference, data, plan=plan, provenance=f"{_STEP} {_SHARED}"),
        KernelFamily(
            "FD-SSM-all",
            difference,
            data,
            DifferencedEquations(),
            Sphere(0.1),
            plan=plan,
            provenance=_OURS.format("coefficients by differences too, with the step of the loss"),
        ),
        KernelFamily(
            "Taylor-SSM",
            SSM(Taylor(), Rademacher()),
            data,
            plan=plan,
            provenance=_OURS.format("SSM by power series, the fastest exact way there is here"),
        ),
        KernelFamily(
            "Taylor-SM",
            SM(Taylor()),
            data,
            ExactEquations(),
            plan=replace(plan, validate_every=10),
            provenance=_OURS.format(
                "score matching without directions, whose validation has no noise and is dear, so "
                "that there is one in ten iterations"
            ),
        ),
    )
    return tuple(
        replace(row, name=f"{name} {row.name}", provenance=f"{row.provenance} {_PAPER}")
        for row in rows
    )


def _sensitivity(row: KernelFamily) -> tuple[KernelFamily, ...]:
    """Return the row of FD-SSM with other steps in its loss."""
    return tuple(
        replace(
            row,
            name=f"{row.name} {step}",
            objective=SSM(FiniteDifference(), Sphere(step)),
            provenance=f"{_SENSITIVITY.format(published)} {_SHARED} {_PAPER}",
        )
        for step, published in ((0.05, 13.51), (0.02, 14.03), (0.01, 14.00))
    )


def _longer(row: KernelFamily) -> KernelFamily:
    """Return the row with five times the patience."""
    return replace(
        row,
        name=f"{row.name} longer",
        plan=replace(row.plan, patience=1000),
        provenance=f"{_OURS.format('an end after 1,000 iterations without a better validation')} "
        f"{row.provenance}",
    )


_PUBLISHED = tuple(row for name, data in _TABLES.items() for row in _rows(name, data))

PAPER = (
    *_PUBLISHED,
    *(new for row in _PUBLISHED if row.name == "Parkinsons FD-SSM" for new in _sensitivity(row)),
    *(_longer(row) for row in _PUBLISHED if row.name in {"Parkinsons SSM", "Parkinsons FD-SSM"}),
)
"""Table 1 as published: three tables, and each way to train; then other steps on one of them,
and more patience with it.

Two things differ: arithmetic is float64, and every validation solves on the same 1,000 training
rows and draws the same directions, so that its values can be compared.
"""

TABLE = PAPER
"""The same: the published setting is within reach of two cores."""
