r"""An exponential family for which the minimizers of SSM and FD-SSM are known in closed form.

The model is $\log p_θ(x) = θ^T T(x)$ with $T = (-\sum x_i²/2, -\sum x_i⁴/4)$. Each coordinate of
the data is a mixture of two Gaussians. SSM and FD-SSM are both quadratic in $θ$,

$$J_ε(θ) = \tfrac12 θ^T A_ε θ + b_ε^T θ, \qquad
  A_ε = \frac1{ε²} E[D D^T], \quad b_ε = \frac1{ε²} E[T(x+v) + T(x-v) - 2T(x)], \quad
  D = \tfrac12 (T(x+v) - T(x-v))$$

and polynomial in $x$ and $v$, so that $A_ε$ and $b_ε$ follow from moments. The minimizer of SSM is
$-A_0^{-1} b_0$. That of FD-SSM with a constant step differs from it by a bias of order $ε²$.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from fdsm.typing import DensityFunction


@dataclass(frozen=True)
class DoubleWell:
    r"""Independent coordinates, each $\tfrac12 N(-m, s²) + \tfrac12 N(m, s²)$.

    Attributes:
        center: Distance of the two means from zero, $m$.
        width: Standard deviation, $s$.
        dimension: Number of coordinates.

    Example:
        >>> DoubleWell(center=0.0, width=2.0).moments()
        (4.0, 48.0, 960.0)
    """

    center: float = 1.0
    width: float = 0.5
    dimension: int = 2

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Return `n` independent samples in float64, shape `(n, D)`."""
        shape = (n, self.dimension)
        signs = 2 * torch.randint(2, shape, dtype=torch.float64, generator=generator) - 1
        noise = torch.randn(shape, dtype=torch.float64, generator=generator)
        return self.center * signs + self.width * noise

    def moments(self) -> tuple[float, float, float]:
        """Return $E[x_i²]$, $E[x_i⁴]$ and $E[x_i⁶]$."""
        m, s = self.center**2, self.width**2
        return (
            m + s,
            m**2 + 6 * m * s + 3 * s**2,
            m**3 + 15 * m**2 * s + 45 * m * s**2 + 15 * s**3,
        )


def statistics(x: Tensor) -> Tensor:
    r"""Return $(-\sum x_i²/2, -\sum x_i⁴/4)$, shape `(B, D) -> (B, 2)`."""
    return torch.stack([-x.square().sum(1) / 2, -x.pow(4).sum(1) / 4], 1)


def quadratic(data: DoubleWell, step: float) -> tuple[Tensor, Tensor]:
    r"""Return $A_ε$ and $b_ε$ of the mean of FD-SSM, for directions on the sphere of radius $ε$.

    Args:
        data: The distribution of `x`.
        step: The radius $ε$, or zero for SSM.

    Returns:
        $A_ε$ and $b_ε$, shapes `(2, 2)` and `(2,)`, in float64.

    Example:
        >>> A, b = quadratic(DoubleWell(center=0.0, width=1.0), 0.0)
        >>> A @ A.new_tensor([1.0, 0.0]) + b  # the gradient vanishes at the true parameters
        tensor([0., 0.], dtype=torch.float64)
    """
    d, (x2, x4, x6) = data.dimension, data.moments()
    # d E[v_i²] / ε², d E[v_i⁴] / ε² and d E[v_i⁶] / ε²
    v2, v4, v6 = 1.0, 3 * step**2 / (d + 2), 15 * step**4 / ((d + 2) * (d + 4))
    cross = x4 * v2 + x2 * v4
    A = [[x2 * v2, cross], [cross, x6 * v2 + 2 * x4 * v4 + x2 * v6]]
    b = [-v2, -3 * x2 * v2 - v4 / 2]
    return torch.tensor(A, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)


@dataclass(frozen=True)
class DoubleWellFamily:
    r"""The model in coordinates $φ = L^T θ$, $A_0 = L L^T$, where the Hessian of SSM is $I$.

    In these coordinates $‖φ - φ^*‖²$ is twice the excess of the SSM loss over its minimum.

    Attributes:
        data: The distribution of the data.
    """

    data: DoubleWell

    def log_density(self) -> DensityFunction:
        """Return the log-density of each row under its own parameters, `(B, D), (B, 2) -> (B,)`.

        The gradient of a sum of losses then contains the gradient of each example.
        """
        whitened = torch.linalg.inv(self._factor()).T
        return lambda x, phi: (phi * (statistics(x) @ whitened)).sum(1)

    def optimum(self, step: float = 0.0) -> Tensor:
        """Return the minimizer of FD-SSM, or of SSM for a step of zero, shape `(2,)`."""
        A, b = quadratic(self.data, step)
        phi: Tensor = self._factor().T @ torch.linalg.solve(A, -b)
        return phi

    def gradient(self, phi: Tensor, step: float = 0.0) -> Tensor:
        """Return the mean gradient of FD-SSM, or of SSM for a step of zero, `(2,) -> (2,)`."""
        A, b = quadratic(self.data, step)
        inverse: Tensor = torch.linalg.inv(self._factor())
        return inverse @ (A @ (inverse.T @ phi) + b)

    def _factor(self) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(quadratic(self.data, 0.0)[0])
        return factor


def quadrature(
    data: DoubleWell, step: float, nodes: int, angles: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a quadrature rule for means over data and directions in the plane.

    Args:
        data: The distribution of the data, in two dimensions.
        step: The length of the directions.
        nodes: Number of Gauss-Hermite nodes of each Gaussian.
        angles: Number of directions.

    Returns:
        `x` and `v`, shape `(N, 2)`, and weights with sum one, shape `(N,)`.
    """
    z, w = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(nodes))
    points = torch.cat([data.width * z - data.center, data.width * z + data.center])
    shares = torch.cat([w, w]) / (2 * w.sum())
    angle = 2 * math.pi * torch.arange(angles, dtype=torch.float64) / angles
    first, second, theta = torch.meshgrid(points, points, angle, indexing="ij")
    first_weight, second_weight, _ = torch.meshgrid(shares, shares, angle, indexing="ij")
    x = torch.stack([first.flatten(), second.flatten()], 1)
    v = step * torch.stack([theta.cos().flatten(), theta.sin().flatten()], 1)
    return x, v, (first_weight * second_weight).flatten() / angles
