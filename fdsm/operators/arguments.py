"""The arguments of operators: functions, points, and conditions of any kind."""

import math
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..derivatives import MissingRule, as_log_density
from ..derivatives.checks.arguments import check_data, one_point_hint, require_engine
from ..derivatives.checks.identity import model_behind
from ..typing import Condition, Derivative, Function, nests_gradients

STEP = 0.0625
"""The default step of finite differences: a power of two, by which numbers scale exactly."""


def prepare(
    f: Function,
    x: Tensor,
    cond: Sequence[Condition],
    derivative: Derivative,
    step: float,
) -> tuple[Function, list[Tensor]]:
    """Check the arguments of an operator, and give `f` the conditions that all rows share.

    Args:
        f: The function.
        x: The points, shape `(B, *E)`.
        cond: Its further arguments.
        derivative: The engine.
        step: The step of finite differences.

    Returns:
        A function of `x` and of the conditions with one row per example, and these conditions.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If a shape does not fit, `x` is not finite, or the step is not positive.

    Example:
        >>> import torch
        >>> from fdsm import Taylor
        >>> f, rows = prepare(lambda x, t: x * t, torch.ones(2, 1), (0.5,), Taylor(), STEP)
        >>> f(torch.ones(2, 1)), rows
        (tensor([[0.5000],
                [0.5000]]), [])
    """
    if not (callable(f) or hasattr(f, "log_prob")):
        raise TypeError(f"f must be a function such as an nn.Module, but got {f!r}")
    check_data(x)
    if x.ndim == 0:
        raise ValueError(
            "x must have one row per example, but is a single number: use `x[None]` for a batch "
            "of one number, or `x[None, None]` for one point with one coordinate"
        )
    require_engine(derivative)
    if nests_gradients(derivative):
        refuse_distributed(f)
    if not 0 < step < math.inf:
        raise ValueError(f"the step must be a positive number, but got {step}")
    if x.ndim == 1:
        f = _explaining_one_point(as_log_density(f), x)
    shared = {i: c for i, c in enumerate(cond) if not isinstance(c, Tensor) or c.ndim == 0}
    rows = [c for c in cond if isinstance(c, Tensor) and c.ndim > 0]
    for row in rows:
        if len(row) != len(x):
            raise ValueError(
                f"a condition must be a number or have one row for each of the {len(x)} rows of "
                f"x, but has shape {tuple(row.shape)}: expand it, e.g. `c.expand({len(x)}, …)`"
            )
    for c in shared.values():
        if not isinstance(c, (Tensor, int, float)):
            raise TypeError(f"a condition must be a tensor or a number, but got {c!r}")
    function = with_arguments(as_log_density(f), shared) if shared else f
    if x.ndim == 1:
        with torch.no_grad():  # one point would work as a batch, and fails for its first number
            as_log_density(function)(x[:1], *(row[:1] for row in rows))
    return function, rows


def refuse_distributed(f: Function) -> None:
    """Refuse a function with a module that takes part in each backward pass of a process.

    An operator that takes gradients itself would run several of them for one step.

    Args:
        f: The function.

    Raises:
        TypeError: If there is such a module.
    """
    model = f if isinstance(f, nn.Module) else model_behind(f)
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, (DistributedDataParallel, *([sharded] if sharded else []))):
            kind = "FSDP2" if sharded and isinstance(module, sharded) else "DDP"
            raise TypeError(
                f"an operator that takes gradients itself, such as hvp or one with Autodiff(), "
                f"cannot differentiate a module of {kind}: use another operator with Taylor(), or "
                "wrap the loss instead of the model, as fdsm.training.distributed does"
            )


def with_arguments(f: Callable[..., Tensor], given: dict[int, Condition]) -> Callable[..., Tensor]:
    """Return a function of `x` and of the conditions that are not given, by position."""

    def function(x: Tensor, *rows: Tensor) -> Tensor:
        others = iter(rows)
        count = len(rows) + len(given)
        return f(x, *(given[i] if i in given else next(others) for i in range(count)))

    function.__wrapped__ = f  # type: ignore[attr-defined]
    return function


def _explaining_one_point(f: Callable[..., Tensor], x: Tensor) -> Callable[..., Tensor]:
    """Return `f` with errors that say how to pass one point, since `x` has one dimension."""

    def function(*args: Tensor) -> Tensor:
        try:
            return f(*args)
        except MissingRule:
            raise
        except (IndexError, RuntimeError, ValueError) as error:
            raise ValueError(f"f cannot be evaluated: {error}{one_point_hint(x)}") from error

    function.__wrapped__ = f  # type: ignore[attr-defined]
    return function
