r"""Score matching with curvature that is propagated back through the layers of a network.

For a sequence of layers, the gradient $g = ∂L/∂a$ of the log-density with respect to the input of
each layer is computed from that of the next layer. An approximation of the Hessian is computed in
the same way: its diagonal $h$ without the off-diagonal part (approximate back-propagation), or a
random vector $S$ with $E[S S^T] = ∂²L/∂a²$ (curvature propagation). For a linear layer with matrix
$W$ and an activation $φ$,

| | linear | activation |
|---|---|---|
| gradient | $W^T g$ | $g φ'(a)$ |
| diagonal | $(W ∘ W)^T h$ | $g φ''(a) + h φ'(a)²$ |
| square root | $W^T S$ | $φ'(a) S + \sqrt{g φ''(a)} \, r$, $r$ random signs |

The log-density is the sum of the outputs of the last layer. The published code applies the rules
of one half of a coupling layer to both halves; here each layer has its own rule.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from ..derivatives.autodiff import gradient, requires_grad_alias
from ..derivatives.checks.arguments import check_data
from ..tensors import dimension, dot
from ..typing import AdditiveCoupling, Elementwise, is_additive_coupling

LINEAR: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
RESHAPING: tuple[type[nn.Module], ...] = (nn.Flatten, nn.Identity, nn.Unflatten)
ACTIVATIONS: tuple[type[nn.Module], ...] = (
    nn.CELU, nn.ELU, nn.GELU, nn.LogSigmoid, nn.Mish, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus,
    nn.Softsign, nn.Tanh,
)  # fmt: skip

Curvature = tuple[Tensor, ...]
"""Approximation of the Hessian with respect to the input of a layer, with its shape."""


@dataclass(frozen=True)
class ApproximateBackprop:
    r"""Score matching with the diagonal of the Hessian propagated approximately.

    $$J(x) = \frac1d \left[ \sum_i h_i + \tfrac12 ‖g‖² \right]$$

    The gradient is exact. The diagonal is exact for one hidden layer. For more layers it is
    biased, because the off-diagonal part of the Hessian between layers is ignored.

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
        """Return the losses at `x`, shape `(B,)`. `generator` is not used."""
        return _loss(layers, x, _Diagonal())


@dataclass(frozen=True)
class CurvaturePropagation:
    r"""Score matching with a stochastic estimate of the trace of the Hessian.

    $$J(x) = \frac1d \left[ \sum_i (\mathrm{Re}\,S_i^2 - \mathrm{Im}\,S_i^2)
            + \tfrac12 ‖g‖² \right]$$

    A random square root $S$ of the Hessian is propagated back, which is unbiased at any depth.
    Negative curvature makes it imaginary, so both parts are kept.

    Reference:
        Martens et al. (2012), Estimating the Hessian by back-propagating curvature,
        https://arxiv.org/abs/1206.6464.
    """

    def __call__(
        self, layers: Iterable[nn.Module], x: Tensor, /, *, generator: Generator | None = None
    ) -> Tensor:
        """Return the losses at `x`, shape `(B,)`, with random signs at every activation."""
        return _loss(layers, x, _SquareRoot(generator))


class _Rule(Protocol):
    """Rule that propagates curvature from the output of a layer to its input."""

    def zero(self, y: Tensor) -> Curvature:
        """Return the curvature of a linear function of `y`, zero."""
        ...

    def linear(self, layer: nn.Module, a: Tensor, curvature: Curvature) -> Curvature:
        """Return the curvature at the input of a linear layer."""
        ...

    def activation(self, curvature: Curvature, slope: Tensor, bend: Tensor) -> Curvature:
        """Return the curvature at the input of an activation, given $φ'(a)$ and $g φ''(a)$."""
        ...

    def trace(self, curvature: Curvature) -> Tensor:
        """Return the trace of the Hessian, shape `(B,)`."""
        ...


@dataclass(frozen=True)
class _Diagonal:
    def zero(self, y: Tensor) -> Curvature:
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

    def zero(self, y: Tensor) -> Curvature:
        return torch.zeros_like(y), torch.zeros_like(y)

    def linear(self, layer: nn.Module, a: Tensor, curvature: Curvature) -> Curvature:
        y = layer(a)
        return tuple(_transpose(y, a, part) for part in curvature)

    def activation(self, curvature: Curvature, slope: Tensor, bend: Tensor) -> Curvature:
        bits = torch.randint(2, bend.shape, device=bend.device, generator=self.generator)
        signs = 2 * bits.to(bend.dtype) - 1
        real, imaginary = curvature
        return slope * real + signs * _positive_root(
            bend
        ), slope * imaginary + signs * _positive_root(-bend)

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
        g, curvature = _back(inputs, torch.ones_like(y), rule.zero(y), rule)
        losses = (rule.trace(curvature) + dot(g, g) / 2) / dimension(x)
        return losses if keep else losses.detach()


def _forward(
    layers: Iterable[nn.Module], a: Tensor
) -> tuple[list[tuple[nn.Module, Tensor]], Tensor]:
    """Return the layers with their inputs, and the output of the last layer."""
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
        f"there is no rule for the curvature of {type(layer).__name__}. Supported layers are "
        "linear maps (without parametrizations), smooth activations, `nn.Sequential` of these, "
        "additive couplings (`fdsm.typing.AdditiveCoupling`) and modules with `elementwise = True`"
    )


def _is_linear(layer: nn.Module) -> bool:
    has_weight = "weight" in dict(layer.named_parameters(recurse=False))
    return type(layer) in RESHAPING or (type(layer) in LINEAR and has_weight)


def _back_through_coupling(
    layer: AdditiveCoupling, a: Tensor, g: Tensor, curvature: Curvature, rule: _Rule
) -> tuple[Tensor, Curvature]:
    """Propagate back through $(k, m) ↦ (k, m + f(k))$, where both outputs depend on $k$."""
    g_kept, g_shifted = layer.split(g)
    kept, shifted = zip(*map(layer.split, curvature), strict=True)
    network, _ = _forward(layer.shift, layer.split(a)[0])
    g_network, through_network = _back(network, g_shifted, shifted, rule)
    parts = zip(kept, through_network, shifted, strict=True)
    return layer.merge(g_kept + g_network, g_shifted), tuple(
        layer.merge(k + n, m) for k, n, m in parts
    )


def _transpose(y: Tensor, a: Tensor, u: Tensor) -> Tensor:
    """Return the transposed Jacobian of `y` with respect to `a`, applied to `u`."""
    return gradient(y, a, create_graph=True, weights=u)


def _positive_root(bend: Tensor) -> Tensor:
    """Return the square root of the positive part, with a gradient of zero where it is zero."""
    positive = bend > 0
    return torch.where(positive, bend, 1).sqrt() * positive
