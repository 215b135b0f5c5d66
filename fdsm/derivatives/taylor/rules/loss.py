"""Loss functions and their reductions."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from ..algebra import Operand, value_of
from ..jet import Jet
from ..registry import MissingRule, rule
from .piecewise import JUMP, clamp, warn_kink


def _reduced(
    loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Tensor:
    """Return the mean or the sum of a loss, or the loss itself."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    if reduction == "none":
        return loss
    _reduction.get_enum(reduction)  # raises an error for an unknown name
    return loss.mean() if reduction == "mean" else loss.sum()


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, *legacy: bool | None) -> Tensor:
    """Return the weighted mean or sum of a loss, or the weighted loss itself."""
    if weight is None:
        return _reduced(loss, reduction, *legacy)
    total = _reduced(loss * weight, "sum" if reduction == "mean" else reduction)
    return total / weight.sum() if reduction == "mean" else total


@rule(functional.mse_loss)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return squared differences."""
    return _weighted((input - target).square(), weight, reduction, size_average, reduce)


@rule(functional.binary_cross_entropy)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $-y \log p - (1 - y) \log(1 - p)$, with logarithms clamped at -100."""
    loss = (target - 1) * _logarithm(1 - input) - target * _logarithm(input)
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


def _logarithm(x: Tensor) -> Tensor:
    r"""Return $\log x$, but the constant -100 where $x$ is below $e^{-100}$."""
    tiny = value_of(x).abs() < math.exp(-100)
    return torch.where(tiny, -100, torch.where(tiny, 1, x).log())


@rule(functional.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    r"""Return $(1 - y) x - (1 + (w - 1) y) \log σ(x)$."""
    scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input - scale * functional.logsigmoid(input)
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@rule(functional.gaussian_nll_loss)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Operand,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $\tfrac12 (\log σ² + (x - y)² / σ²)$.

    Raises:
        ValueError: If a variance is negative.
    """
    variance = var if isinstance(var, Tensor) else torch.full_like(value_of(input), var)
    if (value_of(variance) < 0).any():
        raise ValueError("`var` has negative entries")
    if variance.shape == input.shape[:-1]:
        variance = variance.unsqueeze(-1)
    variance = clamp(variance, eps) if isinstance(variance, Jet) else variance.clamp(eps)
    loss = 0.5 * (variance.log() + (input - target).square() / variance)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@rule(functional.poisson_nll_loss)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $e^x - y x$, or $x - y \log x$, with Stirling's approximation of $\log y!$."""
    logarithm = input if log_input else (input + eps).log()
    loss = (input.exp() if log_input else input) - target * logarithm
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + torch.where(value_of(target) <= 1, 0, stirling)
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.kl_div)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    r"""Return $q (\log q - x)$ for $x = \log p$."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = torch.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0]
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.nll_loss)
def nll_loss(input: Jet, target: Tensor, *args: Any, **kwargs: Any) -> Jet:
    """Return negative log-likelihoods, which are linear in the log-probabilities."""
    rows = [functional.nll_loss(c, target, *args, **kwargs) for c in input.coefficients]
    return Jet(torch.stack(rows), input.truncation)


@rule(functional.cross_entropy)
def cross_entropy(
    input: Jet,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of classes or of class probabilities.

    Raises:
        MissingRule: If `label_smoothing` is not zero.
    """
    if label_smoothing:
        raise MissingRule("Taylor has no rule for `cross_entropy` with `label_smoothing`")
    dim = min(1, input.ndim - 1)
    logarithms = functional.log_softmax(input, dim)
    if not target.is_floating_point():
        return functional.nll_loss(
            logarithms, target, weight, size_average, ignore_index, reduce, reduction
        )
    if weight is not None:
        target = target * weight.reshape(-1, *[1] * (input.ndim - 1 - dim))
    return _reduced(-(target * logarithms).sum(dim), reduction, size_average, reduce)


@rule(functional.l1_loss)
def l1_loss(*args: Any, **kwargs: Any) -> Tensor:
    """Refuse absolute differences, because torch does not tell the rule the weights.

    Raises:
        MissingRule: Always.
    """
    raise MissingRule(
        "Taylor has no rule for `torch.nn.functional.l1_loss`, whose weights it cannot see: use "
        "`(input - target).abs()`"
    )


@rule(functional.smooth_l1_loss)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    r"""Return $d² / 2β$ for differences $|d| < β$, and $|d| - β / 2$ elsewhere."""
    if beta == 0:
        return _reduced((input - target).abs(), reduction, size_average, reduce)
    loss = _huber("smooth_l1_loss", input - target, beta) / beta
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.huber_loss)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    r"""Return $d² / 2$ for differences $|d| < δ$, and $δ (|d| - δ / 2)$ elsewhere."""
    loss = _huber("huber_loss", input - target, delta)
    return _reduced(loss if weight is None else loss * weight, reduction)


def _huber(name: str, difference: Tensor, delta: float) -> Tensor:
    """Return Huber's function of a difference."""
    warn_kink(name, difference, problem=JUMP)
    d = value_of(difference).detach()
    linear = delta * (difference * d.sgn() - delta / 2)
    return torch.where(d.abs() < delta, difference.square() / 2, linear)


@rule(functional.soft_margin_loss)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $\log(1 + e^{-y x})$."""
    return _reduced(-functional.logsigmoid(target * input), reduction, size_average, reduce)


@rule(functional.multilabel_soft_margin_loss)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return the means of $-y \log σ(x) - (1 - y) \log σ(-x)$ over classes."""
    log_sigmoid = functional.logsigmoid
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    loss = (loss if weight is None else loss * weight).mean(-1)
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.margin_ranking_loss)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $\max(0, m - y (a - b))$."""
    loss = (margin - target * (input1 - input2)).clamp_min(0)
    return _reduced(loss, reduction, size_average, reduce)
