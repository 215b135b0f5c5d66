r"""Rules for gradients that a model takes of itself, such as a score $s = ∇\log p$.

Let $y = f(x)$ be series of order $K$. Then $∂y_K / ∂x_{K - j} = (∇f(x))_j$: the gradient of the
last coefficient has the coefficients of the gradient, in reverse order, and with weights $w$ that
are series, so has that of $\sum_k w_{K - k} y_k$. Along several directions the slopes keep theirs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .jet import Jet, MissingRule, rule
from .products import lifted
from .shapes import padded


@rule(Tensor.requires_grad_)
def requires_grad_(x: Jet, requires_grad: bool = True) -> Jet:
    """Make autograd record what becomes of a jet, with coefficients that vanish."""
    if requires_grad:
        x.truncation.run.keeping = True
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
        MissingRule: If there are several of either, or one does not depend on the input of the
            model, or was not made to require a gradient, or series of order one are along several
            directions.
    """
    y, x, weights = map(_only, (outputs, inputs, grad_outputs))
    if not isinstance(y, Jet) or not isinstance(x, Jet) or options.get("is_grads_batched"):
        raise MissingRule(
            "Taylor has a rule for `torch.autograd.grad` of one tensor with respect to one other "
            "that both depend on the input of the model, and for no other gradients"
        )
    if len(x.coefficients) < x.truncation.rows(x.truncation.order):
        raise MissingRule(
            "Taylor has a rule for `torch.autograd.grad` with respect to a tensor on which "
            "`.requires_grad_()` was called before it was used: call it"
        )
    if x.truncation.order == 1 and x.truncation.directions > 1:
        raise MissingRule(
            "Taylor has no rule for `torch.autograd.grad` within first derivatives along several "
            "directions"
        )
    if weights is None and y.ndim == 0:
        weights = torch.ones_like(y)
    cotangent = None if weights is None else _reversed(lifted(weights, x))
    (result,) = torch.autograd.grad(
        _whole(y), x.coefficients, cotangent, retain_graph, create_graph, only_inputs, **options
    )
    if result is None:  # as `allow_unused` asks for
        return (None,)
    return (Jet(_reversed(Jet(result, x.truncation)), x.truncation),)


def _whole(x: Jet) -> Tensor:
    """Return all coefficients, with those that vanish."""
    return padded(x, x.truncation.rows(x.truncation.order)).coefficients


def _reversed(x: Jet) -> Tensor:
    """Return all coefficients from the highest degree to the lowest."""
    c, truncation = _whole(x), x.truncation
    return torch.cat([c[truncation.block(k)] for k in range(truncation.order, -1, -1)])


def _only(x: Tensor | Sequence[Tensor | None] | None) -> Tensor | None:
    """Return a tensor that may be given in a list of its own."""
    if x is None or isinstance(x, Tensor):
        return x
    if len(x) != 1:
        raise MissingRule("Taylor has no rule for `torch.autograd.grad` of several tensors")
    return x[0]
