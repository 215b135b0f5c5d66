r"""Finite-difference coefficients as data.

Any `n` distinct nodes $γ_j$ determine weights $w_{kj}$ such that

$$(v^T∇)^k f(x) = \sum_j w_{kj} f(x + γ_j v) + o(‖v‖^{n-1}), \qquad k < n,$$

because the interpolating polynomial of $t ↦ f(x + tv)$ agrees with its Taylor expansion
(Lemma 1, Eq. 6). Nodes placed symmetrically about zero cancel the next term too (Theorem 1,
Eq. 7), and every further pair of nodes cancels two more.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from numbers import Integral

Node = int | float | Fraction
"""A position along the direction, in units of `v`; a float is taken at its exact value."""


def stencil(nodes: Iterable[Node]) -> tuple[tuple[Fraction, ...], ...]:
    r"""Return the weights $w_{kj}$, one row per derivative order and one column per node.

    Row $k$ holds $k!$ times the coefficients of $t^k$ in the Lagrange polynomials
    $\prod_{i ≠ j} (t - γ_i) / (γ_j - γ_i)$, in rational arithmetic. This is the closed form
    of the inverse Vandermonde matrix of Lemma 1, without solving equations and without rounding.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Lemma 1 and its proof, App. A.1.

    Args:
        nodes: Distinct positions along the direction, in units of `v`.

    Returns:
        One row per node; row `k` has the weights of the derivative of order `k`.

    Raises:
        ValueError: If there are no nodes, or two are equal, or one is not finite.

    Example:
        >>> [[str(w) for w in row] for row in stencil([-1, 0, 1])]
        [['0', '1', '0'], ['-1/2', '0', '1/2'], ['1', '-2', '1']]
        >>> [str(w) for w in stencil([-1, 1])[1]]
        ['-1/2', '1/2']
    """
    given = tuple(nodes)
    if not all(math.isfinite(node) for node in given):
        raise ValueError(f"nodes must be finite numbers, but got {list(given)}")
    exact = tuple(Fraction(node) for node in given)
    if not exact or len(set(exact)) < len(exact):
        raise ValueError(f"nodes must be distinct and at least one, but got {list(given)}")
    return _lagrange(exact)


@cache
def _lagrange(nodes: tuple[Fraction, ...]) -> tuple[tuple[Fraction, ...], ...]:
    columns = []
    for j, here in enumerate(nodes):
        basis = [Fraction(1)]  # lowest degree first
        for other in nodes[:j] + nodes[j + 1 :]:
            raised, lowered = [Fraction(0), *basis], [*(other * c for c in basis), Fraction(0)]
            basis = [(a - b) / (here - other) for a, b in zip(raised, lowered, strict=True)]
        columns.append([math.factorial(k) * c for k, c in enumerate(basis)])
    return tuple(zip(*columns, strict=True))


def central_nodes(
    order: int, accuracy: int = 2, *, alphas: Sequence[Node] | None = None
) -> tuple[Node, ...]:
    r"""Return symmetric nodes $±α_k$ for a derivative of the given order and accuracy.

    With `accuracy=2` these are the $T + 1$ nodes of Theorem 1, and the error of the
    derivative of order $T$ is $O(‖v‖^2)$ relative to $‖v‖^T$. Each further pair raises the
    accuracy by two: $T + 2m - 1$ nodes have an error of $O(‖v‖^{2m})$.

    Reference:
        Pang et al. (2020), https://arxiv.org/abs/2007.03317, Theorem 1 (Eq. 7).

    Args:
        order: The highest order of a derivative, $T ≥ 1$.
        accuracy: The order of the error, an even number.
        alphas: The positive nodes $α_k$, distinct, in any order. Default: $1, 2, …$

    Returns:
        The nodes in increasing order, with zero among them when `order` is even.

    Raises:
        ValueError: If `order`, `accuracy` or `alphas` is invalid.

    Example:
        >>> central_nodes(1), central_nodes(2), central_nodes(3)
        ((-1, 1), (-1, 0, 1), (-2, -1, 1, 2))
        >>> central_nodes(2, accuracy=4)
        (-2, -1, 0, 1, 2)
        >>> central_nodes(2, alphas=[0.5])
        (-0.5, 0, 0.5)
    """
    require_order(order)
    if accuracy < 2 or accuracy % 2:
        raise ValueError(f"accuracy must be a positive even number, but got {accuracy}")
    pairs = (order + 1) // 2 + accuracy // 2 - 1
    positive = sorted(range(1, pairs + 1) if alphas is None else alphas)
    if not len(positive) == len(set(positive)) == pairs or positive[0] <= 0:
        raise ValueError(
            f"order {order} with accuracy {accuracy} takes {pairs} distinct positive alphas, "
            f"but got {alphas}"
        )
    center = [] if order % 2 else [0]
    return (*(-node for node in reversed(positive)), *center, *positive)


def require_order(order: int) -> None:
    """Raise `ValueError` unless `order` is a positive integer."""
    if not isinstance(order, Integral) or isinstance(order, bool) or order < 1:
        raise ValueError(f"the order must be a positive integer, but got {order!r}")
