r"""Gradients that a model takes itself, such as a score $s = ∇\log p$.

Let $y = f(x)$ be a series of order $K$. Then $∂y_K / ∂x_{K - j} = (∇f(x))_j$: the gradient of the
last coefficient holds the coefficients of the gradient in reverse order. With weights $w$ that are
series, the gradient of $\sum_k w_{K - k} y_k$ does. Several directions keep their order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..algebra import as_jet, padded
from ..jet import Jet
from ..registry import MissingRule, rule


@rule(Tensor.requires_grad_)
def requires_grad_(x: Jet, requires_grad: bool = True) -> Jet:
    """Make autograd record the operations on a jet, with all of its coefficients."""
    if requires_grad:
        x.truncation.propagation.keeping = True
        c = _whole(x)
        x.coefficients = c if c.requires_grad else c.detach().requires_grad_()
    return x


@rule(torch.autograd.grad)
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    **options: bool,
) -> tuple[Tensor | None]:
    """Return the gradient of a jet with respect to a jet, as a jet.

    Raises:
        MissingRule: If there are several outputs or inputs, one of them does not depend on the
            input of the model, `requires_grad_()` was not called, or first derivatives are taken
            along several directions.
    """
    y, x, weights = map(_only, (outputs, inputs, grad_outputs))
    if not isinstance(y, Jet) or not isinstance(x, Jet) or options.get("is_grads_batched"):
        raise MissingRule(
            "Taylor has a rule for `torch.autograd.grad` only for one output and one input that "
            "both depend on the input of the model"
        )
    if len(x.coefficients) < x.truncation.rows(x.truncation.order):
        raise MissingRule(
            "Taylor has a rule for `torch.autograd.grad` only if `.requires_grad_()` was called "
            "before the tensor was used: call it"
        )
    if x.truncation.orders or (x.truncation.order == 1 and x.truncation.directions > 1):
        raise MissingRule(
            "Taylor has no rule for `torch.autograd.grad` in a model whose derivatives are taken "
            "along several separate directions"
        )
    if weights is None and y.ndim == 0:
        weights = torch.ones_like(y)
    cotangent = None if weights is None else _reversed(as_jet(weights, x))
    # A model may pass `create_graph=h.requires_grad`, which is false for jets.
    create_graph = create_graph or x.truncation.propagation.keeping
    (result,) = torch.autograd.grad(
        _whole(y), x.coefficients, cotangent, retain_graph, create_graph, only_inputs, **options
    )
    if result is None:  # with `allow_unused=True`
        return (None,)
    return (Jet(_reversed(Jet(result, x.truncation)), x.truncation),)


def _whole(x: Jet) -> Tensor:
    """Return all coefficients, including trailing zeros."""
    return padded(x, x.truncation.rows(x.truncation.order)).coefficients


def _reversed(x: Jet) -> Tensor:
    """Return all coefficients from the highest degree to the lowest."""
    c, truncation = _whole(x), x.truncation
    return torch.cat([c[truncation.block(k)] for k in range(truncation.order, -1, -1)])


def _only(x: Tensor | Sequence[Tensor | None] | None) -> Tensor | None:
    """Return a tensor that is given alone or as the only element of a sequence."""
    if x is None or isinstance(x, Tensor):
        return x
    if len(x) != 1:
        raise MissingRule("Taylor has no rule for `torch.autograd.grad` of several tensors")
    return x[0]
