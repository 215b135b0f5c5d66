"""Transforms that learn from the values of the training rows."""

import math
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Generator, Tensor

from .transform import real, restored

DEPENDENT = 1e-6
"""Below this share of the largest, a singular value of standardised columns is rounding error."""


@dataclass(frozen=True)
class Standardize:
    """Every element with mean 0 and variance 1 over the training rows.

    Attributes:
        mean: The means, shape `E`; learnt.
        scale: The standard deviations (with `1/n`), shape `E`; learnt.

    Example:
        >>> Standardize().fit(torch.tensor([[1.0], [3.0]])).deterministic(torch.tensor([[1.0], [4.0]]))
        tensor([[-1.],
                [ 2.]])
    """

    mean: Tensor | None = field(default=None, repr=False, compare=False)
    scale: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return this transform with means and standard deviations of `x`."""
        scale, mean = torch.std_mean(_finite(x), 0, correction=0)
        if not (scale > 0).all():
            constant = (scale.flatten() == 0).nonzero().flatten().tolist()
            raise ValueError(
                f"elements {constant[:5]} are the same in all {len(x)} rows and cannot be "
                "standardised: leave them out"
            )
        return replace(self, mean=mean, scale=scale)

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the standardised rows; nothing is random."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the standardised rows."""
        mean, scale = _known("Standardize", x, self.mean, self.scale)
        return ((x.double() - mean) / scale).to(real(x).dtype)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the rows in their own units."""
        mean, scale = _known("Standardize", y, self.mean, self.scale)
        return (y.double() * scale + mean).to(y.dtype)

    def log_det(self, x: Tensor) -> Tensor:
        """Return minus the sum of the logarithms of the scales, shape `(N,)`."""
        (scale,) = _known("Standardize", x, self.scale)
        return real(x).new_full((len(x),), -float(scale.log().sum()))

    def state(self) -> dict[str, Tensor]:
        """Return means and scales."""
        return _state(mean=self.mean, scale=self.scale)

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return this transform with what was learnt before."""
        mean, scale = restored("Standardize", state, "mean", "scale")
        return replace(self, mean=mean, scale=scale)


@dataclass(frozen=True)
class Whiten:
    r"""Principal components with variance 1: $z = (x - m) V / s · \sqrt n$.

    $U \, \mathrm{diag}(s) \, V^T$ is the singular value decomposition of the `n` centred rows.
    There is no regulariser, so that the covariance is exactly the identity; columns that
    depend on each other linearly are refused. Computed in float64 whatever the rows are, since
    the columns of a table may differ by many orders of magnitude.

    Attributes:
        mean: The mean $m$, shape `(D,)`; learnt.
        axes: The principal axes $V$, shape `(D, D)`; learnt.
        scales: The standard deviations along them, $s / \sqrt n$, shape `(D,)`; learnt.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0], [4.0, 4.0]])
        >>> z = Whiten().fit(x).deterministic(x)
        >>> torch.allclose(z.T @ z / 4, torch.eye(2), atol=1e-5)
        True
    """

    mean: Tensor | None = field(default=None, repr=False, compare=False)
    axes: Tensor | None = field(default=None, repr=False, compare=False)
    scales: Tensor | None = field(default=None, repr=False, compare=False)

    def fit(self, x: Tensor) -> Self:
        """Return this transform with the principal components of `x`."""
        if x.ndim != 2:
            raise ValueError(
                f"Whiten takes rows of shape (N, D) but got {tuple(x.shape)}: "
                "put Flatten() before it"
            )
        _require_independent(x)
        mean = _finite(x).mean(0)
        _, s, v = torch.linalg.svd(x.double() - mean, full_matrices=False)
        return replace(self, mean=mean, axes=v.T.contiguous(), scales=s / math.sqrt(len(x)))

    def sample(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the whitened rows; nothing is random."""
        return self.deterministic(x)

    def deterministic(self, x: Tensor) -> Tensor:
        """Return the whitened rows."""
        mean, axes, scales = _known("Whiten", x, self.mean, self.axes, self.scales)
        return ((x.double() - mean) @ axes / scales).to(real(x).dtype)

    def inverse(self, y: Tensor) -> Tensor:
        """Return the rows in their own units."""
        mean, axes, scales = _known("Whiten", y, self.mean, self.axes, self.scales)
        return ((y.double() * scales) @ axes.T + mean).to(y.dtype)

    def log_det(self, x: Tensor) -> Tensor:
        """Return minus the sum of the logarithms of the scales, shape `(N,)`."""
        (scales,) = _known("Whiten", x, self.scales)
        return real(x).new_full((len(x),), -float(scales.log().sum()))

    def state(self) -> dict[str, Tensor]:
        """Return mean, axes and scales."""
        return _state(mean=self.mean, axes=self.axes, scales=self.scales)

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Return this transform with what was learnt before."""
        mean, axes, scales = restored("Whiten", state, "mean", "axes", "scales")
        return replace(self, mean=mean, axes=axes, scales=scales)


def _require_independent(x: Tensor) -> None:
    standard = Standardize().fit(x).deterministic(x.double())
    s = torch.linalg.svdvals(standard)
    rank = int((s > DEPENDENT * s.max()).sum())
    if rank < x.shape[1]:
        raise ValueError(
            f"{len(x)} rows of {x.shape[1]} columns span only {rank} dimensions and cannot be "
            "whitened: leave out columns that follow from others, or use Standardize()"
        )


def _finite(x: Tensor) -> Tensor:
    if not x.isfinite().all():
        raise ValueError("there are NaN or infinite values in the rows to learn from")
    return x.double()


def _known(name: str, x: Tensor, *learnt: Tensor | None) -> list[Tensor]:
    if any(value is None for value in learnt):
        raise ValueError(f"{name} has learnt nothing yet: call fit(rows) or restore(state)")
    return [value.to(x.device) for value in learnt if value is not None]


def _state(**learnt: Tensor | None) -> dict[str, Tensor]:
    return {name: value for name, value in learnt.items() if value is not None}
