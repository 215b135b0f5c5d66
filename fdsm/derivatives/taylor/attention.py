"""Rules of attention."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, rule
from .reductions import widened
from .softmax import softmax_by


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Return $\mathrm{softmax}(c\, Q K^T + M) V$; a row that is masked altogether gives zeros.

    Raises:
        ValueError: If there is a mask besides the causal one.
    """
    if enable_gqa:
        key, value = (
            x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value)
        )
    if is_causal:
        if attn_mask is not None:
            raise ValueError("give either `attn_mask` or `is_causal=True`, not both")
        shape = (query.shape[-2], key.shape[-2])
        attn_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    weights = _attended((query * factor) @ key.mT, attn_mask)
    return functional.dropout(weights, dropout_p) @ value if dropout_p else weights @ value


def _attended(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return how much is attended to, given what the mask allows or adds."""
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    if not isinstance(scores, Jet):
        return torch._safe_softmax(scores, -1)
    return softmax_by(torch._safe_softmax, widened(scores), -1).to(scores.dtype)


def _line_by_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch that is written in Python, without its look out for overrides.

    What it does line by line has rules.
    """
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    assert isinstance(function, FunctionType)
    namespace = function.__globals__ | dict.fromkeys(checks, lambda *_: False)
    return FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)


rule(functional.multi_head_attention_forward)(
    _line_by_line(functional.multi_head_attention_forward)
)
