"""Truncated power series: which coefficients are kept, and the propagation they belong to."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(eq=False)
class Propagation:
    """One propagation through a model. Jets of different propagations must not meet.

    Attributes:
        recording: Whether autograd records the propagation. If so, operations with gradients
            switched off are refused, because autograd would treat their results as constants.
        keeping: Whether the tensors that autograd saves for the backward pass are kept.
        warned: Names of the functions that a `KinkWarning` was issued for, for this model.
    """

    recording: bool = False
    keeping: bool = True
    warned: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Truncation:
    r"""Power series of a given order along one direction, or of order 1, 2 or 4 along several.

    $$a = a_0 + \sum_i a_{1i} t_i + a_2 s + …, \qquad t_i t_j = δ_{ij} s, \quad t_i s = 0$$

    Along one direction, $s = t^2$ and these are Taylor series in $t$. Along several directions the
    second-order terms share one symbol, so that only the sum of the curvatures is computed:
    $1 + V + 1$ coefficients instead of $1 + 2V$. Series of order four along several directions are
    described in `fourth_order`, and those that keep the directions apart in
    `separate_directions`. Coefficients are stacked by degree. Trailing coefficients that are known
    to be zero are left out.

    Attributes:
        order: The highest degree that is kept.
        directions: The number of directions, `V`.
        propagation: The propagation that the series belong to.
        orders: The orders of separate directions, which must not increase. None of the closed
            forms of order two applies to them, so `order` is at least three.
    """

    order: int
    directions: int = 1
    propagation: Propagation = field(default_factory=Propagation)
    orders: tuple[int, ...] = ()

    @classmethod
    def separate(cls, orders: tuple[int, ...], propagation: Propagation) -> "Truncation":
        """Return the truncation of series along directions that are kept apart."""
        return cls(max(3, *orders), len(orders), propagation, orders)

    @property
    def keeps_pairs(self) -> bool:
        """Whether coefficients of pairs of directions are kept, as described in `fourth_order`."""
        return self.order > 2 and self.directions > 1 and not self.orders

    def count(self, degree: int) -> int:
        """Return the number of separate directions that have a coefficient of a degree."""
        return sum(order >= degree for order in self.orders)

    def rows(self, degree: int) -> int:
        """Return the number of coefficients of a series up to a degree."""
        if self.keeps_pairs:
            v = self.directions
            return sum((1, v, v * (v + 1) // 2, v, 1)[: degree + 1])
        if self.orders:
            return 1 + sum(min(order, degree) for order in self.orders)
        return self.directions + degree if degree else 1

    def degree(self, rows: int) -> int:
        """Return the degree of a series with this number of coefficients."""
        if self.keeps_pairs or self.orders:
            return [self.rows(degree) for degree in range(self.order + 1)].index(rows)
        return rows - self.directions if rows > 1 else 0

    def block(self, degree: int) -> slice:
        """Return the rows that hold the coefficients of a degree."""
        return slice(self.rows(degree - 1) if degree else 0, self.rows(degree))


class ClosedForm(torch.autograd.Function):
    """A function of coefficients with a backward pass in closed form.

    Jets refuse the transforms of `torch.func`, so it is applied without the support for them,
    which takes as long as a small kernel. With gradients switched off only `forward` is called.
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Return the result of `forward`, recorded by autograd if gradients are enabled."""
        return _recorded(cls, *args) if torch.is_grad_enabled() else cls.forward(_Unused(), *args)


_recorded = torch._C._FunctionBase.__dict__["apply"]


class _Unused:
    """The context of a `forward` without a backward pass, which keeps no tensors."""

    needs_input_grad: Mapping[int, bool] = defaultdict(bool)

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep nothing."""

    mark_dirty = save_for_backward


def empty_rows(u: Tensor, rows: int) -> Tensor:
    """Return an empty tensor with `rows` rows, each with the memory layout of the rows of `u`."""
    if u.is_contiguous():
        return u.new_empty(rows, *u.shape[1:])
    row = torch.empty_like(u[0], device="meta")
    return u.new_empty_strided((rows, *u.shape[1:]), (row.numel(), *row.stride()))


GROUP = 2**17
"""Number of elements whose sums of products stay in a CPU cache while they are accumulated."""


def sum_products(a: Tensor, b: Tensor) -> Tensor:
    r"""Return $\sum_i a_i b_i$ over the first dimension, faster than `(a * b).sum(0)` on a CPU.

    Args:
        a: The first factors.
        b: The second factors, whose shape can be broadcast to that of the first.

    Returns:
        The sum.
    """
    rows, size = a.shape[0], max(1, GROUP // max(1, a[0].numel()))
    if rows <= size or not a.is_cpu:
        return (a * b).sum(0)
    sums = a[:size] * b[:size]
    for i in range(size, rows, size):
        part = sums if i + size <= rows else sums[: rows - i]
        part.addcmul_(a[i : i + size], b[i : i + size])
    return sums[0] if size == 1 else sums.sum(0)


def empty_product(a: Tensor, b: Tensor, rows: int) -> Tensor:
    """Return an empty tensor for `rows` coefficients of the product of two series."""
    if a.shape[1:] == b.shape[1:]:
        return empty_rows(b, rows)
    shape = torch.broadcast_shapes(a.shape[1:], b.shape[1:])  # type: ignore[no-untyped-call]
    like = next((x for x in (a, b) if x.shape[1:] == shape), None)
    return b.new_empty(rows, *shape) if like is None else empty_rows(like, rows)


def convolve(a: Tensor, b: Tensor, rows: int) -> Tensor:
    r"""Return the first coefficients of a product along one direction, $y_k = \sum_i a_i b_{k-i}$.

    Args:
        a: The coefficients of the first factor.
        b: The coefficients of the second factor, whose shapes can be broadcast with the first.
        rows: The number of coefficients of the product.

    Returns:
        The coefficients of the product.
    """
    y, length = empty_product(a, b, rows), b.shape[0]
    torch.mul(a[0], b[:rows], out=y[:length])
    if length < rows:
        y[length:].zero_()
    for i, factor in enumerate(a[1:rows].unbind(), 1):
        y[i : i + length].addcmul_(factor, b[: rows - i])
    return y


def correlate(grad: Tensor, b: Tensor, rows: int) -> Tensor:
    r"""Return the gradient of a product for a factor, $\bar a_i = \sum_k b_{k-i} \bar y_k$.

    Args:
        grad: The gradient with respect to the product, $\bar y$.
        b: The coefficients of the other factor.
        rows: The number of coefficients of the factor.

    Returns:
        The gradient, in the shape of the product.
    """
    total = grad.shape[0]
    result = grad[:rows] * b[0]
    for j, factor in enumerate(b[1:total].unbind(), 1):
        result[: total - j].addcmul_(factor, grad[j : j + rows])
    return result
