r"""Activations of the first layer along directions that are the same in all rows.

Along the coordinates, for example, the first linear layer gives slopes $s_i$ that do not depend on
the row. The coefficients of $g(z + \sum_i s_i t_i)$ are $g(z)$, $g'(z) s_i$ and
$\tfrac12 g''(z) \sum_i s_i²$.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .series import ClosedForm, Truncation, sum_products


class CommonSlopes(NamedTuple):
    """The values, shape `(B, *E)`, and the slopes of all rows, shape `(V, *E)`."""

    value: Tensor
    slopes: Tensor

    def coefficients(self) -> Tensor:
        """Return the coefficients, shape `(1 + V, B, *E)`."""
        rows = self.slopes[:, None].expand(-1, *self.value.shape)
        return torch.cat([self.value[None], rows])


class CommonActivation(NamedTuple):
    """A smooth elementwise function of a series with slopes that all rows share.

    Attributes:
        value: The values, shape `(B, *E)`.
        slopes: The slopes of all rows, shape `(V, *E)`.
        truncation: Which coefficients there are.
        g: The function.
        derivatives: Yields its derivatives.
    """

    value: Tensor
    slopes: Tensor
    truncation: Truncation
    g: Callable[[Tensor], Tensor]
    derivatives: Callable[[Tensor], Iterator[Tensor]]

    def coefficients(self) -> Tensor:
        """Return the coefficients up to degree two, shape `(rows, B, *E)`."""
        result: Tensor = _Composition.apply(*self)
        return result

    def gradients(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the gradients with respect to the values $z$ and the slopes $s$, given $\bar y$.

        $$\bar z = g' \bar y_0 + g'' \sum_i s_i \bar y_{1i} + \tfrac12 g''' \sum_i s_i² \bar y_2,
          \quad \bar s_i = \sum_b (g' \bar y_{1i} + g'' s_i \bar y_2)$$
        """
        s, order = self.slopes, self.truncation.order
        first, second, *third = islice(self.derivatives(self.value), order + 1)
        slopes = grad[self.truncation.block(1)]
        bar_z = torch.addcmul(grad[0] * first, second, sum_products(slopes, s[:, None]))
        bar_s = (slopes * first).sum(1)
        if order == 2:
            bar_z.addcmul_(third[0] * grad[-1], s.square().sum(0), value=0.5)
            bar_s.addcmul_(s, (second * grad[-1]).sum(0))
        return bar_z, bar_s


class _Composition(ClosedForm):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        s: Tensor,
        truncation: Truncation,
        g: Callable[[Tensor], Tensor],
        derivatives: Callable[[Tensor], Iterator[Tensor]],
    ) -> Tensor:
        ctx.save_for_backward(z, s)
        ctx.others = truncation, g, derivatives
        y = z.new_empty(truncation.rows(truncation.order), *z.shape)
        y[0] = g(z)
        first, *second = islice(derivatives(z), truncation.order)
        torch.mul(s[:, None], first, out=y[truncation.block(1)])
        if truncation.order == 2:
            torch.mul(second[0], s.square().sum(0).mul_(0.5), out=y[-1])
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        activation = CommonActivation(*ctx.saved_tensors, *ctx.others)
        return *activation.gradients(grad), None, None, None
