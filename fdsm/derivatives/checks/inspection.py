r"""Inspections: whether the value of a row depends on that row alone.

A derivative is right only if every value it is computed from belongs to one deterministic function
of a single row. One evaluation does not show this. Before its 1st, 2nd, 4th, 8th, … evaluation, a
model is inspected: it is evaluated a few more times, without side effects.
"""

from collections.abc import Callable, Sequence
from weakref import WeakSet, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .findings import note, refuse
from .observation import Observed, require_fixed_statistics
from .state import Record, is_tracing, record_of

MAX_ROW_CHANGE_STDS = 0.01
"""Largest accepted change of a row with the other rows, in standard deviations of the values."""

Inspect = Callable[[Observed, Record], None]
"""A further inspection of a model."""


def examine(
    engine: str,
    f: Callable[..., Tensor],
    x: Tensor,
    cond: Sequence[Tensor],
    is_exact: bool,
    inspect: Inspect | None = None,
) -> tuple[Record | None, bool]:
    """Count an evaluation of a model, and refuse it if rows depend on each other.

    At the 1st, 2nd, 4th, 8th, … evaluation the model is inspected. In between, its batch norms
    must be in evaluation mode. While compiling only the batch norms of a module are checked.

    Args:
        engine: Name of the engine.
        f: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, one row per example.
        is_exact: Whether the engine is exact. Others refuse values that differ between calls.
        inspect: A further inspection.

    Returns:
        The record of the model, if it has one, and whether the model was due for inspection.
    """
    if is_tracing():
        model = getattr(f, "__wrapped__", f)
        for module in model.modules() if isinstance(model, nn.Module) else ():
            require_fixed_statistics(module)
        return None, False
    record = record_of(f)
    is_due = record.count(engine)
    if is_due and not (x.is_meta or x.numel() == 0):
        with record.still_due_if_refused(engine):
            x, observed = x.detach(), Observed(f, x.device)
            inspect_rows(observed, x, cond)
            record.modules = WeakSet(observed.modules)
            norms = (m for m in observed.modules if isinstance(m, _BatchNorm))
            record.batch_norms = tuple(map(ref, norms))
            if observed.has_own_randomness and not is_exact:
                refuse(
                    "random numbers",
                    "the values of the model differ between calls with the same state of torch's "
                    "random generators (it may have its own generator), so their difference is "
                    "not a derivative: use Taylor() or Autodiff(), or a deterministic model",
                )
            if inspect is not None:
                inspect(observed, record)
    for reference in record.batch_norms:
        require_fixed_statistics(reference())
    return record, is_due


def inspect_rows(model: Observed, x: Tensor, cond: Sequence[Tensor]) -> None:
    """Refuse a model if the value of a row depends on the other rows of the batch.

    The model is evaluated on the batch, and on a batch of the same size that repeats its first
    few rows. This notices batch statistics in functional, scripted and compiled form, where no
    batch norm module is called. A model with its own random generator, whose values differ between
    calls, cannot be checked.

    Args:
        model: The model.
        x: The data, shape `(B, *E)`.
        cond: Conditions of the model, one row per example.
    """
    change = _change_with_other_rows(model, x, cond)
    if change is None:
        note("rows", "one row, or values that differ between calls: not checked", fine=False)
    elif change > MAX_ROW_CHANGE_STDS:
        refuse(
            "rows",
            "the value of a row changes with the other rows of the batch (batch norm in training "
            "mode?), so a row has no derivative of its own: call `model.eval()`, or use a norm "
            "within each example (group, layer, instance)",
            value=change,
        )
    else:
        note("rows", "the value of a row does not depend on the other rows", value=change)
    if model.has_own_randomness:
        note("random numbers", "values differ between calls with one random state", fine=False)
    elif model.is_random:
        note("random numbers", "the model draws random numbers (dropout?)", fine=False)
    else:
        note("random numbers", "the model draws none")
    if model.changes_buffers:
        note("buffers", "the model changes its buffers at every call (spectral norm?)", fine=False)
    else:
        note("buffers", "the model does not change its buffers")


def _change_with_other_rows(model: Observed, x: Tensor, cond: Sequence[Tensor]) -> float | None:
    """Return the change of a few rows with the others, in standard deviations of the values."""
    whole = model(x, *cond).double()
    count = min(4, len(x) // 2)
    if count == 0:
        return None
    repeated = torch.arange(len(x), device=x.device) % count
    again = model(x[repeated], *(c[repeated] for c in cond)).double()
    std = float(whole.std(0).square().mean().sqrt())
    change = float((whole[:count] - again[:count]).square().mean().sqrt())
    if not change > MAX_ROW_CHANGE_STDS * std:
        return change / std if change else 0.0
    between_calls = float((model(x, *cond).double() - whole).square().mean().sqrt())
    if between_calls > MAX_ROW_CHANGE_STDS * std:
        model.has_own_randomness = True
        return None
    return change / std if std else float("inf")
