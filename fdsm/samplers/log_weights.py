r"""Means of weights that are given by their logarithms.

$\hat Z = \frac1n \sum_i w_i$ is an unbiased estimate of a normalizing constant $Z$. Its logarithm
is biased: its mean is too low by about half its variance. The bias is largest if few weights
dominate the sum.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..tensors import require_values


@dataclass(frozen=True, eq=False)
class LogMean:
    r"""The logarithm of a mean weight with its accuracy. All fields have the same shape.

    Attributes:
        value: $\log \frac1n \sum_i w_i$.
        error: Standard error to first order, the standard error of the mean divided by the mean.
            NaN for a single weight. It is estimated from the weights, and too small if the
            dominant weights were never drawn; see `bidirectional_log_partition` for a check.
        effective_sample_size: $(\sum w)² / \sum w²$, from 1 to `n`: the number of equal weights
            with the same accuracy.
    """

    value: Tensor
    error: Tensor
    effective_sample_size: Tensor


def log_mean_exp(log_weights: Tensor) -> LogMean:
    r"""Return the logarithm of the mean of weights over the first dimension.

    Args:
        log_weights: The logarithms of `n` weights, shape `(n, *)`. Minus infinity is a weight of
            zero.

    Returns:
        The mean, its error and the effective sample size, each of shape `(*)`, in float64.

    Raises:
        ValueError: If there are no weights, or a weight is infinite or NaN.

    Example:
        >>> estimate = log_mean_exp(torch.tensor([1.0, 3.0]).double().log() + 1000)
        >>> round(estimate.value.item() - 1000, 4), round(estimate.error.item(), 4)
        (0.6931, 0.5)
        >>> round(estimate.effective_sample_size.item(), 4)  # 4² / 10
        1.6
    """
    require_values(log_weights)
    if log_weights.ndim == 0 or len(log_weights) == 0:
        raise ValueError(
            f"there must be at least one weight, but their shape is {tuple(log_weights.shape)}"
        )
    return summarize(*log_sums(log_weights), len(log_weights))


def log_sums(log_weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return $\log \sum_i w_i$ and $\log \sum_i w_i²$ over the first dimension, in float64."""
    bad = int((log_weights.isnan() | (log_weights == torch.inf)).sum())
    if bad:
        raise ValueError(
            f"{bad} of {log_weights.numel()} weights are infinite or NaN, so their mean does not "
            "exist: check where the log-density is not finite"
        )
    log_weights = log_weights.double()
    return log_weights.logsumexp(0), (2 * log_weights).logsumexp(0)


def summarize(log_sum: Tensor, log_sum_of_squares: Tensor, n: int) -> LogMean:
    r"""Return the mean and its accuracy from the sums of `n` weights and of their squares.

    With $\mathrm{ESS} = (\sum w)² / \sum w²$ the squared relative error of the mean is
    $(n / \mathrm{ESS} - 1) / (n - 1)$.

    Args:
        log_sum: Logarithm of the sum.
        log_sum_of_squares: Logarithm of the sum of squares.
        n: Number of weights.

    Returns:
        The logarithm of the mean, its error and the effective sample size.
    """
    all_zero = log_sum == -torch.inf
    effective = torch.where(all_zero, 0, (2 * log_sum - log_sum_of_squares).exp())
    variance = (n / effective - 1).clamp(min=0) / (n - 1) if n > 1 else torch.nan * effective
    return LogMean(log_sum - math.log(n), variance.sqrt(), effective)
