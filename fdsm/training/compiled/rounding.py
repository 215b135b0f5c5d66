r"""Whether two programs for the same function differ by more than rounding.

The rounding error of a loss depends on its conditioning: finite differences amplify it by orders
of magnitude. So it is measured. Weights and data $w$ are replaced by $w(1 ± ε)$, with random signs
and the machine epsilon $ε$, and the loss is evaluated again. Its rounding errors are then others,
and its exact value changes as little as by rounding $w$. With the values $L_i$ of the rows and
$L_i'$ of the rows after the change, two programs are the same if their means differ by at most

$$c \; \Bigl( ε \operatorname{mean} |L_i| + \max \operatorname{mean} |L_i' - L_i| \Bigr).$$

Means of absolute values do not cancel, and the maximum is over a few changes, because a single one
can be small by chance.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

MARGIN = 100
"""The factor $c$. In 17,000 comparisons of compiled and eager losses of small networks, with all
engines, float32 and float64, batches of 64 rows differed by at most 1 in these units, and batches
of one row, where errors do not average, by at most 22."""
REPEATS = 3
"""Number of changes of weights and data."""

Evaluation = tuple[Tensor, Tensor]
"""The losses of the rows, and the gradient of their mean as a vector."""


def perturbed(t: Tensor, eps: float, seed: int) -> Tensor:
    r"""Return $t(1 ± ε)$ with random signs, and integers unchanged.

    Example:
        >>> (perturbed(torch.ones(3), 0.5, 0) - 1).abs()
        tensor([0.5000, 0.5000, 0.5000])
    """
    if not t.is_floating_point():
        return t.detach().clone()
    signs = torch.randint(2, t.shape, generator=torch.Generator().manual_seed(seed))
    return t.detach() * (1 + eps * (2 * signs - 1)).to(t)


def difference(
    values: tuple[Tensor, Tensor], exact: Evaluation, others: Sequence[Evaluation], eps: float
) -> str | None:
    """Compare the loss and the norm of the gradient of a graph with those of eager torch.

    Args:
        values: The mean loss and the norm of the gradient of the graph.
        exact: The losses and the gradient of eager torch.
        others: Those for perturbed weights and data.
        eps: Machine epsilon.

    Returns:
        How they differ by more than rounding, or `None`.

    Example:
        >>> losses, gradient = torch.tensor([[1.0, -1.0], [3.0, 4.0]], dtype=torch.float64)
        >>> exact = losses, gradient
        >>> difference((torch.tensor(1e-17), torch.tensor(5.0)), exact, [exact], 2e-16) is None
        True
        >>> difference((torch.tensor(0.5), torch.tensor(5.0)), exact, [exact], 2e-16)
        'the loss is 0.5 in the graph and 0.0 in eager torch (rounding: 2e-14)'
    """
    norm = torch.linalg.vector_norm
    parts = (("loss", torch.mean, _mean_size), ("norm of the gradient", norm, norm))
    for i, (name, statistic, size) in enumerate(parts):
        value, expected = values[i].item(), statistic(exact[i]).item()
        noise = max(size(other[i] - exact[i]).item() for other in others)
        tolerance = MARGIN * (eps * size(exact[i]).item() + noise)
        if not _close(value, expected, tolerance):
            return (
                f"the {name} is {value} in the graph and {expected} in eager torch (rounding: "
                f"{tolerance:.0e})"
            )
    return None


def is_same(a: Tensor, b: Tensor) -> bool:
    """Return whether two evaluations of the same function agree.

    Some kernels of a GPU add up numbers in an order that changes.
    """
    tolerance = MARGIN * torch.finfo(b.dtype).eps * _mean_size(b)
    return bool(_mean_size(a - b) <= tolerance) or not bool(b.isfinite().all())


def _mean_size(t: Tensor) -> Tensor:
    return t.abs().mean()


def _close(a: float, b: float, tolerance: float) -> bool:
    """Return whether two numbers are close, or both not finite."""
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) <= tolerance or not math.isfinite(tolerance)
    return math.isfinite(a) == math.isfinite(b)
