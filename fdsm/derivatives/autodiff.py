"""Exact derivatives by repeated reverse-mode differentiation."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from ..tensors import dot
from ..typing import LogDensity, Score
from .checks import check_arguments, checked_density, checked_score
from .randomness import modules_of
from .stencil import require_order
from .taylor.jet import Jet


class WrongGradientWarning(UserWarning):
    """PyTorch will differentiate this wrongly, and will not say so."""


@dataclass(frozen=True)
class Autodiff:
    """Reverse-mode derivatives, differentiable in the parameters of `f`.

    What everybody does: exact in any precision, at about five times the price of a plain step
    for second derivatives, and not to be had for operations without a double backward. Through
    layer and instance norm the parameter gradients of second derivatives are wrong, by an error
    of PyTorch, https://github.com/pytorch/pytorch/issues/175754; a warning says so. If `x`
    requires a gradient the result depends on it, as with any other function of `x`; otherwise
    `x` is left alone. Where gradients are switched off none are kept.

    Example:
        >>> f = lambda x: x.pow(3).sum(1)
        >>> x, v = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.1, 0.0]])
        >>> [round(term.item(), 3) for term in Autodiff().jet(f, x, v, 3)]
        [9.0, 1.2, 0.12, 0.006]
    """

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, by `order` nested gradients."""
        require_order(order)
        check_arguments(x, v, cond)
        keep = torch.is_grad_enabled()
        if keep and order > 1:
            _warn_of_norms(f)
        with torch.enable_grad():
            x = tracked(x)
            terms = [_depends(checked_density(f)(x, *cond))]
            for k in range(order):
                terms.append(dot(gradient(terms[-1], x, keep or k < order - 1), v))
            return tuple(_kept(term, keep) for term in terms)

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures.

        The first gradient is taken once for all directions; each adds one more.
        """
        check_arguments(x, v, cond, several=True)
        keep = torch.is_grad_enabled()
        if keep:
            _warn_of_norms(f)
        with torch.enable_grad():
            x = tracked(x)
            value = _depends(checked_density(f)(x, *cond))
            score = gradient(value, x, create_graph=True)
            slopes = [dot(score, u) for u in v]
            pairs = zip(slopes, v, strict=True)
            curvatures = [dot(gradient(slope, x, keep), u) for slope, u in pairs]
            return _kept(torch.stack(slopes), keep), _kept(torch.stack(curvatures).sum(0), keep)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, by one gradient of $v^T s$."""
        check_arguments(x, v, cond)
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = tracked(x)
            value = _depends(checked_score(s)(x, *cond))
            curvature = dot(gradient(dot(v, value), x, keep), v)
            return _kept(value, keep), _kept(curvature, keep)


def score_of(log_density: LogDensity) -> Score:
    r"""Return the score $∇_x \log p$ of a log-density, as a callable.

    Args:
        log_density: The density to differentiate.

    Returns:
        A score whose values are differentiable in the parameters of `log_density`.

    Example:
        >>> score = score_of(lambda x: -x.square().sum(1) / 2)
        >>> score(torch.tensor([[1.0, 2.0]])).detach()
        tensor([[-1., -2.]])
    """
    density = checked_density(log_density)

    def score(x: Tensor, *cond: Tensor) -> Tensor:
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            x = tracked(x)
            return gradient(_depends(density(x, *cond)), x, create_graph=keep)

    return score


def tracked(x: Tensor) -> Tensor:
    """Return `x` or an alias of it that records gradients, without touching `x`."""
    if torch.is_inference_mode_enabled() or x.is_inference():
        raise RuntimeError(
            "autodiff cannot differentiate in inference mode, or data made there: use "
            "`torch.no_grad()` instead, or FiniteDifference()"
        )
    return x if x.requires_grad else x.view_as(x).requires_grad_()


def gradient(y: Tensor, x: Tensor, create_graph: bool, *, weights: Tensor | None = None) -> Tensor:
    """Return the gradient of the sum of `y`, zero where `y` does not depend on `x`.

    Args:
        y: What to differentiate; with a row per example, each gives a row of the gradient.
        x: With respect to what; must be recorded in the graph of `y`.
        create_graph: Whether the gradient is to be differentiated again.
        weights: For a weighted sum; held fixed even where they depend on `x`.

    Returns:
        The gradient, shaped like `x`.
    """
    if not _is_recorded(y):
        return torch.zeros_like(x)
    (result,) = torch.autograd.grad(
        y,
        x,
        torch.ones_like(y) if weights is None else weights,
        create_graph=create_graph,
        retain_graph=True,
        materialize_grads=True,
    )
    return result


def _depends(y: Tensor) -> Tensor:
    """Return the value of a model, which must depend on its input."""
    if not _is_recorded(y):
        raise ValueError(
            "the model does not depend on its input, or was evaluated without gradients "
            "(`torch.no_grad()` inside it?), so autodiff would take its derivatives to be zero"
        )
    return y


def _is_recorded(y: Tensor) -> bool:
    """Return whether autograd knows where a tensor, or a jet, comes from."""
    return (y.coefficients if isinstance(y, Jet) else y).requires_grad


def _warn_of_norms(f: LogDensity) -> None:
    """Warn of layers whose double backward takes the moments of its input for constants."""
    for module in modules_of(f):
        if isinstance(module, (nn.LayerNorm, _InstanceNorm)):
            warnings.warn(
                f"PyTorch differentiates second derivatives through {type(module).__name__} "
                "wrongly: they are right, but what they train with is not "
                "(https://github.com/pytorch/pytorch/issues/175754). Use Taylor() or "
                "FiniteDifference() with this model",
                WrongGradientWarning,
                stacklevel=4,
            )
            return


def _kept(y: Tensor, keep: bool) -> Tensor:
    return y if keep else y.detach()
