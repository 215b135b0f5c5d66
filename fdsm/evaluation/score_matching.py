r"""Exact score matching and Fisher divergences, as measures of a trained model.

$$J_{SM} = E\left[ \mathrm{tr}\,∇s(x) + \tfrac12 ‖s(x)‖² \right], \qquad s = ∇\log p$$

summed over the dimensions as in Table 2 of the paper, where the objective `fdsm.objectives.SM`
divides by their number. On data with point masses or constant coordinates it is unbounded
below: then it measures the noise added to the data, which belongs in the settings,
`measurement.with_settings(noise=0.005)`.

Of a log-density both terms come from the slopes and curvatures along the coordinates, by
`Taylor`, many at a time. Of a score the trace takes one gradient per coordinate from a graph that
is built once, which is as fast as forward propagation of as many slopes. A model with dropout or
batch statistics must be in evaluation mode, or the result depends on chance and on `chunk`.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..derivatives import Autodiff, Taylor
from ..derivatives.autodiff import model_gradient, requires_grad_alias
from ..derivatives.validation import check_data, checked_score
from ..serialize import Json
from ..tensors import coordinates, dimension, dot
from ..typing import Derivative, LogDensity, Score
from .measurement import Measurement, mean_of

SCALE = "trace + half squared norm, summed over dimensions"
COORDINATES = 48
"""How many coordinates to differentiate along at a time."""
COEFFICIENTS = 1024
"""How many power series to propagate at a time: enough to be fast, few enough for the caches."""
EXACT = Taylor(fallback=Autodiff())


def exact_sm_loss(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    chunk: int | None = None,
    derivative: Derivative = EXACT,
) -> Measurement:
    """Return the mean exact score-matching loss of a log-density.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 1 and Table 2.

    Args:
        log_density: The model, `(N, *E) -> (N,)`.
        x: Test data, shape `(B, *E)`.
        cond: What the model is conditioned on, a row per example.
        chunk: How many rows at a time, which bounds the memory; by default about a thousand
            divided by the dimension.
        derivative: How to differentiate along the coordinates; by default by `Taylor`, or by
            autodiff if the model does what `Taylor` has no rule for.

    Returns:
        The loss on the scale of $J_{SM}$.

    Example:
        >>> standard_normal = lambda x: -x.square().sum(1) / 2
        >>> exact_sm_loss(standard_normal, torch.tensor([[0.0, 2.0], [0.0, 0.0]])).value
        -1.0
    """
    losses = sm_losses(log_density, x, *cond, chunk=chunk, derivative=derivative)
    return mean_of(losses, scale=SCALE, dimension=dimension(x))


def exact_sm_loss_of_score(
    score: Score, x: Tensor, *cond: Tensor, chunk: int = 100
) -> Measurement:
    """Return the mean exact score-matching loss of a score network, as `exact_sm_loss`.

    Example:
        >>> exact_sm_loss_of_score(lambda x: -x, torch.tensor([[0.0, 2.0]])).value
        0.0
    """
    losses = sm_losses_of_score(score, x, *cond, chunk=chunk)
    return mean_of(losses, scale=SCALE, dimension=dimension(x))


def median_of(values: Tensor, **settings: Json) -> Measurement:
    r"""Return the median of independent values, which a few extreme ones do not move.

    Exact score-matching losses have heavy tails on some data. Of `n` values about
    $n/2 ± \sqrt n/2$ are below the true median, whatever their distribution, so that half the
    distance between the values of these ranks is a standard error.

    Args:
        values: One value per example, shape `(N,)`.
        settings: What else decides the number. The count is added as `"rows"`.

    Returns:
        The median; a single value has no standard error.

    Raises:
        ValueError: If there are no values, or they are not one per example.

    Example:
        >>> print(median_of(torch.tensor([3.0, 1.0, 2.0, 1000.0, 1.5])))
        2.00 ± 0.67
    """
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"a median needs one value per example, shape (N,), but got {tuple(values.shape)}"
        )
    values, n = values.detach().double(), len(values)
    spread = 1 / (2 * math.sqrt(n))
    ranks = torch.tensor([0.5 - spread, 0.5, 0.5 + spread], dtype=values.dtype)
    low, middle, high = values.quantile(ranks.to(values.device)).tolist()
    return Measurement(middle, (high - low) / 2 if n > 1 else None, {**settings, "rows": n})


@torch.no_grad()
def sm_losses(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    chunk: int | None = None,
    derivative: Derivative = EXACT,
) -> Tensor:
    r"""Return $\mathrm{tr}\,∇²\log p(x) + ‖∇\log p(x)‖²/2$ for each row, float64 `(B,)`."""
    if chunk is None:
        chunk = max(1, COEFFICIENTS // (min(dimension(x), COORDINATES) + 2))
    losses = []
    for rows, *conditions in _chunks(x, cond, chunk):
        loss = torch.zeros(len(rows), dtype=torch.float64, device=x.device)
        for units in coordinates(rows, COORDINATES):
            slopes, curvature = derivative.sliced(log_density, rows, units, *conditions)
            loss += curvature + slopes.double().square().sum(0) / 2
        losses.append(loss)
    return torch.cat(losses)


def sm_losses_of_score(score: Score, x: Tensor, *cond: Tensor, chunk: int = 100) -> Tensor:
    r"""Return $\mathrm{tr}\,∇s(x) + ‖s(x)‖²/2$ for each row, float64 `(B,)`."""
    score = checked_score(score)
    return torch.cat([_losses_of_score(score, *part) for part in _chunks(x, cond, chunk)])


def fisher_divergence(
    score: Score, true_score: Score, x: Tensor, *cond: Tensor, chunk: int = 1000
) -> Measurement:
    r"""Return $\tfrac12 E‖s(x) - s^*(x)‖²$ against the score of the data.

    It is $J_{SM}$ of the model less $J_{SM}$ of the truth, hence the half.

    Args:
        score: The score in question; for a log-density, `score_of(log_density)`.
        true_score: The score of the distribution of the data.
        x: Data from that distribution, shape `(B, *E)`.
        cond: What both are conditioned on.
        chunk: How many rows at a time.

    Returns:
        The divergence.

    Example:
        >>> fisher_divergence(lambda x: -2 * x, lambda x: -x, torch.ones(3, 4)).value
        2.0
    """
    errors, _ = _squares(score, true_score, x, cond, chunk)
    return mean_of(errors / 2, scale="half squared norm", dimension=dimension(x))


def relative_fisher_divergence(
    score: Score, true_score: Score, x: Tensor, *cond: Tensor, chunk: int = 1000
) -> Measurement:
    r"""Return $E‖s(x) - s^*(x)‖² / E‖s^*(x)‖²$: 0 for the truth, 1 for no score at all.

    The error is that of a ratio of means, to first order: the standard error of
    $(‖s - s^*‖² - r ‖s^*‖²) / E‖s^*‖²$.

    Args:
        score: The score in question.
        true_score: The score of the distribution of the data.
        x: Data from that distribution, shape `(B, *E)`.
        cond: What both are conditioned on.
        chunk: How many rows at a time.

    Returns:
        The ratio.

    Example:
        >>> relative_fisher_divergence(lambda x: -2 * x, lambda x: -x, torch.ones(3, 4)).value
        1.0
    """
    errors, sizes = _squares(score, true_score, x, cond, chunk)
    ratio = (errors.mean() / sizes.mean()).item()
    residual = mean_of((errors - ratio * sizes) / sizes.mean(), dimension=dimension(x))
    return Measurement(ratio, residual.error, residual.settings)


def _losses_of_score(score: Score, x: Tensor, *cond: Tensor) -> Tensor:
    with torch.enable_grad():
        x = requires_grad_alias(x.detach())
        s = score(x, *cond)
    direction = torch.zeros_like(x, memory_format=torch.contiguous_format)
    coordinates = direction.view(len(x), -1).unbind(1)
    trace = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for i, coordinate in enumerate(coordinates):
        coordinate.fill_(1)
        trace += model_gradient(s, x, create_graph=False, weights=direction).flatten(1)[:, i]
        coordinate.fill_(0)
    s = s.detach().double()
    return trace + dot(s, s) / 2


def _squares(
    score: Score, true_score: Score, x: Tensor, cond: tuple[Tensor, ...], chunk: int
) -> tuple[Tensor, Tensor]:
    """Return $‖s - s^*‖²$ and $‖s^*‖²$ for each row."""
    errors, sizes = [], []
    with torch.no_grad():
        for part in _chunks(x, cond, chunk):
            s, truth = (checked_score(f)(*part).double() for f in (score, true_score))
            errors.append(dot(s - truth, s - truth))
            sizes.append(dot(truth, truth))
    return torch.cat(errors), torch.cat(sizes)


def _chunks(x: Tensor, cond: tuple[Tensor, ...], chunk: int) -> Iterator[tuple[Tensor, ...]]:
    """Return the rows of `x` and of the conditions, so many at a time."""
    check_data(x)
    if chunk < 1 or math.prod(x.shape) == 0:
        raise ValueError(
            f"expected rows of data and a positive chunk, but got {tuple(x.shape)} and {chunk}"
        )
    return zip(*(torch.split(rows, chunk) for rows in (x, *cond)), strict=True)
