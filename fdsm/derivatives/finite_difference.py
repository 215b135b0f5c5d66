"""Derivatives from function values alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..tensors import dot, tile
from ..typing import Function, LogDensity, Score
from .checks.arguments import as_log_density
from .checks.difference_error import difference_error, warn_of_error
from .checks.guard import BareModel, CheckedModel, checked
from .checks.observation import Observed
from .checks.precision import widened
from .checks.state import Record, is_tracing
from .stencil import Node, central_nodes, require_order, stencil

Coefficients = tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]
"""Nodes, and weights of the values there: a row per result, a column per value."""

INSPECTED_ROWS = 256
"""Maximum number of rows on which the error of a difference is measured."""

MOST_DIRECTIONS = 8
"""Maximum number of directions whose weights are kept as a tensor."""


@cache
def _central_stencil(order: int, accuracy: int) -> Coefficients:
    """Return the nodes, and a row of weights per order from zero on."""
    nodes = central_nodes(order, accuracy)
    rows = stencil(nodes)[: order + 1]
    return tuple(map(float, nodes)), tuple(tuple(map(float, row)) for row in rows)


@lru_cache(maxsize=128)
def _sliced_stencil(directions: int, accuracy: int) -> Coefficients:
    """Return the nodes, zero first, and weights for several directions that share $f(x)$.

    The values are $f(x)$ and then, node by node, those along all directions. There is a row of
    weights for the slope along each direction, and one for the sum of the curvatures.
    """
    nodes, (_, first, second) = _central_stencil(2, accuracy)
    middle, which = len(nodes) // 2, range(directions)
    slope, curvature = (row[:middle] + row[middle + 1 :] for row in (first, second))
    slopes = tuple((0.0, *(w * (i == k) for w in slope for k in which)) for i in which)
    total = (directions * second[middle], *(w for w in curvature for _ in which))
    return (0.0, *nodes[:middle], *nodes[middle + 1 :]), (*slopes, total)


def _coefficients(accuracy: int, order: int, directions: int) -> Coefficients:
    """Return nodes and weights, of a jet if `directions` is zero, as constants to the compiler."""
    if directions:
        return _sliced_stencil(directions, accuracy)
    return _central_stencil(order, accuracy)


# As `torch.compiler.assume_constant_result`, which imports the compiler. That takes a second.
_coefficients._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _stencil(
    v: Tensor, accuracy: int, order: int = 2, directions: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the nodes, to be multiplied by `v`, and the weights, in float64."""
    if is_tracing() or type(v) is not Tensor or directions > MOST_DIRECTIONS:
        return _as_tensors(_coefficients(accuracy, order, directions), v)
    return _kept_stencil(accuracy, order, directions, v.ndim, v.dtype, v.device)


@lru_cache(maxsize=128)
def _kept_stencil(
    accuracy: int,
    order: int,
    directions: int,
    ndim: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):
        like = torch.empty([1] * ndim, dtype=dtype, device=device)
        return _as_tensors(_coefficients(accuracy, order, directions), like)


def _as_tensors(coefficients: Coefficients, like: Tensor) -> tuple[Tensor, Tensor]:
    nodes, weights = coefficients
    wide = like.dtype if like.is_mps else torch.float64
    return _column(nodes, like), like.new_tensor(weights, dtype=wide)


def _column(nodes: Sequence[float], like: Tensor) -> Tensor:
    """Return the nodes along a new first dimension of a tensor."""
    return like.new_tensor(nodes).view(-1, *[1] * like.ndim)


