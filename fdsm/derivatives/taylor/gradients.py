r"""Rules for gradients that a model takes of itself, such as a score $s = ∇\log p$.

Let $y = f(x)$ be series of order $K$. Then $∂y_K / ∂x_{K - j} = (∇f(x))_j$: the gradient of the
last coefficient has the coefficients of the gradient, in reverse order. Along several directions
the slopes keep theirs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .jet import Jet, MissingRule, rule
from .products import value_of
from .shapes import padded


@rule(Tensor.requires_grad_)
def requires_grad_(x: Jet, requires_grad: bool = True) -> Jet:
    """Make autograd record what becomes of a jet, with coefficients that vanish."""
    if requires_grad and not x.requires_grad:
        whole = padded(x, x.truncation.rows(x.truncation.order))
        x.coefficients = whole.coefficients.detach().requires_grad_()
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
) -> tuple[Tensor, ...]:
    """Return gradients of jets with respect to jets, as jets.

    Raises:
        MissingRule: If they are not of one jet with respect to one jet, or the weights depend on
            the input of the model, or series of order one are along several directions.
    """
    y, x, weights = map(_only, (outputs, inputs, grad_outputs))
    if not isinstance(y, Jet) or not isinstance(x, Jet) or options.get("is_grads_batched"):
        raise MissingRule(
            "Taylor has a rule for `torch.autograd.grad` of one tensor with respect to one other "
            "that both depend on the input of the model, and for no other gradients"
        )
    order, rows = x.truncation.order, x.truncation.block
    several = order == 1 and x.truncation.directions > 1
    if several or (isinstance(weights, Jet) and weights.degree > 0):
        raise MissingRule(
            "Taylor has no rule for `torch.autograd.grad` with weights that depend on the input "
            "of the model, or of series of order one along several directions"
        )
    last, c = y.part(order)[0], x.coefficients
    (result,) = torch.autograd.grad(
        last, c, value_of(weights), retain_graph, create_graph, only_inputs, **options
    )
    flipped = torch.cat([result[rows(order - j)] for j in range(order + 1)])
    return (Jet(flipped, x.truncation),)


def _only(x: Tensor | Sequence[Tensor | None] | None) -> Tensor | None:
    """Return a tensor that may be given in a list of its own."""
    if x is None or isinstance(x, Tensor):
        return x
    if len(x) != 1:
        raise MissingRule("Taylor has no rule for `torch.autograd.grad` of several tensors")
    return x[0]
