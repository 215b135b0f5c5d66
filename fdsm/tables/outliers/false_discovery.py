"""Control of the false discovery rate."""

import torch
from torch import Tensor


def benjamini_hochberg(p_values: Tensor, rate: float) -> Tensor:
    r"""Return which rows to reject so that the false discovery rate is at most `rate`.

    With the p-values in increasing order, the first $k$ rows are rejected for the largest $k$
    with $p_{(k)} ≤ k \cdot \text{rate} / n$. The expected share of normal rows among the rejected
    ones is at most `rate` if the p-values are independent, and for conformal p-values too (Bates
    et al., 2023, https://arxiv.org/abs/2104.08279).

    Reference:
        Benjamini and Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300.

    Args:
        p_values: P-values, shape `(N,)`. Rows with NaN are not rejected and not counted.
        rate: Largest accepted expected share of false discoveries, between 0 and 1.

    Returns:
        Booleans, shape `(N,)`.

    Raises:
        ValueError: If the rate is not between 0 and 1.

    Example:
        >>> p = torch.tensor([0.04, 0.001, 0.3, 0.012])
        >>> benjamini_hochberg(p, 0.05)  # limits 0.0125, 0.025, 0.0375, 0.05
        tensor([False,  True, False,  True])
    """
    if not 0 < rate < 1:
        raise ValueError(f"the false discovery rate must be between 0 and 1, but is {rate}")
    ordered = p_values[~p_values.isnan()].double().sort().values
    n = len(ordered)
    limits = torch.arange(1, n + 1, dtype=torch.float64, device=ordered.device) * rate / max(n, 1)
    passing = (ordered <= limits).nonzero()
    if not len(passing):
        return torch.zeros_like(p_values, dtype=torch.bool)
    return p_values.double() <= ordered[passing[-1]]
