r"""Score matching by passing curvature back through the layers of a network.

For a network given as its layers, the gradient $g = ∂L/∂a$ of the log-density with respect to
the input of each layer follows from that of the next, and so does a stand-in for the Hessian:
its diagonal $h$ with everything else dropped (approximate back-propagation), or a random vector
$S$ with $E[S S^T] = ∂²L/∂a²$ (curvature propagation). With $W$ the matrix of a linear layer and
$φ$ an activation,

| | linear | activation |
|---|---|---|
| gradient | $W^T g$ | $g φ'(a)$ |
| diagonal | $(W ∘ W)^T h$ | $g φ''(a) + h φ'(a)²$ |
| square root | $W^T S$ | $φ'(a) S + \sqrt{g φ''(a)} \, r$, $r$ random signs |

The log-density is the sum of what the last layer returns, over units. Published code applies the
rules of one half of a coupling layer to both; here every layer gets its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from ..derivatives.autodiff import gradient, requires_grad_alias
from ..derivatives.validation import check_data
from ..tensors import dimension, dot
from ..typing import AdditiveCoupling, Elementwise, is_additive_coupling

LINEAR: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
REARRANGING: tuple[type[nn.Module], ...] = (nn.Flatten, nn.Identity, nn.Unflatten)
ACTIVATIONS: tuple[type[nn.Module], ...] = (
    nn.CELU, nn.ELU, nn.GELU, nn.LogSigmoid, nn.Mish, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus,
    nn.Softsign, nn.Tanh,
)  # fmt: skip

Curvature = tuple[Tensor, ...]
"""What stands in for the Hessian with respect to the input of a layer, shaped like it."""


@dataclass(frozen=True)
class ApproximateBackprop:
    r"""Score matching with the diagonal of the Hessian propagated approximately.

    $$J(x) = \frac1d \left[ \sum_i h_i + \tfrac12 ‖g‖² \right]$$

    The gradient is exact. The diagonal is exact for one hidden layer and biased beyond, since
    the off-diagonal part of the Hessian between layers is dropped.

    Reference:
        Kingma and LeCun (2010), Regularized estimation of image statistics by score matching.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> layers = [nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1)]
        >>> ApproximateBackprop()(layers, torch.zeros(5, 3)).shape
        torch.Size([5])
    """

    def __call__(
        self, layers: Iterable[nn.Module], x: Tensor, /, *, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`; nothing is random."""
        return _loss(layers, x, _Diagonal())


