r"""Exact score-matching loss and Fisher divergence of a trained model.

$$J_{SM} = E\left[ \mathrm{tr}\,∇s(x) + \tfrac12 ‖s(x)‖² \right], \qquad s = ∇\log p$$

The loss is summed over the dimensions, as in Table 2 of the paper. The objective
`fdsm.objectives.SM` divides it by the dimension. On data with point masses or constant coordinates
the loss is unbounded below and measures only the noise added to the data. Record that noise in the
settings: `measurement.with_settings(noise=0.005)`.

For a log-density both terms are sums of slopes and curvatures along the coordinates, computed with
`Taylor`. For a score the trace needs one gradient per coordinate. Set models with dropout or batch
norm to evaluation mode; otherwise the result is random and depends on `chunk`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..derivatives.autodiff import model_gradient, requires_grad_alias
from ..derivatives.checks.arguments import check_values, checked_score, require_density_shape
from ..derivatives.exact import EXACT
from ..operators.coordinates import sum_over_coordinates
from ..tensors import dimension, dot
from ..typing import Derivative, LogDensity, Score, nests_gradients
from .measurement import Measurement, mean_of

SCALE = "trace + half squared norm, summed over dimensions"


def exact_sm_loss(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    chunk: int | None = None,
    derivative: Derivative = EXACT,
) -> Measurement:
    r"""Return the mean exact score-matching loss of a log-density.

    $$J_{SM} = E\left[\mathrm{tr}\,∇²\log p(x) + \tfrac{1}{2}‖∇\log p(x)‖²\right]$$

    This is the sum over dimensions, as in the tables of the paper. The objectives of
    `fdsm.objectives` are per dimension: along isotropic directions their mean is $J_{SM} / d$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Eq. 1 and Table 2.

    Args:
        log_density: The model, `(N, *E) -> (N,)`.
        x: Test data, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        chunk: Number of rows at a time. Default: chosen by memory.
        derivative: The derivative engine. Default: `Taylor`, with `Autodiff` for models that use
            operations without a Taylor rule.

    Returns:
        The loss $J_{SM}$.

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
    """Return the mean exact score-matching loss of a score; see `exact_sm_loss`.

    Example:
        >>> exact_sm_loss_of_score(lambda x: -x, torch.tensor([[0.0, 2.0]])).value
        0.0
    """
    losses = sm_losses_of_score(score, x, *cond, chunk=chunk)
    return mean_of(losses, scale=SCALE, dimension=dimension(x))


@torch.no_grad()
def sm_losses(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    chunk: int | None = None,
    derivative: Derivative = EXACT,
) -> Tensor:
    r"""Return $\mathrm{tr}\,∇²\log p(x) + ‖∇\log p(x)‖²/2$ of each row, `(B,)`, in float64."""
    require_rows(x)

    def along(units: Tensor, x: Tensor, *cond: Tensor) -> Tensor:
        slopes, curvature = derivative.sliced(log_density, x, units, *cond)
        require_density_shape(curvature.shape, len(x))
        return curvature + slopes.double().square().sum(0) / 2

    nested = nests_gradients(derivative)
    return sum_over_coordinates(along, log_density, x, *cond, row_chunk=chunk, nested=nested)


def sm_losses_of_score(score: Score, x: Tensor, *cond: Tensor, chunk: int = 100) -> Tensor:
    r"""Return $\mathrm{tr}\,∇s(x) + ‖s(x)‖²/2$ of each row, `(B,)`, in float64."""
    require_rows(x)
    score = checked_score(score)
    return torch.cat([_losses_of_score(score, *part) for part in _chunks(x, cond, chunk)])


def fisher_divergence(
    score: Score, true_score: Score, x: Tensor, *cond: Tensor, chunk: int = 1000
) -> Measurement:
    r"""Return the Fisher divergence $\tfrac12 E‖s(x) - s^*(x)‖²$ from the score of the data.

    It is $J_{SM}$ of the model minus $J_{SM}$ of the true density, hence the factor ½.

    Args:
        score: The score to evaluate; for a log-density, `score_of(log_density)`.
        true_score: The score of the data distribution.
        x: Data from that distribution, shape `(B, *E)`.
        cond: Further arguments of both scores, one row per example.
        chunk: Number of rows per call of the model, which limits the memory.

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
    r"""Return $E‖s(x) - s^*(x)‖² / E‖s^*(x)‖²$: 0 for the true score, 1 for a score of zero.

    The error is that of a ratio of means to first order, the standard error of
    $(‖s - s^*‖² - r ‖s^*‖²) / E‖s^*‖²$.

    Args:
        score: The score to evaluate.
        true_score: The score of the data distribution.
        x: Data from that distribution, shape `(B, *E)`.
        cond: Further arguments of both scores, one row per example.
        chunk: Number of rows per call of the model, which limits the memory.

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
    """Return $‖s - s^*‖²$ and $‖s^*‖²$ of each row."""
    errors, sizes = [], []
    with torch.no_grad():
        for part in _chunks(x, cond, chunk):
            s, truth = (checked_score(f)(*part).double() for f in (score, true_score))
            errors.append(dot(s - truth, s - truth))
            sizes.append(dot(truth, truth))
    return torch.cat(errors), torch.cat(sizes)


def _chunks(x: Tensor, cond: tuple[Tensor, ...], chunk: int) -> Iterator[tuple[Tensor, ...]]:
    """Return the rows of `x` and of the conditions in chunks."""
    require_rows(x)
    if chunk < 1:
        raise ValueError(f"the chunk must be positive, but got {chunk}")
    return zip(*(torch.split(rows, chunk) for rows in (x, *cond)), strict=True)


def require_rows(x: Tensor) -> None:
    """Raise `TypeError` or `ValueError` unless `x` holds at least one row of finite numbers."""
    check_values(x)
    if x.numel() == 0:
        raise ValueError(f"expected data with at least one row, but got shape {tuple(x.shape)}")
