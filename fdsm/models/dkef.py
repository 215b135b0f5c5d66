"""Deep kernel exponential families."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..tensors import dot, require_tensor
from .normal_equations import Equations, NormalEquations, SlicedEquations

_SLICED = SlicedEquations()


class DKEF(nn.Module):
    r"""A deep kernel exponential family.

    $$\log p(x) = -\frac{‖x‖²}{2 s²} + \sum_j α_j \sum_i w_i
      \exp\!\left(-\frac{‖φ_i(x) - φ_i(z_j)‖²}{2 \cdot 10^{l_i}}\right)$$

    up to a constant, with base measure $N(0, s² I)$, weights $w$ that sum to one, inducing points
    $z_j$ and networks $φ_i$ of three layers with a linear shortcut. All parameters are trained
    except $α$, which has a closed-form solution. In training, solve for $α$ on one half of a batch
    and compute the loss on the other half:

        loss = objective(model.solve(x_fit, v), x_loss)

    Gradients flow through the solution. After training, sum the equations of all data and store
    their solution with `finalize`. Then the model itself is the log-density.

    Distances between features far from the origin are inaccurate in float32, and differences of
    kernels amplify the error. Use float64 for data with heavy tails.

    Reference:
        Wenliang et al. (2019), https://arxiv.org/abs/1811.08357.
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Sec. 6.1 and App. C.2, where the
        formula omits $α$ and $w$.

    Args:
        inducing: Initial inducing points, usually rows of training data, shape `(M, D)`.
        features: Width of the networks $φ_i$ and number of their outputs.
        log_lengthscales: Initial values of the $l_i$, one for each kernel.
        base_scale: Standard deviation $s$ of the base measure.

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
        require_tensor(inducing)
        if inducing.ndim != 2:
            raise ValueError(
                f"inducing points must have shape (M, D), but have shape {tuple(inducing.shape)}"
            )
        self.inducing = nn.Parameter(inducing.detach().clone())
        self.features = _Features(inducing.shape[1], features, log_lengthscales)
        self.weight_logits = nn.Parameter(torch.zeros(len(log_lengthscales)))
        self.log_penalty = nn.Parameter(torch.tensor(-2.0))
        self.base_scale = base_scale
        self.register_buffer("alpha", torch.zeros(len(inducing)))
        self.to(inducing.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density with the $α$ of `finalize`, shape `(B, D) -> (B,)`.

        Raises:
            RuntimeError: If `finalize` has not been called.
        """
        if not self.alpha.any():
            raise RuntimeError(
                "the coefficients α of the model are not set: use `model.solve(x, v)` in "
                "training, and `model.finalize(equations)` after training"
            )
        return DKEFDensity(self.induced_kernels(), self.alpha)(x)

    def equations(self, x: Tensor, v: Tensor, equations: Equations = _SLICED) -> NormalEquations:
        """Return the normal equations for $α$ of a batch.

        Args:
            x: The data, shape `(B, D)`.
            v: The directions, shape `(B, D)`. Their length matters only for finite differences.
            equations: Forms the equations.

        Returns:
            The equations, differentiable in all parameters. Those of several batches can be added.
        """
        return equations(self.induced_kernels(), x, v)

    def solve(self, x: Tensor, v: Tensor, equations: Equations = _SLICED) -> "DKEFDensity":
        """Return the log-density with the optimal $α$ of a batch. Arguments as for `equations`."""
        kernels = self.induced_kernels()
        return DKEFDensity(kernels, equations(kernels, x, v).solution(self.penalty))

    def solve_from(self, equations: NormalEquations) -> "DKEFDensity":
        """Return the log-density with the $α$ that solves the equations.

        Args:
            equations: The equations of one batch, or the sum of several.

        Returns:
            The log-density, differentiable in the parameters and the penalty.
        """
        return DKEFDensity(self.induced_kernels(), equations.solution(self.penalty))

    def induced_kernels(self) -> "InducedKernels":
        """Return the kernels with the current features of the inducing points."""
        c = self.features(self.inducing)
        log_weights = self.weight_logits.log_softmax(0)[:, None] - _inner(c, c) / 2
        return InducedKernels(self.features, c, log_weights, self.base_scale)

    @torch.no_grad()
    def finalize(self, equations: NormalEquations) -> None:
        """Store the solution of the equations in the state of the model."""
        self.alpha.copy_(equations.solution(self.penalty))

    @property
    def penalty(self) -> Tensor:
        """The weight $λ = 10^l$ of the penalty on $α$."""
        return _power_of_ten(self.log_penalty)


@dataclass(frozen=True, eq=False)
class InducedKernels:
    """The kernels $k_j$ and the base measure of a `DKEF` as functions of `x`.

    The features of the inducing points are computed only once.

    Attributes:
        features: The networks.
        centers: Features of the inducing points, shape `(K, M, F)`.
        log_weights: The part of the logarithms of the kernels that does not depend on `x`, `(K,
            M)`.
        base_scale: Standard deviation of the base measure.
    """

    features: "_Features"
    centers: Tensor
    log_weights: Tensor
    base_scale: float

    def base(self, x: Tensor) -> Tensor:
        """Return the log-density of the base measure up to a constant, shape `(B,)`."""
        return -dot(x, x) / (2 * self.base_scale**2)

    def base_score(self, x: Tensor) -> Tensor:
        """Return the score of the base measure, shape `(B, D)`."""
        return -x / self.base_scale**2

    def kernels(self, x: Tensor) -> Tensor:
        """Return $k_j(x)$, the weighted sum of all kernels, shape `(B, M)`."""
        return self._each(self.features(x)).sum(0)

    def kernel_jet(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Return the kernels with slopes and curvatures along `v`, each of shape `(B, M)`.

        For $k = e^{-‖f - c‖²/2}$ they are $-ka$ and $k (a² - a')$, with $a = (f - c)^T f'$,
        features $f$ of the data and $c$ of the inducing points.
        """
        f, slope, curvature = self.features.jet(x, v)
        k = self._each(f)
        a, bent = self._bend(f, slope, curvature)
        return k.sum(0), -(k * a).sum(0), (k * bent).sum(0)

    def kernel_gradients_and_curvatures(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients, `(B, D, M)`, and curvatures along `v`, `(B, M)`, of the kernels."""
        (f, slope, curvature), (_, jacobian) = self.features.jet(x, v), self.features.jacobian(x)
        k = self._each(f)
        _, bent = self._bend(f, slope, curvature)
        return self._gradients(k, f, jacobian), (k * bent).sum(0)

    def kernel_gradients_and_laplacians(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return gradients, `(B, D, M)`, and Laplacians, `(B, M)`, of the kernels.

        With $a_i = (f - c)^T ∂_i f$ they are $-k a_i$ and $k (\sum_i (a_i² - ‖∂_i f‖²) -
        (f - c)^T Δf)$. They are computed one network at a time to fit into CPU caches.
        """
        f, jacobian, laplacian = self.features.laplacian(x)
        bend = jacobian.square().sum((2, 3)) + _inner(f, laplacian)
        straight = torch.baddbmm(-bend[:, :, None], laplacian, self.centers.mT)
        gradients, laplacians = [], []
        for k, rest, *parts in zip(
            self._each(f), straight, f, jacobian, self.centers, strict=True
        ):
            a = _toward(*parts)
            gradients.append(k[:, None] * a)
            laplacians.append(k * (a.square().sum(1) + rest))
        return _total(gradients), _total(laplacians)

    def _each(self, f: Tensor) -> Tensor:
        """Return the weighted kernels, shape `(K, B, F) -> (K, B, M)`.

        Their logarithm, $f^T c - ‖f‖²/2$ plus the weights, is one matrix product.
        """
        left = torch.cat([f, -_inner(f, f)[..., None] / 2], -1)
        right = functional.pad(self.centers, (0, 1), value=1.0)
        return torch.baddbmm(self.log_weights[:, None], left, right.mT).exp()

    def _bend(self, f: Tensor, slope: Tensor, curvature: Tensor) -> tuple[Tensor, Tensor]:
        """Return $a$ and $a² - a'$ of all kernels, shape `(K, B, M)`."""
        c = self.centers.mT
        a = torch.baddbmm(_inner(f, slope)[:, :, None], slope, c, alpha=-1)
        bend = _inner(slope, slope) + _inner(f, curvature)
        return a, torch.baddbmm(-bend[:, :, None], curvature, c).addcmul(a, a)

    def _gradients(self, k: Tensor, f: Tensor, jacobian: Tensor) -> Tensor:
        """Return the sum of $-k a_i$, computed one network at a time to fit into CPU caches."""
        parts = zip(k, f, jacobian, self.centers, strict=True)
        return _total([k[:, None] * _toward(f, rows, c) for k, f, rows, c in parts])


@dataclass(frozen=True, eq=False)
class DKEFDensity:
    """The log-density of a `DKEF` with given coefficients.

    Attributes:
        model: The kernels and the base measure.
        alpha: The coefficients, shape `(M,)`.
    """

    model: InducedKernels
    alpha: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return the log-density up to a constant, shape `(B, D) -> (B,)`."""
        return self.model.base(x) + self.model.kernels(x) @ self.alpha


class _Features(nn.Module):
    """`K` networks of three linear layers with softplus and a linear shortcut.

    The features have shape `(K, B, F)`, in units of a lengthscale $10^{l/2}$. The last layer has
    no bias, because only differences of features matter.
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
        h = functional.softplus(torch.baddbmm(self.second_bias, h, self.second))
        return self._unit * (h @ self.third + x @ self.shortcut)

    def jet(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features with their first two derivatives along `v`."""
        a, slope = x @ self.first + self.first_bias, v @ self.first
        h, slope, curvature = _softplus_jet(a, slope, torch.zeros_like(slope))
        a = torch.baddbmm(self.second_bias, h, self.second)
        h, slope, curvature = _softplus_jet(a, slope @ self.second, curvature @ self.second)
        unit, third, shortcut = self._unit, self.third, self.shortcut
        value, slope = h @ third + x @ shortcut, slope @ third + v @ shortcut
        return unit * value, unit * slope, unit * (curvature @ third)

    def jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features and their derivatives along each axis, `(K, B, D, F)`."""
        a = x @ self.first + self.first_bias
        jacobian = _rowwise(a.sigmoid()[:, :, None] * self.first[:, None], self.second)
        a = functional.softplus(a) @ self.second + self.second_bias
        jacobian = _rowwise(a.sigmoid()[:, :, None] * jacobian, self.third)
        value = functional.softplus(a) @ self.third + x @ self.shortcut
        return self._unit * value, self._unit[:, None] * (jacobian + self.shortcut[:, None])

    def laplacian(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the results of `jacobian` and the Laplacians of the features, `(K, B, F)`."""
        a = x @ self.first + self.first_bias
        gate = a.sigmoid()
        bent = gate * (1 - gate) * self.first.square().sum(1, keepdim=True)
        jacobian = _rowwise(gate[:, :, None] * self.first[:, None], self.second)
        laplacian = bent @ self.second
        a = functional.softplus(a) @ self.second + self.second_bias
        gate = a.sigmoid()
        bent = gate * ((1 - gate) * jacobian.square().sum(2) + laplacian)
        jacobian = _rowwise(gate[:, :, None] * jacobian, self.third)
        value = functional.softplus(a) @ self.third + x @ self.shortcut
        jacobian = self._unit[:, None] * (jacobian + self.shortcut[:, None])
        return self._unit * value, jacobian, self._unit * (bent @ self.third)

    @property
    def _unit(self) -> Tensor:
        return _power_of_ten(-self.log_lengthscales / 2)[:, None, None]


def _softplus_jet(a: Tensor, slope: Tensor, curvature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return softplus of `a` with its first two derivatives, from those of `a`."""
    gate = a.sigmoid()
    bent = gate * ((1 - gate) * slope.square() + curvature)
    return functional.softplus(a), gate * slope, bent


def _power_of_ten(exponent: Tensor) -> Tensor:
    return (exponent * math.log(10)).exp()


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _toward(f: Tensor, jacobian: Tensor, c: Tensor) -> Tensor:
    """Return $(c - f)^T ∂_i f$ of one network, `(B, F), (B, D, F), (M, F) -> (B, D, M)`."""
    rows, along = jacobian.flatten(0, 1), jacobian @ f[..., None]
    return torch.addmm(-along.flatten(0, 1), rows, c.mT).view(*jacobian.shape[:2], -1)


def _total(terms: list[Tensor]) -> Tensor:
    return reduce(torch.add, terms)


def _rowwise(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows times a matrix, `(K, B, D, F), (K, F, G) -> (K, B, D, G)`, as one product."""
    return (rows.flatten(1, 2) @ matrix).view(*rows.shape[:3], -1)
