r"""Partial derivatives, pure and mixed, from derivatives along a few directions.

A derivative of order $k$ along a direction $d$ is a sum of partial derivatives,

$$(d^T∇)^k f = \sum_{|β| = k} \frac{k!}{β!} d^β ∂^β f.$$

With enough directions these equations can be solved for the mixed ones. For example
$∂_x∂_y = \tfrac14 [(∂_x + ∂_y)^2 - (∂_x - ∂_y)^2]$ (polarization).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement, product

import numpy as np
import torch
from torch import Tensor

from ..derivatives import MissingRule
from ..derivatives.checks.arguments import one_point_hint
from ..derivatives.exact import EXACT
from ..tensors import dimension, tile
from ..typing import Condition, Derivative, Function, nests_gradients
from .arguments import STEP, prepare
from .coordinates import along_directions

Direction = tuple[int, ...]
"""Small integers, one for each coordinate that takes part."""

Powers = tuple[int, ...]
"""A multi-index: how often to differentiate by each coordinate that takes part."""


def partials(
    f: Function,
    x: Tensor,
    wanted: Iterable[str | tuple[int, ...]],
    *cond: Condition,
    names: str | None = None,
    derivative: Derivative = EXACT,
    step: float = STEP,
) -> dict[str | tuple[int, ...], Tensor]:
    r"""Return several partial derivatives of all outputs of `f` at each row of `x`.

    Derivatives of all orders along one direction come from one series. Pure derivatives take the
    directions of the coordinates. Mixed ones take sums and differences of them, as few as a search
    finds: $∂_x∂_y$ takes two, or one more beside $∂_x²$ and $∂_y²$. `Taylor` propagates all
    series in one call of `f`, with one value for all of them: for $u_t$, $u_x$, $u_{xx}$ and
    $u_{xxx}$ every tensor in the model has five coefficients.

    Reference:
        Griewank, Utke and Walther (2000), Evaluating higher derivative tensors by forward
        propagation of univariate Taylor series.
        Kan (2008), From moments of sum to moments of product, for the directions of one monomial.

    Args:
        f: A function `(B, *E), *cond -> (B, *O)`.
        x: The points, shape `(B, *E)`.
        wanted: The derivatives, each as a string of names, such as `"xxt"` for
            $∂³f / ∂x²∂t$, or as a tuple of numbers of coordinates, such as `(0, 0, 1)`. The empty
            string or tuple is the value.
        cond: Further arguments of `f`: tensors with one row per example, or numbers.
        names: One letter for each coordinate of `x`, in their order, such as `"xyt"`.
        derivative: The engine; see `jvp`.
        step: The step of finite differences.

    Returns:
        The derivatives by their name or tuple, each of shape `(B, *O)`.

    Raises:
        TypeError: If a derivative is neither a string nor a tuple of integers.
        ValueError: If a name or a number does not belong to a coordinate.

    Example:
        >>> wave = lambda z: (z[:, 0] - 2 * z[:, 1]).sin()
        >>> z = torch.tensor([[1.0, 0.25]])
        >>> u = partials(wave, z, ["", "t", "xx", "xt"], names="xt")
        >>> {name: round(value.item(), 3) for name, value in u.items()}
        {'': 0.479, 't': -1.755, 'xx': -0.479, 'xt': 0.959}
    """
    f, rows = prepare(f, x, cond, derivative, step)
    counts = {key: Counter(_coordinates(key, names, x)) for key in wanted}
    if not counts:
        return {}
    used = sorted(set().union(*counts.values())) or [0]
    powers = {key: tuple(count[i] for i in used) for key, count in counts.items()}
    plan = directions_for(frozenset(powers.values()))
    orders = list(plan.values())
    v = x.new_zeros(len(plan), dimension(x))
    v[:, used] = step * x.new_tensor(list(plan))
    v = v.view(-1, *x.shape[1:])

    def along(v: Tensor, x: Tensor, *rows: Tensor) -> Tensor:
        """Return the value and all derivatives along all directions, stacked."""
        jets = _jets(derivative, f, x, v, orders, rows)
        value, *_ = next((jet for jet in jets if len(jet) % 2), jets[0])  # not interpolated
        return torch.stack([value, *(term for _, *terms in jets for term in terms)])

    parts = along_directions(
        along, f, x, *rows,
        numbers=torch.arange(len(plan), device=x.device), v=v.__getitem__,
        coefficients=max(orders), chunk=len(plan), nested=nests_gradients(derivative),
    )  # fmt: skip
    value, *stacked = torch.cat([part for (part,) in parts], 1)
    numbered = [(d, k) for d, order in plan.items() for k in range(1, order + 1)]
    terms = {(d, k): y / step**k for (d, k), y in zip(numbered, stacked, strict=True)}
    return {key: _combined(a, terms) if any(a) else value for key, a in powers.items()}


def _jets(
    derivative: Derivative,
    f: Function,
    x: Tensor,
    v: Tensor,
    orders: Sequence[int],
    rows: Sequence[Tensor],
) -> list[tuple[Tensor, ...]]:
    """Return a jet for each direction, shape `(V, B, *E)`, from one call of `f` for each order.

    An engine with a method `jets`, such as `Taylor`, needs one call for all.
    """
    from_one_series = getattr(derivative, "jets", None)
    if from_one_series is not None:
        with suppress(MissingRule):
            jets: list[tuple[Tensor, ...]] = from_one_series(f, x, v, orders, *rows)
            return jets
    results: dict[int, tuple[Tensor, ...]] = {}
    for order in sorted(set(orders)):
        some = [i for i, of_direction in enumerate(orders) if of_direction == order]
        n = len(some)
        copies = [tile(row, n) for row in rows]
        jet = derivative.jet(f, tile(x, n), v[some].flatten(0, 1), order, *copies)
        by_direction = zip(*(y.view(n, len(x), *y.shape[1:]) for y in jet), strict=True)
        results |= zip(some, by_direction, strict=True)
    return [results[i] for i in range(len(orders))]


def _combined(alpha: Powers, terms: Mapping[tuple[Direction, int], Tensor]) -> Tensor:
    """Return one partial derivative as a sum of derivatives along directions."""
    order = sum(alpha)
    weights = _few_weights(alpha, tuple(d for d, k in terms if k == order))
    parts = [w * terms[d, order] if w != 1 else terms[d, order] for d, w in weights.items()]
    return reduce(torch.add, parts)


def _coordinates(key: str | tuple[int, ...], names: str | None, x: Tensor) -> list[int]:
    """Return the numbers of the coordinates of a derivative, given by names or numbers."""
    dimensions = dimension(x)
    if isinstance(key, str):
        if names is None or len(names) != dimensions or len(set(names)) != dimensions:
            raise ValueError(
                f"names must have one letter for each of the {dimensions} coordinates of x, all "
                f"different, as in names={'xyzt'[:dimensions]!r}, but is {names!r}"
                f"{one_point_hint(x)}"
            )
        unknown = [name for name in key if name not in names]
        if unknown:
            raise ValueError(f"{unknown[0]!r} in {key!r} is not a coordinate of names={names!r}")
        return [names.index(name) for name in key]
    if not isinstance(key, tuple) or not all(isinstance(i, int) for i in key):
        raise TypeError(
            'a derivative must be a string such as "xxt" or a tuple of coordinates such as '
            f"(0, 0, 1), but got {key!r}"
        )
    if any(not 0 <= i < dimensions for i in key):
        raise ValueError(
            f"{key} has a number that is not from 0 to {dimensions - 1}{one_point_hint(x)}"
        )
    return list(key)


@cache
def directions_for(wanted: frozenset[Powers]) -> dict[Direction, int]:
    """Choose directions whose derivatives determine some partial derivatives.

    From the highest order down, directions are added to those of higher orders, whose series hold
    the lower orders as well. Of all candidates one after the other is left out if the others
    suffice: first the coordinates, or first the others, whichever leaves fewer.

    Args:
        wanted: The partial derivatives, at least one.

    Returns:
        The directions, and for each the order that it is needed up to.

    Example:
        >>> directions_for(frozenset([(2, 0), (1, 1), (0, 2)]))
        {(0, 1): 2, (1, 0): 2, (1, 1): 2}
    """
    plan: dict[Direction, int] = {}
    for order in sorted({sum(alpha) for alpha in wanted} - {0}, reverse=True):
        of_order = [alpha for alpha in wanted if sum(alpha) == order]
        given = tuple(plan)
        found = {d for alpha in of_order for d in _candidates(alpha)} - plan.keys()
        simple_last = sorted(found, key=_simple_last)
        first, second = (
            _without_redundant(of_order, given, some) for some in (simple_last, simple_last[::-1])
        )
        plan |= dict.fromkeys(sorted(first if len(first) <= len(second) else second), order)
    return plan or {(1,) * len(next(iter(wanted))): 1}  # only the value is wanted


def _simple_last(direction: Direction) -> tuple[int, Direction]:
    return -sum(map(abs, direction)), direction


def _without_redundant(
    wanted: Sequence[Powers], given: tuple[Direction, ...], candidates: Sequence[Direction]
) -> list[Direction]:
    """Leave out candidates, in their order, as long as the others suffice."""
    kept = list(candidates)
    for direction in candidates:
        others = [d for d in kept if d != direction]
        if all(_weights(alpha, (*given, *others)) is not None for alpha in wanted):
            kept = others
    return kept


def _candidates(alpha: Powers) -> Iterator[Direction]:
    r"""Yield directions that determine $∂^α$: those of Kan's identity, and simpler ones.

    $$∂^α = \frac{1}{k!} \sum_{0 ≤ s ≤ α} (-1)^{|s|} \binom{α}{s} (h^T∇)^k,
      \qquad h = \tfrac12 α - s$$
    """
    kan = product(*(range(a, -a - 1, -2) for a in alpha))
    signs = product(*((0, 1, -1) if a else (0,) for a in alpha))
    for h in (*kan, *signs):
        divisor = math.gcd(*h)
        if divisor:
            leading = next(a for a in h if a)
            yield tuple(a // int(math.copysign(divisor, leading)) for a in h)


@cache
def _few_weights(alpha: Powers, directions: tuple[Direction, ...]) -> dict[Direction, float]:
    r"""Return weights $w$ with $∂^α = \sum_d w_d (d^T∇)^k$ for as few directions as possible."""
    few = _without_redundant([alpha], (), sorted(directions, key=_simple_last))
    weights = _weights(alpha, tuple(few))
    assert weights is not None
    return dict(zip(few, weights, strict=True))


@cache
def _weights(alpha: Powers, directions: tuple[Direction, ...]) -> tuple[float, ...] | None:
    r"""Return weights $w$ with $∂^α = \sum_d w_d (d^T∇)^k$, or `None` if there are none."""
    order, dimensions = sum(alpha), len(alpha)
    if not directions:
        return None
    matrix, target = [], []
    for factors in combinations_with_replacement(range(dimensions), order):
        beta = [factors.count(i) for i in range(dimensions)]
        multiple = math.factorial(order) / math.prod(map(math.factorial, beta))
        matrix.append([multiple * math.prod(d[i] for i in factors) for d in directions])
        target.append(float(tuple(beta) == alpha))
    solution, *_ = np.linalg.lstsq(np.array(matrix), np.array(target))
    if np.abs(np.array(matrix) @ solution - target).max() > 1e-9:
        return None
    return tuple(float(Fraction(float(w)).limit_denominator(10**6)) for w in solution)
