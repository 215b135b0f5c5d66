"""Everything that is known about an objective on a model, as values."""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..derivatives import Finding, rounding_error, step_size
from ..derivatives.checks.arguments import as_log_density, check_values
from ..derivatives.checks.difference_error import rms
from ..derivatives.checks.identity import model_behind
from ..derivatives.checks.inspection import inspect_rows
from ..derivatives.checks.observation import Observed, random_state, restore_random_state
from ..derivatives.checks.state import collecting
from ..serialize import find_fields, replace_fields
from ..tensors import length
from ..typing import Objective, is_exact
from .consistency import (
    Consistency,
    Reference,
    angle_between,
    copy_generator,
    parameter_gradient,
    relative_error,
)

MAX_ANGLE_DEGREES = 10.0
"""Angle between a parameter gradient and the exact one above which a check warns."""

_SEVERITIES = ("fine", "note", "warning", "error")


@dataclass(frozen=True)
class ModelCheck:
    """What `check` has found.

    Attributes:
        findings: A finding for each subject that was examined, or several.
        consistency: The comparison with exact derivatives, if there is one.
        step: Length of the directions, if there are any.
        recommended_step: Length at which truncation and rounding errors of finite differences are
            balanced, if it can be measured.
    """

    findings: tuple[Finding, ...]
    consistency: Consistency | None = None
    step: float | None = None
    recommended_step: float | None = None

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that an engine refuses or warns of."""
        return tuple(f for f in self.findings if f.severity in {"warning", "error"})

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def check(
    objective: Objective,
    model: Callable[..., Tensor],
    x: Tensor,
    *cond: Tensor,
    generator: torch.Generator | None = None,
) -> ModelCheck:
    """Check an objective on a model, and return everything that was found.

    The objective and its gradient are computed on one batch, with its own engine and with exact
    derivatives. Nothing about the model is refused or warned of: errors and warnings of the
    engines become findings, with what was measured. Parameters, buffers, random states and what
    is remembered about the model stay as they are, apart from Python attributes that a model
    changes itself.

    - `"rows"`: whether the value of a row depends on the other rows of the batch.
    - `"random numbers"`, `"buffers"`: whether the model draws random numbers, or changes buffers.
    - `"precision"`, `"rounding"`, `"truncation"`: half precision, and the errors of a difference.
    - `"gradients"`, `"kinks"`: backward passes that autograd gets wrong, and jumps of derivatives.
    - `"evaluation"`: any other error, such as a missing rule or an output of the wrong shape.
    - `"step"`: the step and the recommended one.
    - `"consistency"`: the angle between the parameter gradient and that of exact derivatives.

    Args:
        objective: The objective.
        model: A log-density or a score, as the objective requires.
        x: A batch of data, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        generator: Random number generator. Its state is not changed. Default: a fixed seed.

    Returns:
        The findings. `print` shows them as a table.

    Raises:
        TypeError: If `x` is not a tensor of real numbers.
        ValueError: If `x` is not finite.

    Example:
        >>> from fdsm import SSM, FiniteDifference
        >>> layers = nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)
        >>> model = nn.Sequential(*layers).double()
        >>> x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> report = check(SSM(FiniteDifference()), model, x)
        >>> report.problems[0].kind, report.problems[0].severity
        ('rows', 'error')
        >>> check(SSM(FiniteDifference()), model.eval(), x).problems
        ()
    """
    check_values(x)
    objective = replace_fields(objective, "checks", lambda _: True)
    exact = Reference()
    engines = list(find_fields(objective, "derivative"))
    reference = replace_fields(objective, "derivative", lambda _: exact)
    with _unchanged(model, x.device):
        arguments = model, x, cond, generator
        own, findings = _evaluated(objective, *arguments)
        other, remarks = _evaluated(reference, *arguments) if engines else (None, [])
        remarks = _remarks(remarks)
        findings += remarks
        findings += _rows(exact, *arguments[:3], findings)
        step, recommended, rounding = _steps(objective, engines, exact, findings)
    consistency = None
    if own is not None and other is not None and step is not None:
        consistency = _consistency(own, other, exact, step, recommended, rounding)
    if step is not None and recommended is not None:
        unused = " (not used by an exact engine)" if all(map(is_exact, engines)) else ""
        message = (
            f"{step:.2g}{unused}; the error of differences is smallest near {recommended:.2g}"
        )
        findings.append(Finding("step", "fine", message, recommended))
    if consistency is not None:
        findings.append(_verdict(consistency, is_doubtful=bool(remarks)))
    return ModelCheck(_worst_of_each_kind(findings), consistency, step, recommended)


Evaluation = tuple[Tensor, Tensor | None]
"""Losses, and their parameter gradient if there are parameters."""


def _evaluated(
    objective: Objective,
    model: Callable[..., Tensor],
    x: Tensor,
    cond: Sequence[Tensor],
    generator: torch.Generator | None,
) -> tuple[Evaluation | None, list[Finding]]:
    """Return losses and gradient, from the same random numbers every time, and the findings."""
    parameters = [p for p in _parameters(model) if p.requires_grad]
    with _unchanged(model, x.device), collecting() as findings:
        try:
            with torch.enable_grad():
                losses = objective(model, x, *cond, generator=copy_generator(x, generator))
                has_gradient = parameters and losses.requires_grad
                gradient = parameter_gradient(losses, parameters) if has_gradient else None
        except Exception as error:  # whatever a model does
            findings.append(Finding("evaluation", "error", f"{type(error).__name__}: {error}"))
            return None, findings
    if not losses.isfinite().all():
        rows = int((~losses.isfinite()).sum())
        message = f"the loss of {rows} of {len(losses)} rows is not finite"
        findings.append(Finding("evaluation", "error", message))
    return (losses.detach().double(), gradient), findings


def _remarks(findings: Iterable[Finding]) -> list[Finding]:
    """Return what exact derivatives have found, which is no fault of the objective."""
    kinds = {"gradients", "kinks", "evaluation"}
    return [
        Finding(f.kind, "note", f"with exact derivatives, {f.message}", f.value)
        for f in findings
        if f.kind in kinds and f.severity != "fine"
    ]


def _rows(
    exact: Reference,
    model: Callable[..., Tensor],
    x: Tensor,
    cond: Sequence[Tensor],
    findings: Iterable[Finding],
) -> list[Finding]:
    """Inspect the rows of a model whose engine has not done it, as Taylor."""
    if any(f.kind == "buffers" for f in findings):
        return []
    f: Any = model
    if exact.used:
        f, x, _, _, cond = exact.last
    with collecting() as more, suppress(Exception):
        inspect_rows(Observed(as_log_density(f), x.device), x, cond)
    return more


def _steps(
    objective: Objective, engines: Sequence[Any], exact: Reference, findings: Iterable[Finding]
) -> tuple[float | None, float | None, float]:
    """Return the step, the recommended one, and the rounding error at the step."""
    if not exact.used:
        return None, None, math.nan
    f, x, v, order, cond = exact.last
    projection = next(find_fields(objective, "projection"), None)
    step = rms(length(v)) if projection is None else math.sqrt(projection.second_moment(x))
    if any(f.kind == "random numbers" and f.severity != "fine" for f in findings):
        return step, None, math.nan
    accuracy = getattr(engines[0], "accuracy", 2)
    with collecting(), suppress(Exception):
        recommended = step_size(f, x, v, order, *cond, accuracy=accuracy)
        rounding = rounding_error(f, x, v, *cond, order=order, accuracy=accuracy)
        return step, recommended, rounding
    return step, None, math.nan


def _consistency(
    own: Evaluation,
    other: Evaluation,
    exact: Reference,
    step: float,
    recommended: float | None,
    rounding: float,
) -> Consistency:
    angle = math.nan
    if own[1] is not None and other[1] is not None:
        with suppress(ValueError):  # a gradient of zero has no direction
            angle = math.degrees(angle_between(own[1], other[1]))
    return Consistency(
        reference=exact.name,
        value_error=relative_error(own[0], other[0]),
        angle=angle,
        rounding_error=rounding,
        step=step,
        recommended_step=math.nan if recommended is None else recommended,
    )


def _verdict(consistency: Consistency, *, is_doubtful: bool) -> Finding:
    """Return the finding about a comparison with exact derivatives, which may be doubtful."""
    angle, error = consistency.angle, consistency.value_error
    message = f"loss within {error:.1e} of exact derivatives"
    if math.isfinite(angle):
        message += f", angle between parameter gradients {angle:.2g} degrees"
    if angle > MAX_ANGLE_DEGREES:
        return Finding("consistency", "note" if is_doubtful else "warning", message, angle)
    return Finding("consistency", "fine", message, angle)


def _worst_of_each_kind(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of each kind that are as severe as the worst of this kind, once."""
    once = {(f.kind, f.severity, f.message): f for f in findings}.values()
    worst: dict[str, int] = {}
    for f in once:
        worst[f.kind] = max(worst.get(f.kind, 0), _SEVERITIES.index(f.severity))
    return tuple(
        f for kind in worst for f in once
        if f.kind == kind and _SEVERITIES.index(f.severity) == worst[kind]
    )  # fmt: skip


def _parameters(model: object) -> list[Tensor]:
    module = model if isinstance(model, nn.Module) else model_behind(model)
    if isinstance(module, nn.Module):
        return [p for p in module.parameters() if not is_lazy(p)]
    return [module] if isinstance(module, Tensor) else []


@contextmanager
def _unchanged(model: object, device: torch.device) -> Generator[None]:
    """Restore parameters, buffers and random state of a model on exit."""
    module = model if isinstance(model, nn.Module) else model_behind(model)
    modules = list(module.modules()) if isinstance(module, nn.Module) else []
    plain = [m for m in modules if not isinstance(m, torch.jit.ScriptModule)]
    tables: list[dict[str, Any]] = [t for m in plain for t in (m._parameters, m._buffers)]
    before = [(table, dict(table)) for table in tables]
    tensors = [t for m in modules for t in (*m.parameters(False), *m.buffers(False))]
    values = [(t, t.detach().clone()) for t in tensors if not is_lazy(t)]
    state = random_state(device)
    try:
        yield
    finally:
        restore_random_state(state, device)
        for table, entries in before:
            table.update(entries)
        with torch.no_grad():
            for tensor, value in values:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
