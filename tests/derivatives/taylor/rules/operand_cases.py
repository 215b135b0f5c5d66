"""Functions of several operands: series of degree one, of all degrees, and constants."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fdsm.derivatives import Jet

from ..agreement import assert_agrees

MatrixOp = Callable[[Tensor, Tensor, Tensor], Any]
"""Of an input of degree one, one of all degrees, and a constant, each of shape `(4, 5)`."""
BatchOp = Callable[[Tensor, Tensor, Tensor], Any]
"""Of an input of degree one, one of all degrees, and a constant, each of shape `(3, 4, 6)`."""
MASK = torch.tensor([[1, 1, 0, 1, 1]], dtype=torch.float64)
WEIGHT = torch.linspace(0.5, 2, 20, dtype=torch.float64).reshape(4, 5)


def check_matrices(
    op: MatrixOp,
    orders: Sequence[int] = (1, 2),
    directions: Sequence[int] = (3,),
    rtol: float = 1e-10,
) -> None:
    """Check a function of matrices, and its gradients, against Autodiff."""
    g = torch.Generator().manual_seed(0)
    first, second = (torch.randn(6, 20, generator=g) / 2 for _ in range(2))
    constant, x = torch.randn(4, 5, generator=g), torch.randn(2, 6, generator=g)

    def one(x: Tensor) -> Tensor:
        a, b = (x @ first).reshape(4, 5), (x @ second).tanh().reshape(4, 5)
        found = op(a, b, constant)
        return sum(map(_combined, found if isinstance(found, tuple) else (found,)))  # type: ignore[return-value]

    def f(x: Tensor) -> Tensor:
        return torch.stack([one(row) for row in x])

    assert_agrees(f, x, first, second, constant, orders=orders, directions=directions, rtol=rtol)


def _combined(y: Tensor) -> Tensor:
    """Return a weighted sum of all elements, with different weights."""
    return (torch.linspace(1, 2, y.numel()).reshape(y.shape) * y).sum()


def with_gaps(x: Tensor) -> Tensor:
    """Return a matrix of shape `(4, 5)` with NaN in place of some elements."""
    return x.masked_fill(torch.arange(20).reshape(4, 5) % 7 == 3, torch.nan)


def check_batches(op: BatchOp) -> None:
    """Check a function of batches of matrices, and its gradients, against Autodiff."""
    g = torch.Generator().manual_seed(0)
    first, second = (torch.randn(5, 24, generator=g) for _ in range(2))
    constant, x = torch.randn(3, 4, 6, generator=g), torch.randn(3, 5, generator=g)

    def f(x: Tensor) -> Tensor:
        a, b = (x @ first).unflatten(1, (4, 6)), 2 * (x @ second).sin().unflatten(1, (4, 6))
        y = op(a, b, constant).reshape(3, -1)
        return (torch.linspace(1, 2, y.shape[1]) * y).sum(1)

    assert_agrees(f, x, first, second, constant, directions=(3,))


def on_jets(rule: Callable[..., Any], otherwise: Callable[..., Any]) -> MatrixOp:
    """Return a function that applies `rule` to jets, and `otherwise` to tensors."""
    return lambda a, *others: (rule if isinstance(a, Jet) else otherwise)(a, *others)
