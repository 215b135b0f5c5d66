"""Deep kernel exponential families."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..tensors import dot
from .normal_equations import Equations, NormalEquations, SlicedEquations

_SLICED = SlicedEquations()


class DKEF(nn.Module):
    r"""An exponential family whose features are kernels of learned features of the data.

    $$\log p(x) = -\frac{‖x‖²}{2 s²} + \sum_j α_j \sum_i w_i
      \exp\!\left(-\frac{‖φ_i(x) - φ_i(z_j)‖²}{2 \cdot 10^{l_i}}\right)$$

    up to a constant, with base measure $N(0, s² I)$, weights $w$ that sum to one, inducing points
    $z_j$ and networks $φ_i$ of three layers with a linear shortcut. All are trained but $α$, which
    is solved for. In training, solve on one half of a batch and take the loss on the other:

        loss = objective(model.solve(x_fit, v), x_loss)

    Gradients flow through the solution. When done, add up the equations of all data and keep their
    solution with the model by `finalise`; from then on the model itself is the log-density.

    Distances between features far from the origin lose digits in float32, and differences of
    kernels amplify that: for data with heavy tails use float64, which costs little here.

    Reference:
        Wenliang et al. (2019), https://arxiv.org/abs/1811.08357.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Sec. 6.1 and App. C.1, whose formula
        leaves out $α$ and $w$.

    Args:
        inducing: Where to start the inducing points, usually rows of training data, `(M, D)`.
        features: The widths of the networks $φ_i$, and the number of features they return.
        log_lengthscales: Where to start the $l_i$, one for each kernel.
        base_scale: The standard deviation $s$ of the base measure.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(100, 2)
        >>> model = DKEF(x[:10])
        >>> density = model.solve(x, torch.randn(100, 2))
        >>> density(x).shape
        torch.Size([100])
    """

    alpha: Tensor

    def __init__(
        self,
        inducing: Tensor,
        features: int = 30,
        log_lengthscales: Sequence[float] = (0.0, 0.5185, 1.0),
        base_scale: float = 2.0,
    ) -> None:
        super().__init__()
        if inducing.ndim != 2:
            raise ValueError(
                "inducing points must be rows, shape (M, D), but have shape "
                f"{tuple(inducing.shape)}"
            )
        self.inducing = nn.Parameter(inducing.detach().clone())
        self.features = _Features(inducing.shape[1], features, log_lengthscales)
        self.weight_logits = nn.Parameter(torch.zeros(len(log_lengthscales)))
        self.log_penalty = nn.Parameter(torch.tensor(-2.0))
        self.base_scale = base_scale
        self.register_buffer("alpha", torch.zeros(len(inducing)))
        self.to(inducing.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density with the $α$ of `finalise`, shape `(B, D) -> (B,)`.

        Raises:
            RuntimeError: If there is none yet.
        """
        if not self.alpha.any():
            raise RuntimeError(
                "the model is not a density before its α is known: in training use "
                "`model.solve(x, v)`, afterwards `model.finalise(equations)`"
            )
        return DKEFDensity(self, self.alpha)(x)

    def equations(self, x: Tensor, v: Tensor, equations: Equations = _SLICED) -> NormalEquations:
        """Return the normal equations for $α$ of a batch; add those of several batches.

        Args:
            x: The data, shape `(B, D)`.
            v: The directions, shape `(B, D)`; their length matters to differences only.
            equations: How to form them.

        Returns:
            The equations, differentiable in all parameters.
        """
        return equations(self, x, v)

    def solve(self, x: Tensor, v: Tensor, equations: Equations = _SLICED) -> "DKEFDensity":
        """Return the log-density with the best $α$ for a batch; arguments as `equations`."""
        return self.solve_from(self.equations(x, v, equations))

    def solve_from(self, equations: NormalEquations) -> "DKEFDensity":
        """Return the log-density with the $α$ that solves the equations.

        Args:
            equations: Those of one batch or the sum of many.

        Returns:
            The density, through which gradients flow to the parameters and the penalty.
        """
        return DKEFDensity(self, equations.solution(self.penalty))

    @torch.no_grad()
    def finalise(self, equations: NormalEquations) -> None:
        """Keep the solution of the equations as part of the model's state."""
        self.alpha.copy_(equations.solution(self.penalty))

    @property
    def penalty(self) -> Tensor:
        """The weight $λ = 10^l$ of the penalty on $α$."""
        return _power_of_ten(self.log_penalty)

    def base(self, x: Tensor) -> Tensor:
        """Return the log-density of the base measure up to a constant, shape `(B,)`."""
        return -dot(x, x) / (2 * self.base_scale**2)

    def base_score(self, x: Tensor) -> Tensor:
        """Return the score of the base measure, shape `(B, D)`."""
        return -x / self.base_scale**2

    def kernels(self, x: Tensor) -> Tensor:
        """Return $k_j(x)$, the weighted sum of all kernels, shape `(B, M)`."""
        return self._kernels(self.features(x), self.features(self.inducing)).sum(0)

    def kernel_jet(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Return the kernels with slopes and curvatures along `v`, each of shape `(B, M)`.

        Of $k = e^{-‖f - c‖²/2}$ these are $-ka$ and $k (a² - a')$, with $a = (f - c)^T f'$ for
        features $f$ of the data and $c$ of the inducing points.
        """
        (f, slope, curvature), c = self.features.jet(x, v), self.features(self.inducing)
        k = self._kernels(f, c)
        a = _inner(f, slope)[:, :, None] - slope @ c.mT
        bend = (_inner(slope, slope) + _inner(f, curvature))[:, :, None] - curvature @ c.mT
        return k.sum(0), (-k * a).sum(0), (k * (a.square() - bend)).sum(0)

    def kernel_gradients(self, x: Tensor) -> Tensor:
        """Return the gradients of the kernels with respect to `x`, shape `(B, D, M)`."""
        (f, jacobian), c = self.features.jacobian(x), self.features(self.inducing)
        towards = _rowwise(jacobian, c.mT) - jacobian @ f[..., None]
        gradients: Tensor = (self._kernels(f, c)[:, :, None] * towards).sum(0)
        return gradients

    def _kernels(self, f: Tensor, c: Tensor) -> Tensor:
        """Return each kernel with its weight, shape `(K, B, F), (K, M, F) -> (K, B, M)`."""
        log_weights = self.weight_logits.log_softmax(0)[:, None] - _inner(c, c) / 2
        exponents = torch.baddbmm(log_weights[:, None], f, c.mT)
        return (exponents - _inner(f, f)[:, :, None] / 2).exp()


@dataclass(frozen=True)
class DKEFDensity:
    """The log-density of a `DKEF` with given coefficients.

    Attributes:
        model: Kernels and base measure.
        alpha: The coefficients, shape `(M,)`.
    """

    model: DKEF
    alpha: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, D) -> (B,)`."""
        return self.model.base(x) + self.model.kernels(x) @ self.alpha


class _Features(nn.Module):
    """Networks of three linear layers, softplus between them, beside a linear shortcut.

    There are `K` of them, evaluated together: features have shape `(K, B, F)`. They are in units
    of a lengthscale, $10^{l/2}$. The last layer has no bias, since only differences of features
    count.
    """

    def __init__(self, dim: int, width: int, log_lengthscales: Sequence[float]) -> None:
        super().__init__()

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(len(log_lengthscales), *shape) / math.sqrt(width))

        self.first, self.first_bias = normal(dim, width), normal(1, width)
        self.second, self.second_bias = normal(width, width), normal(1, width)
        self.third, self.shortcut = normal(width, width), normal(dim, width)
        self.log_lengthscales = nn.Parameter(torch.tensor(list(log_lengthscales)))

    def forward(self, x: Tensor) -> Tensor:
        h = functional.softplus(x @ self.first + self.first_bias)
        h = functional.softplus(h @ self.second + self.second_bias)
        return self._unit * (h @ self.third + x @ self.shortcut)

    def jet(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features with their first two derivatives along `v`, in one forward pass."""
        a, slope = x @ self.first + self.first_bias, v @ self.first
        h, slope, curvature = _softplus_jet(a, slope, torch.zeros_like(slope))
        a = h @ self.second + self.second_bias
        h, slope, curvature = _softplus_jet(a, slope @ self.second, curvature @ self.second)
        unit, third, shortcut = self._unit, self.third, self.shortcut
        value, slope = h @ third + x @ shortcut, slope @ third + v @ shortcut
        return unit * value, unit * slope, unit * (curvature @ third)

    def jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features, and their derivatives along every axis, `(K, B, D, F)`."""
        a = x @ self.first + self.first_bias
        jacobian = _rowwise(a.sigmoid()[:, :, None] * self.first[:, None], self.second)
        a = functional.softplus(a) @ self.second + self.second_bias
        jacobian = _rowwise(a.sigmoid()[:, :, None] * jacobian, self.third)
        value = functional.softplus(a) @ self.third + x @ self.shortcut
        return self._unit * value, self._unit[:, None] * (jacobian + self.shortcut[:, None])

    @property
    def _unit(self) -> Tensor:
        return _power_of_ten(-self.log_lengthscales / 2)[:, None, None]


def _softplus_jet(a: Tensor, slope: Tensor, curvature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return softplus of `a` with its first two derivatives, given those of `a`."""
    gate = a.sigmoid()
    bent = gate * ((1 - gate) * slope.square() + curvature)
    return functional.softplus(a), gate * slope, bent


def _power_of_ten(exponent: Tensor) -> Tensor:
    return (exponent * math.log(10)).exp()


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _rowwise(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows times a matrix, `(K, B, D, F), (K, F, G) -> (K, B, D, G)`, as one product."""
    return (rows.flatten(1, 2) @ matrix).view(*rows.shape[:3], -1)
