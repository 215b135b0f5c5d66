"""Attention."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import widened
from ..jet import Jet
from ..registry import rule
from .softmax import softmax_with


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
    r"""Return $\mathrm{softmax}(c\, Q K^T + M) V$, with zeros for fully masked rows.

    Raises:
        ValueError: If both `attn_mask` and `is_causal` are given.
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
    weights = _attention_weights((query * factor) @ key.mT, attn_mask)
    return functional.dropout(weights, dropout_p) @ value if dropout_p else weights @ value


def _attention_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the attention weights, given scores and a boolean or additive mask."""
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    if not isinstance(scores, Jet):
        return torch._safe_softmax(scores, -1)
    return softmax_with(torch._safe_softmax, widened(scores), -1).to(scores.dtype)


def _line_by_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function of torch without its check for `__torch_function__`.

    It then runs on jets line by line, by the rules of the functions that it calls.
    """
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    assert isinstance(function, FunctionType)
    namespace = function.__globals__ | dict.fromkeys(checks, lambda *_: False)
    return FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)


rule(functional.multi_head_attention_forward)(
    _line_by_line(functional.multi_head_attention_forward)
)
