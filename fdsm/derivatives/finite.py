"""Derivatives from function values alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..tensors import dot, tile
from ..typing import LogDensity, Score
from .checks import check_arguments, checked_density, checked_score
from .precision import (
    full_precision,
    full_precision_backward,
    refuse_half,
    warn_of_round_off,
    widened,
)
from .randomness import (
    buffer_versions,
    modules_of,
    random_state,
    refuse_batch_statistics,
    refuse_changed_buffers,
    refuse_fresh_randomness,
    replay,
)
from .stencil import Node, central_nodes, require_order, stencil

Rows = tuple[tuple[float, ...], ...]
"""Weights of values: a row for every result, a column for every value."""


@cache
def _rounded_stencil(order: int, accuracy: int) -> tuple[tuple[float, ...], Rows]:
    nodes = central_nodes(order, accuracy)
    rows = stencil(nodes)[: order + 1]
    return tuple(map(float, nodes)), tuple(tuple(map(float, row)) for row in rows)


@cache
def _rounded_sliced_stencil(directions: int, accuracy: int) -> tuple[tuple[float, ...], Rows]:
    nodes, (_, first, second) = _rounded_stencil(2, accuracy)
    middle = len(nodes) // 2
    around = len(nodes) - 1
    slope, curvature = (row[:middle] + row[middle + 1 :] for row in (first, second))
    slopes = tuple(
        (0.0,) + (0.0,) * (around * i) + slope + (0.0,) * (around * (directions - 1 - i))
        for i in range(directions)
    )
    total = (directions * second[middle],) + curvature * directions
    return nodes[:middle] + nodes[middle + 1 :], (*slopes, total)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _central_stencil(order: int, accuracy: int) -> tuple[tuple[float, ...], Rows]:
    """Return nodes and a row of weights per order; a constant to the compiler."""
    return _rounded_stencil(order, accuracy)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _sliced_stencil(directions: int, accuracy: int) -> tuple[tuple[float, ...], Rows]:
    """Return nodes and weights for several directions; a constant to the compiler.

    The values are those at `x` and then, direction by direction, at the nodes, which do not
    contain zero. There is a row for the slope along each direction, and one for the sum of the
    curvatures.
    """
    return _rounded_sliced_stencil(directions, accuracy)


@dataclass(frozen=True)
class FiniteDifference:
    r"""Central finite differences along `v`, whose length is the step size.

    $$(v^T∇)^k f(x) ≈ \sum_j w_{kj} f(x + γ_j v)$$

    Differentiating the result with respect to the parameters of `f` is one ordinary backward
    pass, so this works wherever a plain forward and backward do. The error is $O(‖v‖^2)$ from
    truncation and about $u|f|$ from rounding: evaluations leave autocast and TF32, differences
    are formed in float64, half-precision data are refused, and a `PrecisionWarning` tells when
    a second difference is mostly rounding error.

    All nodes must see the same function. Random numbers are replayed at every node if
    `parallel=False`, and refused otherwise; batch norm in training mode is always refused.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Lemma 1, Theorem 1, Eq. 8.

    Attributes:
        parallel: Evaluate all nodes as one batch of `n · B` rows, rather than one by one (the
            rows with a star in the paper's Table 2).
        accuracy: The order of the truncation error, 2, 4, …; each step up takes two more nodes.
        chunk: The most rows to give to the model at once. Where gradients are wanted the chunks
            are recomputed in the backward pass, since they would all be kept otherwise.

    Example:
        >>> import torch
        >>> f = lambda x: x.pow(3).sum(1)
        >>> x, v = torch.tensor([[2.0, 1.0]]).double(), torch.tensor([[0.1, 0.0]]).double()
        >>> value, slope, curvature = FiniteDifference().jet(f, x, v, 2)
        >>> value.item(), round(slope.item() / 0.1, 3), round(curvature.item() / 0.01, 3)
        (9.0, 12.01, 12.0)
    """

    parallel: bool = True
    accuracy: int = 2
    chunk: int | None = None

    def __post_init__(self) -> None:
        central_nodes(1, self.accuracy)
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"chunk must be at least one row, but got {self.chunk}")

    def jet(
        self, f: LogDensity, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, from `order + accuracy - 1` values of `f`.

        For odd orders `x` itself is not among the nodes and the value is interpolated.
        """
        require_order(order)
        check_arguments(x, v, cond)
        nodes, rows = _central_stencil(order, self.accuracy)
        values = self._evaluate(checked_density(f), _displaced(x, v, nodes), cond)
        wide = widened(values)
        derivatives = wide.new_tensor(rows) @ wide
        if order >= 2:
            warn_of_round_off(wide, rows[2], values.dtype)
        return tuple(derivatives.to(values.dtype))

    def sliced(self, f: LogDensity, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the slopes along all `v` and the sum of the curvatures.

        The directions share $f(x)$: $1 + 2V$ values of `f` for second-order accuracy.
        """
        check_arguments(x, v, cond, several=True)
        nodes, rows = _sliced_stencil(len(v), self.accuracy)
        points = [x, *(point for u in v.unbind() for point in _displaced(x, u, nodes))]
        values = self._evaluate(checked_density(f), points, cond)
        wide = widened(values)
        sums = wide.new_tensor(rows) @ wide
        warn_of_round_off(wide, rows[-1], values.dtype)
        slopes, curvature = torch.split(sums.to(values.dtype), [len(v), 1])
        return slopes, curvature.squeeze(0)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, for second-order accuracy from the values $s(x ± v)$.

        The score itself is interpolated, as in FD-SSMVR.
        """
        check_arguments(x, v, cond)
        nodes, rows = _central_stencil(1, self.accuracy)
        values = self._evaluate(checked_score(s), _displaced(x, v, nodes), cond)
        wide = widened(values)
        score, slope = torch.tensordot(wide.new_tensor(rows), wide, dims=1)
        return score.to(values.dtype), dot(v, slope).to(values.dtype)

    def values(
        self, f: LogDensity, x: Tensor, v: Tensor, nodes: Sequence[Node], *cond: Tensor
    ) -> Tensor:
        r"""Return $f(x + γ_j v)$ for the given nodes, guarded as all evaluations are.

        Args:
            f: The log-density.
            x: The data, shape `(B, *E)`.
            v: The directions, shape `(B, *E)`.
            nodes: The positions $γ_j$ along `v`.
            cond: What the model is conditioned on, a row per example.

        Returns:
            The values, shape `(n, B)`, in float64 so that differences lose nothing more.
        """
        check_arguments(x, v, cond)
        points = _displaced(x, v, [float(node) for node in nodes])
        return widened(self._evaluate(checked_density(f), points, cond))

    def _evaluate(
        self, f: LogDensity | Score, points: list[Tensor], cond: Sequence[Tensor]
    ) -> Tensor:
        """Return the values at all points, each `(B, *E)`, stacked."""
        n, batch, device = len(points), len(points[0]), points[0].device
        several_calls = not self.parallel or (self.chunk or n * batch) < n * batch
        refuse_half(points[0], "the data")
        modules = list(modules_of(f))
        refuse_batch_statistics(modules)
        state = random_state(device)
        versions = buffer_versions(modules) if several_calls else []
        with full_precision(device) as changed:
            if self.parallel:
                values = self._call(f, torch.cat(points), [tile(c, n) for c in cond])
                refuse_fresh_randomness(state, device)
            else:
                results = []
                for point in points:
                    replay(state, device)
                    results.append(self._call(f, point, cond))
                values = torch.cat(results)
        if several_calls:
            refuse_changed_buffers(versions, modules)
        refuse_half(values, "the values of the model")
        if changed:
            full_precision_backward(values)
        return values.view(n, batch, *values.shape[1:])

    def _call(self, f: Callable[..., Tensor], rows: Tensor, cond: Sequence[Tensor]) -> Tensor:
        if self.chunk is None or len(rows) <= self.chunk:
            return f(rows, *cond)
        parts = zip(*(torch.split(t, self.chunk) for t in (rows, *cond)), strict=True)
        if not torch.is_grad_enabled():
            return torch.cat([f(*part) for part in parts])
        return torch.cat([checkpoint(f, *part, use_reentrant=False) for part in parts])


def _displaced(x: Tensor, v: Tensor, nodes: Sequence[float]) -> list[Tensor]:
    return [torch.add(x, v, alpha=node) if node else x for node in nodes]
