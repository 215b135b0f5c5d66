"""Norms from elementary operations, for derivatives of any order.

PyTorch's double backward of layer norm and batch norm treats the moments of its input as
constants, so third derivatives are wrong (https://github.com/pytorch/pytorch/issues/175754) or,
from version 2.15 on, refused. Group norm and RMS norm are right.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Normalize over the last dimensions, as `torch.nn.functional.layer_norm`."""
    dims = tuple(range(-len(normalized_shape), 0))
    return _affine(_standardized(input, dims, eps), input, weight, bias)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel over space, as `torch.nn.functional.instance_norm`."""
    arguments = running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    if not use_input_stats:
        return functional.instance_norm(input, *arguments)
    if running_mean is not None:  # updates the running statistics
        functional.instance_norm(input.detach(), *arguments)
    shape = (-1, *[1] * (input.ndim - 2))
    weight, bias = (p if p is None else p.view(shape) for p in (weight, bias))
    return _affine(_standardized(input, tuple(range(2, input.ndim)), eps), input, weight, bias)


def _instance_norm_of_torch(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Normalize as `torch.instance_norm`, which takes the arguments in another order."""
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _standardized(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    r"""Return $(x - μ) / \sqrt{σ² + ε}$; as in torch, half precision is computed in float32."""
    x = x.float() if x.dtype in {torch.float16, torch.bfloat16} else x
    centered = x - x.mean(dims, keepdim=True)
    return centered * (centered.square().mean(dims, keepdim=True) + eps).rsqrt()


def _affine(y: Tensor, like: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(like.dtype)


DECOMPOSED: dict[Any, Callable[..., Tensor]] = {
    functional.layer_norm: layer_norm,
    torch.layer_norm: layer_norm,
    functional.instance_norm: instance_norm,
    torch.instance_norm: _instance_norm_of_torch,
}
"""Functions of torch, and the functions that replace them."""
