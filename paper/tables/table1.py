"""Deep kernel exponential families on three UCI tables (Table 1 of the paper)."""

from dataclasses import replace

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import DifferencedEquations, ExactEquations, FullGradientEquations
from fdsm.objectives import SM, SSM, SSMVR, ViaScore
from fdsm.projections import Rademacher, Sphere

from ..data import Parkinsons, RedWine, Source, WhiteWine
from ..recipes import KernelFamily, TrainingPlan

_COMMON = (
    "Settings: Sec. 6.1, App. C.2 and the authors' code. Training takes up to 500 epochs with a "
    "batch size of 200 and stops after 200 iterations without a better validation. There are 200 "
    "inducing points, the optimizer is Adam with learning rate 0.01, and gradients are clipped at "
    "1. As in the code, rows are whitened with the moments of all data, including test rows, and "
    "noise of 0.05 is added once. The formula in the paper omits the coefficients and weights of "
    "the kernels; they are taken from the code. Our choices: float64, and the same 1,000 training "
    "rows and directions at every validation."
)
_SHARED = (
    "The coefficients are solved for with exact derivatives although the loss uses finite "
    "differences, as in the code (the paper calls this shared calculation)."
)
_STEP = (
    "The step size is 0.1, as in App. C.2. For Parkinsons the paper gives two values of the NLL "
    "at this step size, 13.69 in Table 1 and 14.17 in the text. The comparison uses Table 1."
)
_OURS = "Not in the paper: {}. All else is as in the other rows."


def _family(name: str, data: Source, iterations_per_epoch: int) -> tuple[KernelFamily, ...]:
    """Return the rows of one table of data.

    Args:
        name: Name of the data.
        data: The data.
        iterations_per_epoch: Number of batches in an epoch.

    Returns:
        SSM, SSMVR and FD-SSM as published, then three rows of ours.
    """
    fd_ssm = SSM(FiniteDifference(), Sphere(0.1))
    plan = TrainingPlan(500 * iterations_per_epoch, 200, 10, 1, 200, patience=200, num_samples=0)
    return (
        KernelFamily(
            f"{name} SSM",
            SSM(Autodiff(), Rademacher()),
            data,
            plan=plan,
            provenance=f"Directions have entries ±1. {_COMMON}",
        ),
        KernelFamily(
            f"{name} SSMVR",
            ViaScore(SSMVR(Autodiff(), Rademacher())),
            data,
            FullGradientEquations(),
            plan=plan,
            provenance="Directions have entries ±1. The coefficients are solved for with the "
            f"exact norm of the gradient, as in the loss. {_COMMON}",
        ),
        KernelFamily(
            f"{name} FD-SSM", fd_ssm, data, plan=plan, provenance=f"{_STEP} {_SHARED} {_COMMON}"
        ),
        KernelFamily(
            f"{name} FD-SSM-all",
            fd_ssm,
            data,
            DifferencedEquations(),
            Sphere(0.1),
            plan=plan,
            provenance=_OURS.format(
                "the coefficients are solved for with finite differences too, with the step size "
                "of the loss"
            )
            + f" {_COMMON}",
        ),
        KernelFamily(
            f"{name} Taylor-SSM",
            SSM(Taylor(), Rademacher()),
            data,
            plan=plan,
            provenance=_OURS.format(
                "SSM with Taylor-mode derivatives, the fastest exact method in this library"
            )
            + f" {_COMMON}",
        ),
        KernelFamily(
            f"{name} Taylor-SM",
            SM(Taylor(), chunk=64),
            data,
            ExactEquations(),
            plan=replace(plan, validate_every=10),
            provenance=_OURS.format(
                "exact score matching, without random directions. Its validation loss has no "
                "noise and is expensive, so that it is computed every ten iterations"
            )
            + f" {_COMMON}",
        ),
    )


def _with_step_size(row: KernelFamily, step: float, published: float) -> KernelFamily:
    """Return a row of FD-SSM with another step size in its loss."""
    return replace(
        row,
        name=f"{row.name} {step}",
        objective=SSM(FiniteDifference(), Sphere(step)),
        provenance=f"The step size is {step}, from the sentence on sensitivity in Sec. 6.1, which "
        f"gives an NLL of {published:.2f}. {_SHARED} {_COMMON}",
    )


def _longer(row: KernelFamily) -> KernelFamily:
    """Return a row with five times the patience."""
    ours = _OURS.format("training stops after 1,000 iterations without a better validation")
    return replace(
        row,
        name=f"{row.name} longer",
        plan=replace(row.plan, patience=1000),
        provenance=f"{ours} {row.provenance}",
    )


_SSM, _SSMVR, _FD_SSM, *_OTHERS = _family("Parkinsons", Parkinsons(), 23)

PAPER = (
    *(_SSM, _SSMVR, _FD_SSM, *_OTHERS),
    *_family("RedWine", RedWine(), 6),
    *_family("WhiteWine", WhiteWine(), 19),
    _with_step_size(_FD_SSM, 0.05, 13.51),
    _with_step_size(_FD_SSM, 0.02, 14.03),
    _with_step_size(_FD_SSM, 0.01, 14.00),
    _longer(_SSM),
    _longer(_FD_SSM),
)
"""Table 1 as published, then other step sizes and a longer training on Parkinsons.

Two settings differ from the paper. Arithmetic is float64. Every validation solves for the
coefficients on the same 1,000 training rows with the same directions, so that its values are
comparable.
"""

CPU = PAPER
"""The same: two cores can run the published settings."""
