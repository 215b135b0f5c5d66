"""Normalization layers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..algebra import widened
from ..jet import Jet
from ..registry import rule
from ..series import Truncation, empty_rows


def _normalized(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    r"""Return $(x - μ) / \sqrt{σ² + ε}$ with moments over `dims`, counted from the last."""
    if isinstance(x, Jet) and x.degree > 0 and x.truncation.order <= 2:
        stacked: Tensor = _Normalized.apply(x.coefficients, x.truncation, dims, eps)  # type: ignore[no-untyped-call]
        return Jet(stacked, x.truncation)
    centered = x - x.mean(dims, keepdim=True)
    return centered * (centered.square().mean(dims, keepdim=True) + eps).rsqrt()


class _Normalized(torch.autograd.Function):
    r"""The coefficients of a normalized tensor up to degree two.

    With $r = (\overline{c_0²} + ε)^{-1/2}$ for the centered input $c$, $z = r c_0$, $b = r c_1$,
    $b_2 = r c_2$ and means $a_i = \overline{z b_i}$,
    $h = \overline{z b_2} + \sum_i (\tfrac12 \overline{b_i²} - \tfrac32 a_i²)$, they are

    $$z, \qquad b_i - a_i z, \qquad b_2 - \sum_i a_i b_i - h z.$$

    The backward pass is in closed form and saves only the input.
    """

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, truncation: Truncation, dims: tuple[int, ...], eps: float
    ) -> Tensor:
        ctx.save_for_backward(u)
        ctx.truncation, ctx.dims, ctx.eps = truncation, dims, eps
        scaled, _ = _scaled(u, dims, eps)
        z, b, a, h, second = _terms(scaled, truncation, dims)
        y = empty_rows(u, truncation.rows(truncation.order))
        y[0] = z
        torch.addcmul(b, a, z, value=-1, out=y[truncation.block(1)])
        if truncation.order == 2:
            last = torch.mul(h, z, out=y[-1]).neg_()
            for slope, mean in zip(b, a, strict=True):
                last.addcmul_(slope, mean, value=-1)
            if second is not None:
                last.add_(second)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Return the gradient with respect to the input, given the gradient with respect to $y$.

        $$\bar h = -\sum \bar y_2 z, \quad
          \bar a_i = -\sum (\bar y_{1i} z + \bar y_2 b_i) - 3 a_i \bar h, \quad
          \bar b_2 = \bar y_2 + \bar h z / n,$$
        $$\bar b_i = \bar y_{1i} - a_i \bar y_2 + (\bar h b_i + \bar a_i z) / n, \quad
          \bar z = \bar y_0 - \sum_i a_i \bar y_{1i} - h \bar y_2
                   + (\bar h b_2 + \sum_i \bar a_i b_i) / n,$$

        followed by the gradients through $r$ and the mean.
        """
        (u,) = ctx.saved_tensors
        truncation, dims = ctx.truncation, ctx.dims
        scaled, r = _scaled(u, dims, ctx.eps)
        z, b, a, h, second = _terms(scaled, truncation, dims)
        n = math.prod(z.shape[d] for d in dims)
        slopes = grad[truncation.block(1)]
        a_bar = -(slopes * z).sum(dims, True)
        b_bar = slopes
        z_bar = grad[0] - (a * slopes).sum(0)
        if truncation.order == 2:
            last = grad[-1]
            h_bar = -(last * z).sum(dims, True)
            a_bar = a_bar - (last * b).sum(dims, True) - 3 * a * h_bar
            b_bar = b_bar - a * last + h_bar / n * b
            z_bar = z_bar - h * last
        b_bar = b_bar + a_bar / n * z
        z_bar = z_bar + (a_bar / n * b).sum(0)
        parts = [z_bar[None], b_bar]
        if second is not None:
            parts = [(z_bar + h_bar / n * second)[None], b_bar, (last + h_bar / n * z)[None]]
        bar = torch.cat(parts)
        value = bar[0] - z * (bar * scaled).sum((0, *dims), True)[0] / n
        bar = torch.cat([value[None], bar[1:]]) * r
        return bar - bar.mean(dims, True), None, None, None


