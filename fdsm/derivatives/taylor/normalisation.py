"""Rules of layers that normalise."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from .jet import Jet, rule
from .reductions import widened


def _normalised(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    r"""Return $(x - μ) / \sqrt{σ² + ε}$ with moments over some dimensions."""
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt()


def _affine(
    x: Tensor, like: Jet, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Return $w x + b$ in the type of another jet."""
    x = x if weight is None else x * weight
    x = x if bias is None else x + bias
    return x.to(like.dtype)


def _by_channel(x: Tensor, *parameters: Tensor | None) -> list[Tensor | None]:
    """Return parameters of the channels of a batch, shaped to multiply it."""
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
    """Return a tensor normalised over its last dimensions."""
    y = _normalised(widened(input), _last(normalized_shape), eps)
    return _affine(y, input, weight, bias)


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the last dimensions, as many as a shape has."""
    return tuple(range(-len(shape), 0))


@rule("rms_norm")
def rms_norm(
    input: Jet,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return a tensor divided by the root of the mean of squares over its last dimensions."""
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
    """Return a batch normalised over all but its first dimension, in groups of channels."""
    groups = widened(input).reshape(len(input), num_groups, -1)
    y = _normalised(groups, (-1,), eps).reshape(input.shape)
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
    """Return a batch normalised over the space of each channel, or by running statistics."""
    if not use_input_stats:
        return _by_statistics(input, running_mean, running_var, weight, bias, eps)
    if running_mean is not None:
        functional.instance_norm(
            input.value.detach(), running_mean, running_var, momentum=momentum
        )  # updates the statistics
    y = _normalised(widened(input), tuple(range(2, input.ndim)), eps)
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
    """Return what `instance_norm` does, of arguments in another order."""
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _by_statistics(
    x: Jet,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    r"""Return $w (x - μ) / \sqrt{σ² + ε} + b$, as one multiplication and one addition.

    Raises:
        ValueError: If there are no statistics but those of the batch.
    """
    if mean is None or variance is None:
        raise ValueError(_OF_THE_BATCH)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return _affine(widened(x), x, *_by_channel(x, scale, shift))


_OF_THE_BATCH = (
    "batch norm normalises by the statistics of the batch, which mixes the examples with each "
    "other: call `.eval()` on it, or use a norm within each example (group, layer, instance)"
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
    """Return a batch normalised by running statistics.

    Raises:
        ValueError: If it is to be normalised by its own.
    """
    if training:
        raise ValueError(_OF_THE_BATCH)
    return _by_statistics(input, running_mean, running_var, weight, bias, eps)


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
    """Return what `batch_norm` does, of arguments in another order."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@rule(functional.local_response_norm)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    r"""Return $x / (k + α m)^β$ with $m$ the mean of squares over neighbouring channels."""
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
