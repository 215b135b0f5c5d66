r"""Log-likelihood of a density that is normalized or has an estimate of its normalizing constant.

The value depends on the space of the data: the log-densities of $T(x)$ and of $x$ differ by
$\log|\det ∇T(x)|$. Table 3 of the paper is in logit space, without this term.
"""

import math
import warnings

import torch
from torch import Tensor

from ..derivatives.checks.arguments import checked_density
from ..tensors import require_values
from ..typing import LogDensity
from .measurement import Measurement, mean_of


class UnnormalizedWarning(UserWarning):
    """A likelihood of a function whose integral is not known to be one."""


def nll(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    log_partition: float | Measurement | None = None,
    log_det: Tensor | None = None,
    chunk: int = 1000,
) -> Measurement:
    r"""Return the mean negative log-likelihood in nats.

    $$-E[\log \tilde p(T x) - \log Z + \log|\det ∇T(x)|]$$

    Args:
        log_density: The model, `(N, *E) -> (N,)`. It may be unnormalized if `log_partition` is
            given.
        x: Test data in the space of the model, $T(x)$, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        log_partition: $\log Z$. The error of an estimate is added in quadrature to the error of
            the mean. It is too small if the estimate misses a part of the density;
            `bidirectional_log_partition` notices this. Zero says that the density is normalized.
            Default: zero, with an `UnnormalizedWarning` unless the model has `log_prob`, as
            distributions and flows do.
        log_det: $\log|\det ∇T(x)|$ of each row, shape `(B,)`, for example
            `transform.log_det(stored)`. With it the result is in the space of the data, without
            it in the space of the model.
        chunk: Number of rows per call of the model, which limits the memory.

    Returns:
        The negative log-likelihood per example.

    Raises:
        ValueError: If `log_det` does not have the shape `(B,)`.

    Example:
        >>> standard_normal = lambda x: -x.square().sum(1) / 2
        >>> log_z = math.log(2 * math.pi) / 2
        >>> doubled = 2 * torch.tensor([[0.5], [-0.5]])
        >>> log_det = torch.full((2,), math.log(2.0))
        >>> print(nll(standard_normal, doubled, log_partition=log_z))
        1.419
        >>> print(nll(standard_normal, doubled, log_partition=log_z, log_det=log_det))
        0.7258
    """
    if log_partition is None:
        log_partition = 0.0
        if not hasattr(log_density, "log_prob"):
            warnings.warn(
                "the likelihood is that of a normalized density, but log_density is a function "
                "whose normalizing constant is not known. If its integral is one, pass "
                "log_partition=0.0. Otherwise estimate the constant, for example with "
                "importance_log_partition, and pass it as log_partition",
                UnnormalizedWarning,
                stacklevel=2,
            )
    values = log_densities(log_density, x, *cond, chunk=chunk)
    if log_det is not None:
        if log_det.shape != values.shape:
            raise ValueError(
                f"log_det must have one number for each of the {len(values)} rows, "
                f"but has shape {tuple(log_det.shape)}"
            )
        values = values + log_det.double()
    space = "model" if log_det is None else "data"
    mean = mean_of(-values, unit="nats", space=space)
    if not isinstance(log_partition, Measurement):
        log_partition = Measurement(float(log_partition))
    settings = {**mean.settings, "log_partition": log_partition.value}
    error = _combined(mean.error, log_partition.error)
    return Measurement(mean.value + log_partition.value, error, settings)


def bits_per_dim(likelihood: Measurement, dimension: int) -> Measurement:
    r"""Return a negative log-likelihood in bits per dimension, $\mathrm{NLL} / (d \log 2)$.

    For images it is comparable with published values if the likelihood is that of pixels from 0 to
    256 with uniform noise. The `log_det` of the scaling to $[0, 1]$ is then part of it.

    Args:
        likelihood: The result of `nll`.
        dimension: The dimension $d$ of the data, before any padding.

    Returns:
        The negative log-likelihood in bits per dimension.

    Raises:
        ValueError: If the dimension is not positive.

    Example:
        >>> print(bits_per_dim(Measurement(math.log(256) * 784), 784))
        8
    """
    if dimension < 1:
        raise ValueError(f"the dimension must be positive, but got {dimension}")
    unit = dimension * math.log(2)
    error = None if likelihood.error is None else likelihood.error / unit
    settings = {**likelihood.settings, "unit": "bits per dimension", "dimension": dimension}
    return Measurement(likelihood.value / unit, error, settings)


@torch.no_grad()
def log_densities(
    log_density: LogDensity,
    x: Tensor,
    *cond: Tensor,
    chunk: int = 1000,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the log-density of each row, without gradients.

    Args:
        log_density: The model, `(N, *E) -> (N,)`.
        x: The data, shape `(B, *E)`.
        cond: Further arguments of the model, one row per example.
        chunk: Number of rows per call of the model, which limits the memory.
        device: Device of the model, to which each chunk is moved. Default: the device of `x`.

    Returns:
        The log-densities, shape `(B,)`, in float64, on the device of `x`.

    Example:
        >>> log_densities(lambda x: -x.square().sum(1) / 2, torch.ones(3, 2), chunk=2)
        tensor([-1., -1., -1.], dtype=torch.float64)
    """
    require_values(x)
    density = checked_density(log_density)
    parts = zip(*(torch.split(rows, chunk) for rows in (x, *cond)), strict=True)
    densities = [density(*(rows.to(device or x.device) for rows in part)) for part in parts]
    return torch.cat([part.double().to(x.device) for part in densities])


def _combined(a: float | None, b: float | None) -> float | None:
    """Return the standard error of a sum of two independent terms."""
    return math.hypot(a or 0.0, b or 0.0) if a is not None or b is not None else None