@dataclass(frozen=True)
class FiniteDifference:
    r"""Central finite differences along `v`, whose length is the step size.

    $$(v^T∇)^k f(x) ≈ \sum_j w_{kj} f(x + γ_j v)$$

    Differentiating the result with respect to the parameters of `f` is one ordinary backward
    pass, so this works wherever a plain forward and backward pass do. The error is $O(‖v‖^2)$ from
    truncation and about $u|f|$ from rounding. Evaluations leave autocast and TF32, differences
    are formed in float64, and half-precision data are refused. On the 1st, 2nd, 4th, 8th, …
    evaluation of a model both errors are measured, from a few more values without gradients; a
    `PrecisionWarning` reports errors that dominate the result.

    All points must see the same function. With `parallel=False` the same random numbers are
    replayed at every point, otherwise random numbers are refused. Batch norm in training mode is
    always refused. With `checks=False` nothing is measured, refused or replayed.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Lemma 1, Theorem 1, Eq. 8.

    Attributes:
        parallel: Evaluate all points as one batch of `n · B` rows, rather than one by one (the
            rows with a star in the paper's Table 2).
        accuracy: The order of the truncation error, 2, 4, …. Each increase takes two more points.
        chunk: Maximum number of rows per call of the model. Where gradients are needed, chunks
            are recomputed in the backward pass to save memory.
        checks: Whether to check arguments and model, and to leave autocast. It does not change the
            numbers and is not recorded with the settings of a run.

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
    checks: bool = field(default=True, repr=False, kw_only=True)

    is_exact: ClassVar[bool] = False
    nests_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        central_nodes(1, self.accuracy)
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"chunk must be at least one row, but got {self.chunk}")

    def jet(
        self, f: Function, x: Tensor, v: Tensor, order: int, *cond: Tensor
    ) -> tuple[Tensor, ...]:
        """Return $(v^T∇)^k f(x)$ for `k = 0, …, order`, from `order + accuracy - 1` values of `f`.

        For odd orders `x` itself is not among the points and the value is interpolated.
        """
        require_order(order)
        model = self._checked(f, x, v, cond, order)
        nodes, weights = _stencil(v, self.accuracy, order)
        values = self._evaluate(model, _points(x, v, nodes), weights.shape[1], cond)
        return _weighted_sums(weights, values).unbind()

    def sliced(self, f: Function, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes along all `v` and the sum of the curvatures.

        The directions share $f(x)$: $1 + 2V$ values of `f` for second-order accuracy.
        """
        model = self._checked(f, x, v, cond, 2, several=True)
        n, rows = v.shape[:2]
        nodes, weights = _stencil(v, self.accuracy, directions=n)
        points = _points(x, v, nodes)
        if n > 1:
            points = points[(n - 1) * rows :]  # x itself once
        values = self._evaluate(model, points, weights.shape[1], cond)
        slopes, curvature = _weighted_sums(weights, values).split_with_sizes([n, 1])
        return slopes, curvature.squeeze(0)

    def quadratic(self, s: Score, x: Tensor, v: Tensor, *cond: Tensor) -> tuple[Tensor, Tensor]:
        """Return $s(x)$ and $v^T ∇s(x) v$, for second-order accuracy from the values $s(x ± v)$.

        The score itself is interpolated, as in FD-SSMVR.
        """
        model = self._checked(s, x, v, cond, 1, score=True)
        nodes, weights = _stencil(v, self.accuracy, 1)
        values = self._evaluate(model, _points(x, v, nodes), weights.shape[1], cond)
        score, slope = _weighted_sums(weights, values)
        return score, dot(v, slope)

    def values(
        self, f: LogDensity, x: Tensor, v: Tensor, nodes: Sequence[Node], *cond: Tensor
    ) -> Tensor:
        r"""Return $f(x + γ_j v)$ for the given nodes, guarded as all evaluations are.

        Args:
            f: The log-density.
            x: The data, shape `(B, *E)`.
            v: The directions, shape `(B, *E)`.
            nodes: The positions $γ_j$ along `v`.
            cond: Conditions of the model, one row per example.

        Returns:
            The values, shape `(n, B)`, in float64.
        """
        model = self._checked(f, x, v, cond)
        points = _points(x, v, _column([float(node) for node in nodes], v))
        return widened(self._evaluate(model, points, len(nodes), cond))

    def _checked(
        self,
        f: Function | Score,
        x: Tensor,
        v: Tensor,
        cond: Sequence[Tensor],
        order: int | None = None,
        *,
        several: bool = False,
        score: bool = False,
    ) -> BareModel:
        """Return the model, inspected and guarded; its errors are measured if `order` is given."""
        if not self.checks:
            return BareModel(as_log_density(f))
        measure = None
        if order is not None:
            measure = partial(self._inspect, x, v, order, cond, score=score)
        return checked(self, f, x, v, cond, several=several, score=score, inspect=measure)

    def _evaluate(
        self, model: BareModel, points: Tensor, n: int, cond: Sequence[Tensor]
    ) -> Tensor:
        """Return the values at `n` batches of points: from one call, or one per batch."""
        rows = points.shape[0] // n
        with model:
            if self.parallel:
                values = self._call(model, points, [tile(c, n) for c in cond])
            else:
                parts = model.replayed(torch.split(points, rows))
                values = torch.cat([self._call(model, part, cond) for part in parts])
        return values.view(n, rows, *values.shape[1:])

    def _call(self, f: Callable[..., Tensor], rows: Tensor, cond: Sequence[Tensor]) -> Tensor:
        if self.chunk is None or len(rows) <= self.chunk:
            return f(rows, *cond)
        parts = zip(*(torch.split(t, self.chunk) for t in (rows, *cond)), strict=True)
        if not torch.is_grad_enabled():
            return torch.cat([f(*part) for part in parts])
        return torch.cat([checkpoint(f, *part, use_reentrant=False) for part in parts])

    def _inspect(
        self,
        x: Tensor,
        v: Tensor,
        order: int,
        cond: Sequence[Tensor],
        model: Observed,
        record: Record,
        *,
        score: bool = False,
    ) -> None:
        """Measure the errors of a difference and warn if they dominate.

        It is a difference of $f$, of $v^T s$, or of a sum of several outputs with weights.
        """
        if self.parallel and model.is_random:  # refused when it is evaluated
            return
        v = v if v.ndim == x.ndim else v[0]
        every = -(-len(x) // min(self.chunk or INSPECTED_ROWS, INSPECTED_ROWS))
        x, v, *cond = (rows.detach()[::every] for rows in (x, v, *cond))

        def values(nodes: Sequence[Fraction]) -> Tensor:
            points = _points(x, v, _column([float(node) for node in nodes], v))
            guarded = CheckedModel(model, x, record, type(self).__name__)
            y = widened(self._evaluate(guarded, points, len(nodes), cond))
            if score:
                return torch.stack([dot(v, s) for s in y])
            return y if y.ndim == 2 else _weighted_outputs(y.flatten(2))

        error = difference_error(values, x, v, order, self.accuracy)
        warn_of_error(error, order, record.warned)


def _weighted_outputs(y: Tensor) -> Tensor:
    """Return sums of outputs, `(n, B, O) -> (n, B)`, with weights of which no two are equal."""
    return y @ torch.linspace(0.5, 1.5, y.shape[2], dtype=y.dtype, device=y.device)


def _points(x: Tensor, v: Tensor, nodes: Tensor) -> Tensor:
    """Return $x + γ_j v$ for all nodes and directions, as one batch."""
    return torch.addcmul(x, nodes, v).flatten(0, v.ndim - x.ndim + 1)


def _weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    r"""Return $\sum_j w_{kj} f_j$ for all $k$, computed in float64, in the type of the values."""
    wide = widened(values)
    sums: Tensor = weights @ wide if wide.ndim == 2 else torch.tensordot(weights, wide, dims=1)
    return sums.type_as(values)