@dataclass(frozen=True)
class CurvaturePropagation:
    r"""Score matching with the trace of the Hessian estimated by propagating a square root.

    $$J(x) = \frac1d \left[ \sum_i (\mathrm{Re}\,S_i^2 - \mathrm{Im}\,S_i^2)
            + \tfrac12 ‖g‖² \right]$$

    Unbiased at any depth. Negative curvature makes the root imaginary, so both parts are kept.

    Reference:
        Martens et al. (2012), Estimating the Hessian by back-propagating curvature,
        https://arxiv.org/abs/1206.6464.
    """

    def __call__(
        self, layers: Iterable[nn.Module], x: Tensor, /, *, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, for random signs at every activation."""
        return _loss(layers, x, _SquareRoot(generator))


class _Rule(Protocol):
    """How curvature passes a layer, from its output to its input."""

    def none(self, y: Tensor) -> Curvature:
        """Return the curvature of a linear function of `y`."""
        ...

    def linear(self, layer: nn.Module, a: Tensor, curvature: Curvature) -> Curvature:
        """Return what a linear layer passes back."""
        ...

    def activation(self, curvature: Curvature, slope: Tensor, bend: Tensor) -> Curvature:
        """Return what an activation passes back, given $φ'(a)$ and $g φ''(a)$."""
        ...

    def trace(self, curvature: Curvature) -> Tensor:
        """Return the trace of the Hessian, shape `(B,)`."""
        ...


@dataclass(frozen=True)
class _Diagonal:
    def none(self, y: Tensor) -> Curvature:
        return (torch.zeros_like(y),)

    def linear(self, layer: nn.Module, a: Tensor, curvature: Curvature) -> Curvature:
        squared = {name: p.square() for name, p in layer.named_parameters() if name == "weight"}
        return (_transpose(functional_call(layer, squared, (a,)), a, curvature[0]),)

    def activation(self, curvature: Curvature, slope: Tensor, bend: Tensor) -> Curvature:
        return (bend + curvature[0] * slope.square(),)

    def trace(self, curvature: Curvature) -> Tensor:
        return dot(curvature[0], torch.ones_like(curvature[0]))


@dataclass(frozen=True)
class _SquareRoot:
    generator: Generator | None

    def none(self, y: Tensor) -> Curvature:
        return torch.zeros_like(y), torch.zeros_like(y)

    def linear(self, layer: nn.Module, a: Tensor, curvature: Curvature) -> Curvature:
        y = layer(a)
        return tuple(_transpose(y, a, part) for part in curvature)

    def activation(self, curvature: Curvature, slope: Tensor, bend: Tensor) -> Curvature:
        bits = torch.randint(2, bend.shape, device=bend.device, generator=self.generator)
        signs = 2 * bits.to(bend.dtype) - 1
        real, imaginary = curvature
        return slope * real + signs * _root(bend), slope * imaginary + signs * _root(-bend)

    def trace(self, curvature: Curvature) -> Tensor:
        real, imaginary = curvature
        return dot(real, real) - dot(imaginary, imaginary)


def _loss(layers: Iterable[nn.Module], x: Tensor, rule: _Rule) -> Tensor:
    check_data(x)
    keep = torch.is_grad_enabled()
    with torch.enable_grad():
        x = requires_grad_alias(x)
        if isinstance(layers, nn.Sequential):
            layers = [layers]
        inputs, y = _forward(layers, x)
        g, curvature = _back(inputs, torch.ones_like(y), rule.none(y), rule)
        losses = (rule.trace(curvature) + dot(g, g) / 2) / dimension(x)
        return losses if keep else losses.detach()


def _forward(
    layers: Iterable[nn.Module], a: Tensor
) -> tuple[list[tuple[nn.Module, Tensor]], Tensor]:
    """Return every layer with its input, and the output of the last."""
    inputs = []
    for layer in layers:
        inputs.append((layer, a))
        a = layer(a)
    return inputs, a


def _back(
    inputs: Sequence[tuple[nn.Module, Tensor]], g: Tensor, curvature: Curvature, rule: _Rule
) -> tuple[Tensor, Curvature]:
    """Return gradient and curvature with respect to the first input."""
    for layer, a in reversed(inputs):
        g, curvature = _back_through(layer, a, g, curvature, rule)
    return g, curvature


def _back_through(
    layer: nn.Module, a: Tensor, g: Tensor, curvature: Curvature, rule: _Rule
) -> tuple[Tensor, Curvature]:
    if is_additive_coupling(layer):
        return _back_through_coupling(layer, a, g, curvature, rule)
    if type(layer) is nn.Sequential:
        return _back(_forward(layer, a)[0], g, curvature, rule)
    if _is_linear(layer):
        return _transpose(layer(a), a, g), rule.linear(layer, a, curvature)
    if type(layer) in ACTIVATIONS or (isinstance(layer, Elementwise) and layer.elementwise):
        slope = gradient(layer(a), a, create_graph=True)
        bend = g * gradient(slope, a, create_graph=True)
        return g * slope, rule.activation(curvature, slope, bend)
    raise TypeError(
        f"no rule to pass curvature back through {type(layer).__name__}: layers may be linear "
        "maps (without parametrizations), smooth activations, `nn.Sequential` of these, additive "
        "couplings (`fdsm.typing.AdditiveCoupling`) and modules that act on each element and say "
        "so with `elementwise = True`"
    )


def _is_linear(layer: nn.Module) -> bool:
    has_weight = "weight" in dict(layer.named_parameters(recurse=False))
    return type(layer) in REARRANGING or (type(layer) in LINEAR and has_weight)


def _back_through_coupling(
    layer: AdditiveCoupling, a: Tensor, g: Tensor, curvature: Curvature, rule: _Rule
) -> tuple[Tensor, Curvature]:
    """Return what passes back through $(k, m) ↦ (k, m + f(k))$: both outputs depend on $k$."""
    g_kept, g_moved = layer.split(g)
    kept, moved = zip(*map(layer.split, curvature), strict=True)
    shift, _ = _forward(layer.shift, layer.split(a)[0])
    g_shift, shifted = _back(shift, g_moved, moved, rule)
    parts = zip(kept, shifted, moved, strict=True)
    return layer.merge(g_kept + g_shift, g_moved), tuple(
        layer.merge(k + s, m) for k, s, m in parts
    )


def _transpose(y: Tensor, a: Tensor, u: Tensor) -> Tensor:
    """Return the transposed Jacobian of `y` with respect to `a`, applied to `u`."""
    return gradient(y, a, create_graph=True, weights=u)


def _root(bend: Tensor) -> Tensor:
    """Return the square root of the positive part, with a gradient of zero where it is zero."""
    positive = bend > 0
    return torch.where(positive, bend, 1).sqrt() * positive
