r"""Score matching of a linear combination of kernels, in closed form.

The log-density $\log q_0(x) + \sum_j α_j k_j(x)$ is linear in $α$, so its score-matching loss is
quadratic. With slopes $D_j$ of the kernels, slopes $q$ of $\log q_0$ and curvatures $c_j$, the
mean over examples of $α^T c + \tfrac12 \sum (D α + q)²$, plus a penalty $\tfrac λ2 ‖α‖²$, is
minimized by

$$α = -(G + λ I)^{-1} b, \qquad G = E[D^T D], \quad b = E[c + D^T q].$$

The slopes can be taken along one direction per example, exactly or with finite differences, or
along all axes. All losses are scaled to the sum over dimensions, $E[\mathrm{tr} ∇² \log p +
\tfrac12 ‖∇ \log p‖²]$, so $λ$ has the same meaning for all.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx

from ..derivatives import central_nodes, full_precision, stencil
from ..derivatives.checks.arguments import check_arguments
from ..derivatives.checks.precision import full_precision_backward, require_full_precision, widened
from ..tensors import dimension, dot

__all__ = [
    "DifferencedEquations",
    "Equations",
    "ExactEquations",
    "FullGradientEquations",
    "NormalEquations",
    "SlicedEquations",
]


@dataclass(frozen=True)
class NormalEquations:
    """The quadratic loss of a batch. The sum of several batches is the loss of all their examples.

    Attributes:
        gram: The sum over examples of $D^T D$, shape `(M, M)`.
        moment: The sum over examples of $c + D^T q$, shape `(M,)`.
        count: Number of examples.
    """

    gram: Tensor
    moment: Tensor
    count: int

    def __add__(self, other: "NormalEquations") -> "NormalEquations":
        return NormalEquations(
            self.gram + other.gram, self.moment + other.moment, self.count + other.count
        )

    def solution(self, penalty: Tensor) -> Tensor:
        """Return $α = -(G + λI)^{-1} b$, shape `(M,)`, solved in float64."""
        gram, moment = widened(self.gram) / self.count, widened(self.moment) / self.count
        ridge = penalty * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        result: Tensor = -torch.linalg.solve(gram + ridge, moment)
        return result.to(self.gram.dtype)


class Kernels(Protocol):
    """Kernels and base measure of a model such as `DKEF`, for data of shape `(B, D)`."""

    def kernels(self, x: Tensor) -> Tensor:
        """Return the kernels, shape `(B, M)`."""
        ...

    def kernel_jet(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the kernels with slopes and curvatures along `v`, each of shape `(B, M)`."""
        ...

    def kernel_gradients_and_curvatures(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients and the curvatures along `v`, shapes `(B, D, M)` and `(B, M)`."""
        ...

    def kernel_gradients_and_laplacians(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients and the Laplacians, shapes `(B, D, M)` and `(B, M)`."""
        ...

    def base_score(self, x: Tensor) -> Tensor:
        """Return the score of the base measure, shape `(B, D)`."""
        ...


class Equations(Protocol):
    """A function that forms the normal equations. Directions `v` have the shape of `x`."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch, differentiable in the parameters of the model."""
        ...


@dataclass(frozen=True)
class SlicedEquations:
    """Exact slopes and curvatures along `v`, for the minimizer of SSM."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch."""
        check_arguments(x, v, ())
        _, slopes, curvatures = model.kernel_jet(x, v)
        return _sliced(slopes, curvatures, model.base_score(x), v)


@dataclass(frozen=True)
class DifferencedEquations:
    r"""Finite differences of the kernels along `v`, for the minimizer of FD-SSM.

    With $k_±$ the kernels at $x ± v$, the slopes are $(k_+ - k_-)/2$ and the curvatures
    $k_+ + k_- - 2 k_0$. The length of `v` is the step. The published code computes them exactly,
    even if the loss uses finite differences. The slope of the base measure is exact in both cases,
    because its log-density is quadratic.

    Attributes:
        accuracy: The order of the truncation error, 2, 4, …
    """

    accuracy: int = 2

    def __post_init__(self) -> None:
        central_nodes(2, self.accuracy)

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch, from one call of the kernels for all nodes."""
        check_arguments(x, v, ())
        require_full_precision(x, "the data")
        nodes, rows = _differences(self.accuracy)
        with full_precision(x.device) as changed:
            values = model.kernels(torch.cat([torch.add(x, v, alpha=node) for node in nodes]))
        if changed:
            full_precision_backward(values)
        values = widened(values.view(len(nodes), len(x), -1))
        slopes, curvatures = torch.tensordot(values.new_tensor(rows), values, dims=1).to(x.dtype)
        return _sliced(slopes, curvatures, model.base_score(x), v)


@dataclass(frozen=True)
class FullGradientEquations:
    """Exact gradients, and curvatures along `v`, for the minimizer of SSMVR."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch."""
        check_arguments(x, v, ())
        gradients, curvatures = model.kernel_gradients_and_curvatures(x, v)
        return _full(gradients, _scale(v) * curvatures, model.base_score(x))


@dataclass(frozen=True)
class ExactEquations:
    """Exact gradients and Laplacians, for the minimizer of SM. `v` is not used."""

    def __call__(self, model: Kernels, x: Tensor, v: Tensor) -> NormalEquations:
        """Return the equations of a batch."""
        check_arguments(x, v, ())
        gradients, laplacians = model.kernel_gradients_and_laplacians(x)
        return _full(gradients, laplacians, model.base_score(x))


@cache
def _differences(accuracy: int) -> tuple[list[float], list[list[float]]]:
    """Return nodes, and the weights of the first and of the second difference."""
    nodes = central_nodes(2, accuracy)
    rows = stencil(nodes)[1:3]
    return [float(node) for node in nodes], [[float(weight) for weight in row] for row in rows]


def _sliced(slopes: Tensor, curvatures: Tensor, base_score: Tensor, v: Tensor) -> NormalEquations:
    moment = curvatures.sum(0) + dot(base_score, v) @ slopes
    return NormalEquations(_scale(v) * _gram(slopes), _scale(v) * moment, len(v))


def _full(gradients: Tensor, curvatures: Tensor, base_score: Tensor) -> NormalEquations:
    slopes = gradients.flatten(0, 1)
    moment = curvatures.sum(0) + base_score.flatten() @ slopes
    return NormalEquations(_gram(slopes), moment, len(gradients))


def _gram(slopes: Tensor) -> Tensor:
    result: Tensor = _Gram.apply(slopes)  # type: ignore[no-untyped-call]
    return result


class _Gram(torch.autograd.Function):
    """$D^T D$ with a gradient that needs one matrix product instead of two."""

    @staticmethod
    def forward(ctx: FunctionCtx, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(slopes)
        return slopes.T @ slopes

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> Tensor:
        (slopes,) = ctx.saved_tensors
        result: Tensor = slopes @ (gradient + gradient.T)
        return result


def _scale(v: Tensor) -> Tensor:
    """Return $d / C_v$, which scales a sliced loss to the sum over dimensions."""
    return dimension(v) / v.square().sum(1).mean()