def _scaled(u: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Return the centered input divided by its standard deviation, and $r$."""
    centered = u - u.mean(dims, True)
    r = (centered[0].square().mean(dims, True) + eps).rsqrt()
    return centered * r, r


def _terms(
    scaled: Tensor, truncation: Truncation, dims: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Return $z$, $b$, $a$, $h$ and $b_2$, which is `None` if it is zero."""
    z, b = scaled[0], scaled[truncation.block(1)]
    second = scaled[-1] if len(scaled) == truncation.rows(2) else None
    a = (z * b).mean(dims, True)
    h = (b.square().mean(dims, True) / 2 - 1.5 * a * a).sum(0)
    return z, b, a, h if second is None else h + (z * second).mean(dims, True), second


def _affine(
    x: Tensor, like: Jet, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Return $w x + b$ in the type of another jet."""
    x = x if weight is None else x * weight
    x = x if bias is None else x + bias
    return x.to(like.dtype)


def _by_channel(x: Tensor, *parameters: Tensor | None) -> list[Tensor | None]:
    """Return parameters of the channels in a shape that broadcasts with a batch."""
    shape = (-1, *[1] * (x.ndim - 2))
    return [None if parameter is None else parameter.reshape(shape) for parameter in parameters]


@rule("layer_norm")
def layer_norm(
    input: Jet,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Normalize a tensor over its last dimensions."""
    y = _normalized(widened(input), _last(normalized_shape), eps)
    return _affine(y, input, weight, bias)


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the last dimensions, as many as a shape has entries."""
    return tuple(range(-len(shape), 0))


@rule("rms_norm")
def rms_norm(
    input: Jet,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide a tensor by the root of its mean square over the last dimensions."""
    x = widened(input)
    square = x.square().mean(_last(normalized_shape), keepdim=True)
    tiny = torch.finfo(x.dtype).eps if eps is None else eps
    return _affine(x * (square + tiny).rsqrt(), input, weight)


@rule("group_norm")
def group_norm(
    input: Jet,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Normalize each example over groups of channels."""
    size = math.prod(input.shape[1:]) // num_groups
    groups = widened(input).reshape(len(input), num_groups, size)
    y = _normalized(groups, (-1,), eps).reshape(input.shape)
    return _affine(y, input, *_by_channel(y, weight, bias))


@rule(functional.instance_norm)
def instance_norm(
    input: Jet,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of each example, or use running statistics."""
    if not use_input_stats:
        return _with_running_statistics(input, running_mean, running_var, weight, bias, eps)
    if running_mean is not None:
        functional.instance_norm(
            input.value.detach(), running_mean, running_var, momentum=momentum
        )  # updates the statistics
    y = _normalized(widened(input), tuple(range(2 - input.ndim, 0)), eps)
    return _affine(y, input, *_by_channel(y, weight, bias))


@rule(torch.instance_norm)
def instance_norm_of_torch(
    input: Jet,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Apply `instance_norm`, whose arguments have another order in `torch`."""
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _with_running_statistics(
    x: Jet,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    r"""Return $w (x - μ) / \sqrt{σ² + ε} + b$, with one multiplication and one addition.

    Raises:
        ValueError: If there are no running statistics.
    """
    if mean is None or variance is None:
        raise ValueError(_BATCH_STATISTICS)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return _affine(widened(x), x, *_by_channel(x, scale, shift))


_BATCH_STATISTICS = (
    "batch norm uses the statistics of the batch, which mixes the examples with each other: call "
    "`.eval()` on it, or normalize within each example (group, layer or instance norm)"
)


@rule(functional.batch_norm)
def batch_norm(
    input: Jet,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return a batch normalized with running statistics.

    Raises:
        ValueError: If the statistics of the batch are used.
    """
    if training:
        raise ValueError(_BATCH_STATISTICS)
    return _with_running_statistics(input, running_mean, running_var, weight, bias, eps)


@rule(torch.batch_norm)
def batch_norm_of_torch(
    input: Jet,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Apply `batch_norm`, whose arguments have another order in `torch`."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@rule(functional.local_response_norm)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    r"""Return $x / (k + α m)^β$, with $m$ the mean square over neighboring channels."""
    border = [0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2]
    squares = functional.pad(input.square(), border)
    channels = input.shape[1]
    mean = (
        sum(
            (squares.narrow(1, i, channels) for i in range(1, size)),
            squares.narrow(1, 0, channels),
        )
        / size
    )
    return input * (k + alpha * mean) ** -beta
