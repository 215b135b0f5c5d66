r"""Rules of functions over dimensions: moments, products, norms, soft maxima, losses, inverses.

Most are formulas in functions that have rules. A soft maximum is a mean: with $p$ the softmax of
the values $u_0$, $d_i = u_{1i} - \sum p u_{1i}$ and $q = u_2 + \tfrac12 \sum_i d_i²$,

$$\mathrm{logsumexp}(u) = \mathrm{logsumexp}(u_0) + \sum_i t_i \sum p u_{1i} + s \sum p q.$$
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from .jet import Jet, MissingRule, kept, replace, rule
from .kinks import Dims, absolute, amax, amin, clamp, warn_of_kink
from .products import Operand, aligned, lifted, value_of
from .shapes import beside

_HALF = {torch.float16, torch.bfloat16}


def widened(x: Jet, dtype: torch.dtype | None = None) -> Jet:
    """Return a jet in a given type, or in the one that torch computes sums in."""
    if dtype is None:
        dtype = torch.float32 if x.dtype in _HALF else x.dtype
    return x if x.dtype == dtype else Jet(x.coefficients.to(dtype), x.truncation)


# Moments


@rule("var")
def var(
    input: Jet,
    dim: Dims | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the variance over some dimensions, or all."""
    return var_mean(input, dim, unbiased, keepdim, correction=correction)[0]


@rule("std")
def std(
    input: Jet,
    dim: Dims | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the standard deviation over some dimensions, or all."""
    return std_mean(input, dim, unbiased, keepdim, correction=correction)[0]


@rule("std_mean")
def std_mean(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean."""
    variance, mean = var_mean(*args, **kwargs)
    return root(variance), mean


@rule("var_mean")
def var_mean(
    input: Jet,
    dim: Dims | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean."""
    if isinstance(dim, bool):  # `var(x, unbiased)`
        unbiased = dim
    dims = _dims(input, None if isinstance(dim, bool) else dim)
    mean = input.mean(dims, keepdim=True)
    count = math.prod(input.shape[d] for d in dims)
    freedom = max(count - (int(unbiased) if correction is None else correction), 0)
    variance = (input - mean).square().sum(dims, keepdim=keepdim) / freedom
    return variance, mean if keepdim else mean.squeeze(dims)


def _dims(x: Tensor, dim: Dims | None) -> tuple[int, ...]:
    """Return dimensions, all if none are given."""
    if dim is None or dim in ((), []):
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def root(x: Tensor) -> Tensor:
    r"""Return $\sqrt x$, without derivatives where it is zero, which is how torch takes norms."""
    zero = value_of(x) == 0
    return torch.where(zero, 0, torch.where(zero, 1, x).sqrt())


# Products


@rule("prod")
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the product over a dimension, or of all elements; any may be zero."""
    x = input if dtype is None else input.to(dtype)
    if dim is None:
        x, dim, keepdim = x.reshape(-1), 0, False
    if x.ndim == 0:
        return x
    if x.shape[dim] == 0:
        return torch.ones_like(x.sum(dim, keepdim=keepdim))
    while x.shape[dim] > 1:  # halves are multiplied, so that nothing is divided
        half = x.shape[dim] // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        odd = x.narrow(dim, 2 * half, x.shape[dim] - 2 * half)
        x = torch.cat([product, odd], dim)
    return x if keepdim else x.squeeze(dim)


@rule("cumprod")
def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the products of all elements up to each; any may be zero."""
    return _scanned(torch.mul, input if dtype is None else input.to(dtype), dim)


@rule("logcumsumexp")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    r"""Return $\log \sum_{j \le i} e^{x_j}$ for all $i$."""
    return _scanned(logaddexp, input, dim)


def _scanned(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """Return what an associative function makes of all elements up to each, by doubling."""
    length, step = x.shape[dim] if x.ndim else 1, 1
    while step < length:
        rest = length - step
        both = function(x.narrow(dim, 0, rest), x.narrow(dim, step, rest))
        x = torch.cat([x.narrow(dim, 0, step), both], dim)
        step *= 2
    return x


# Soft maxima


@rule("logsumexp")
def logsumexp(input: Jet, dim: Dims, keepdim: bool = False) -> Tensor:
    r"""Return $\log \sum e^x$ over some dimensions."""
    dims = _dims(input, dim)
    result = _logsumexp(widened(input), dims).to(input.dtype)
    return result if keepdim or not input.ndim else result.squeeze(dims)


def _logsumexp(x: Jet, dims: tuple[int, ...]) -> Tensor:
    r"""Return $\log \sum e^x$, and keep the dimensions."""
    value = x.value.logsumexp(dims, True)
    if x.degree == 0:
        return Jet(value[None], x.truncation)
    if x.truncation.order > 2:
        shift = _finite(value.detach())
        return (x - shift).exp().sum(dims, keepdim=True).log() + shift
    p = (x.value - _finite(value)).exp()
    mean, _, rest = _moments(x, p, dims)
    return Jet(
        torch.cat([value[None], mean, *((p * q).sum(_places(dims), True) for q in rest)]),
        x.truncation,
    )


def _finite(shift: Tensor) -> Tensor:
    """Return what to subtract from exponents, which must not make numbers of infinite ones."""
    return shift.masked_fill(shift.isinf(), 0)


def _places(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(beside(d) for d in dims)


def _moments(x: Jet, p: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, list[Tensor]]:
    r"""Return $\sum p u_{1i}$, $d_i$ and, if there are second coefficients, $q$."""
    slopes = x.part(1)
    mean = (p * slopes).sum(_places(dims), True)
    deviation = slopes - mean
    if x.truncation.order == 1:
        return mean, deviation, []
    spread = deviation.square().sum(0, True) / 2
    return mean, deviation, [spread + x.part(2) if x.degree == 2 else spread]


@rule("softmax")
def softmax(input: Jet, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    r"""Return $e^x / \sum e^x$."""
    x, place = _arguments("softmax", input, dim, *args, **kwargs)
    return softmax_by(torch.softmax, widened(x), place).to(x.dtype)


def softmax_by(function: Callable[[Tensor, int], Tensor], x: Jet, dim: int) -> Tensor:
    """Return the softmax, given how to compute its value."""
    value = function(x.value, dim)
    if x.degree == 0:
        return Jet(value[None], x.truncation)
    if x.truncation.order > 2:
        powers = (x - _finite(x.value.detach().amax(dim, True))).exp()
        total = powers.sum(dim, keepdim=True)
        return powers / torch.where(value_of(total) == 0, 1, total)
    _, deviation, rest = _moments(x, value, (dim,))
    second = [q - (value * q).sum(beside(dim), True) for q in rest]
    return Jet(torch.cat([value[None], value * torch.cat([deviation, *second])]), x.truncation)


@rule("log_softmax")
def log_softmax(input: Jet, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    r"""Return $x - \log \sum e^x$."""
    x, place = _arguments("log_softmax", input, dim, *args, **kwargs)
    wide = widened(x)
    return (wide - _logsumexp(wide, (place,))).to(x.dtype)


@rule(functional.softmin)
def softmin(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the softmax of $-x$."""
    return functional.softmax(-input, *args, **kwargs)


def _arguments(
    name: str,
    x: Jet,
    dim: int | None,
    third: torch.dtype | int | None = None,
    dtype: torch.dtype | None = None,
    _stacklevel: int = 3,
) -> tuple[Jet, int]:
    """Return the tensor and the dimension; the third argument is a type to `torch` alone."""
    dtype = third if isinstance(third, torch.dtype) else dtype
    if dim is None:
        dim = functional._get_softmax_dim(name, x.ndim, _stacklevel + 2)  # type: ignore[attr-defined]
    return widened(x, dtype or x.dtype), dim


@rule("logaddexp")
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\log(e^a + e^b)$."""
    return torch.stack(torch.broadcast_tensors(input, other)).logsumexp(0)  # type: ignore[no-untyped-call]


@rule("logaddexp2")
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\log_2(2^a + 2^b)$."""
    scale = math.log(2)
    return logaddexp(input * scale, other * scale) / scale


# Functions of two


@rule("hypot")
def hypot(input: Tensor, other: Tensor) -> Tensor:
    r"""Return $\sqrt{a² + b²}$."""
    return root(input.square() + other.square())


@rule("atan2", "arctan2")
def atan2(input: Tensor, other: Tensor) -> Tensor:
    r"""Return the angle of $(x, y)$: turned by a constant angle $θ$, $θ + \arctan(y' / x')$."""
    y, x = input, other
    angle = torch.atan2(value_of(y).detach(), value_of(x).detach())
    sine, cosine = angle.sin(), angle.cos()
    return angle + ((y * cosine - x * sine) / (x * cosine + y * sine)).atan()


@rule("xlogy")
def xlogy(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log b$, and zero where $a$ is."""
    return _times_log(torch.log, input, other, 0)


@rule(torch.special.xlog1py)
def xlog1py(input: Operand, other: Operand) -> Tensor:
    r"""Return $a \log(1 + b)$, and zero where $a$ is."""
    return _times_log(torch.log1p, input, other, -1)


def _times_log(log: Callable[[Tensor], Tensor], a: Any, b: Any, pole: float) -> Tensor:
    nothing = (value_of(a) == 0) & (value_of(b) <= pole)
    like = a if isinstance(a, Jet) else b
    safe = torch.where(torch.as_tensor(nothing), pole + 1, lifted(b, like))
    return torch.where(torch.as_tensor(nothing), 0, a * log(safe))


# Norms and distances


@rule(torch.linalg.vector_norm)
def vector_norm(
    x: Jet,
    ord: float = 2,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Return $(\sum |x|^p)^{1/p}$ over some dimensions, or all."""
    x, dims = widened(x, dtype or x.dtype), _dims(x, dim)
    if ord == 2:
        return root(x.square().sum(dims, keepdim=keepdim))
    if ord == 0:
        count: Tensor = torch.linalg.vector_norm(x.value.detach(), 0, dims, keepdim)
        return count
    if ord in {1, math.inf, -math.inf}:
        warn_of_kink("norm", x)
    if math.isinf(ord):
        return (amax if ord > 0 else amin)(absolute(x), dims, keepdim)
    total = (absolute(x) ** ord if ord != 1 else absolute(x)).sum(dims, keepdim=keepdim)
    return total if ord == 1 else _power_or_zero(total, 1 / ord)


def _power_or_zero(x: Tensor, p: float) -> Tensor:
    """Return $x^p$, without derivatives where $x$ is zero."""
    zero = value_of(x) == 0
    return torch.where(zero, 0, torch.where(zero, 1, x) ** p)


_NO_SINGULAR_VALUES = (
    "Taylor has no rule for the norm of order {!r}, which needs singular values: use that of "
    "Frobenius, or let another engine differentiate models that need it, with "
    "`Taylor(fallback=Autodiff())`"
)


@rule("norm")
def norm(
    input: Jet,
    p: float | str | None = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    out: None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a norm of vectors, or the Frobenius norm of matrices.

    Raises:
        MissingRule: If it is the nuclear norm.
    """
    if p == "nuc":
        raise MissingRule(_NO_SINGULAR_VALUES.format(p))
    order = 2.0 if p is None or isinstance(p, str) else p
    return vector_norm(input, order, dim, keepdim, dtype=dtype)


@rule(torch.linalg.norm)
def linalg_norm(
    A: Jet,
    ord: float | str | None = None,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a norm of vectors, or of matrices if there is an order for two dimensions."""
    dims = _dims(A, dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    return vector_norm(A, float(ord), dims, keepdim, dtype=dtype)


@rule(torch.linalg.matrix_norm)
def matrix_norm(
    A: Jet,
    ord: float | str = "fro",
    dim: tuple[int, ...] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a norm of matrices: Frobenius, or the extreme sum of rows or columns.

    Raises:
        MissingRule: If it needs singular values.
    """
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if isinstance(ord, str) or abs(ord) == 2:
        raise MissingRule(_NO_SINGULAR_VALUES.format(ord))
    warn_of_kink("norm", A)
    row, column = dim if math.isinf(ord) else dim[::-1]
    x = absolute(widened(A, dtype or A.dtype))
    sums: Any = x.sum(column, keepdim=True)
    result: Tensor = (amax if ord > 0 else amin)(sums, row, True)
    return result if keepdim else result.squeeze(dim)


@rule("dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of a difference."""
    difference: Any = input - other
    return vector_norm(difference, p)


@rule("pairwise_distance")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return norms of differences along the last dimension."""
    difference: Any = x1 - x2 + eps
    return vector_norm(difference, p, -1, keepdim)


_FEW = 25


@rule(torch.cdist)
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Return norms of differences of all pairs of rows; of many by their inner products."""
    if (
        p != 2
        or compute_mode == "donot_use_mm_for_euclid_dist"
        or max(x1.shape[-2], x2.shape[-2]) <= _FEW
    ):
        difference: Any = x1.unsqueeze(-2) - x2.unsqueeze(-3)
        return vector_norm(difference, p, -1)
    squares = x1.square().sum(-1)[..., None] + x2.square().sum(-1)[..., None, :]
    y: Any = squares - 2 * x1 @ x2.mT
    value = torch.cdist(value_of(x1), value_of(x2)).square()
    return root(Jet(torch.cat([value[None], y.coefficients[1:]]), y.truncation))


@rule("pdist")
def pdist(input: Jet, p: float = 2.0) -> Tensor:
    """Return norms of differences of all pairs of different rows."""
    n = input.shape[0]
    i, j = torch.triu_indices(n, n, 1, device=input.device)
    difference: Any = input[i] - input[j]
    return vector_norm(difference, p, -1)


@rule("cosine_similarity")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    r"""Return $a^T b / ‖a‖ ‖b‖$."""
    a, b = torch.broadcast_tensors(x1, x2)  # type: ignore[no-untyped-call]
    return (
        functional.normalize(a, dim=dim, eps=eps) * functional.normalize(b, dim=dim, eps=eps)
    ).sum(dim)


@rule(functional.normalize)
def normalize(
    input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: None = None
) -> Tensor:
    """Return vectors divided by their norms, unless these are tiny."""
    return input / clamp(torch.linalg.vector_norm(input, p, dim, True), eps)


# Losses


def _reduced(
    loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Tensor:
    """Return the mean of a loss, its sum, or all of it."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    if reduction == "none":
        return loss
    _reduction.get_enum(reduction)  # raises if there is no such
    return loss.mean() if reduction == "mean" else loss.sum()


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, *legacy: bool | None) -> Tensor:
    """Return the weighted mean of a loss, its weighted sum, or all of it."""
    if weight is None:
        return _reduced(loss, reduction, *legacy)
    total = _reduced(loss * weight, "sum" if reduction == "mean" else reduction)
    return total / weight.sum() if reduction == "mean" else total


@rule(functional.mse_loss)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return squares of differences."""
    return _weighted((input - target).square(), weight, reduction, size_average, reduce)


@rule(functional.binary_cross_entropy)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $-y \log p - (1 - y) \log(1 - p)$, with logarithms of at least -100."""
    yes, no = clamp(input.log(), -100), clamp((1 - input).log(), -100)
    loss = (target - 1) * no - target * yes
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@rule(functional.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    r"""Return $(1 - y) x - (1 + (w - 1) y) \log σ(x)$."""
    scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input - scale * functional.logsigmoid(input)
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@rule(functional.gaussian_nll_loss)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Operand,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $\tfrac12 (\log σ² + (x - y)² / σ²)$.

    Raises:
        ValueError: If a variance is negative.
    """
    variance = var if isinstance(var, Tensor) else torch.full_like(value_of(input), var)
    if (value_of(variance) < 0).any():
        raise ValueError("a variance is negative")
    if variance.shape == input.shape[:-1]:
        variance = variance.unsqueeze(-1)
    variance = clamp(variance, eps) if isinstance(variance, Jet) else variance.clamp(eps)
    loss = 0.5 * (variance.log() + (input - target).square() / variance)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@rule(functional.poisson_nll_loss)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Return $e^x - y x$, or $x - y \log x$, with Stirling's approximation of $\log y!$."""
    logarithm = input if log_input else (input + eps).log()
    loss = (input.exp() if log_input else input) - target * logarithm
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + torch.where(value_of(target) <= 1, 0, stirling)
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.kl_div)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    r"""Return $q (\log q - x)$ for $x = \log p$."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = torch.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0]
    return _reduced(loss, reduction, size_average, reduce)


@rule(functional.nll_loss)
def nll_loss(input: Jet, target: Tensor, *args: Any, **kwargs: Any) -> Jet:
    """Return the losses of classes, which are linear in their log-probabilities."""
    rows = [functional.nll_loss(c, target, *args, **kwargs) for c in input.coefficients]
    return Jet(torch.stack(rows), input.truncation)


@rule(functional.cross_entropy)
def cross_entropy(
    input: Jet,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the loss of classes, or of their probabilities.

    Raises:
        MissingRule: If labels are to be smoothed.
    """
    if label_smoothing:
        raise MissingRule("Taylor has no rule for `cross_entropy` with `label_smoothing`")
    dim = min(1, input.ndim - 1)
    logarithms = functional.log_softmax(input, dim)
    if not target.is_floating_point():
        return functional.nll_loss(
            logarithms, target, weight, size_average, ignore_index, reduce, reduction
        )
    if weight is not None:
        target = target * weight.reshape(-1, *[1] * (input.ndim - 1 - dim))
    return _reduced(-(target * logarithms).sum(dim), reduction, size_average, reduce)


# Dropout


def _dropping(mask: Callable[[Tensor, float, bool], Tensor]) -> Callable[..., Jet]:
    """Return the rule of a dropout: one mask for all coefficients."""

    def applied(
        input: Jet, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: bool
    ) -> Jet:
        if not kwargs.get("train", training):
            return input
        kept_ones = mask(torch.ones_like(input.value.detach()), p, True)
        x = kept(input) if inplace else input
        result = Jet(x.coefficients * kept_ones, x.truncation)
        return replace(input, result) if inplace else result

    return applied


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"):
    rule(_name)(_dropping(getattr(functional, _name, torch.feature_dropout)))


def _alpha_dropping(shape: Callable[[Tensor], Sequence[int]]) -> Callable[..., Tensor]:
    r"""Return the rule of a dropout to $-α$ that keeps mean and variance."""

    def applied(
        input: Jet, p: float = 0.5, training: bool = False, inplace: bool = False, **kwargs: bool
    ) -> Tensor:
        if p == 0 or not kwargs.get("train", training):
            return input
        if p == 1:
            return input * 0
        noise = input.value.new_empty(shape(input.value)).bernoulli_(1 - p)
        scale = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5
        x = kept(input) if inplace else input
        result: Any = x * (scale * noise) + _ALPHA * scale * (noise - 1 + p)
        return replace(input, result) if inplace else result

    return applied


_ALPHA = 1.7580993408473766
rule("alpha_dropout")(_alpha_dropping(lambda x: x.shape))
rule("feature_alpha_dropout")(_alpha_dropping(lambda x: [*x.shape[:2], *[1] * (x.ndim - 2)]))


# Inverses and determinants


def _nilpotent(x: Jet) -> Jet:
    """Return the part of a series without its value, whose powers end."""
    c = x.coefficients
    return Jet(torch.cat([torch.zeros_like(c[:1]), c[1:]]), x.truncation)


@rule(torch.linalg.solve)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    r"""Return $x = A^{-1} b$, or $b A^{-1}$, from $x ← A_0^{-1} (b - (A - A_0) x)$."""
    return _solved(A, B, left, torch.linalg.solve, lambda x: x)


@rule(torch.linalg.solve_triangular)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    r"""Return $x = A^{-1} b$, or $b A^{-1}$, for a triangular matrix."""

    def solution(a: Tensor, b: Tensor, left: bool) -> Tensor:
        result: Tensor = torch.linalg.solve_triangular(
            a, b, upper=upper, left=left, unitriangular=unitriangular
        )
        return result

    def triangle(x: Tensor) -> Tensor:
        return x.triu(int(unitriangular)) if upper else x.tril(-int(unitriangular))

    return _solved(A, B, left, solution, triangle)


def _solved(
    a: Tensor,
    b: Tensor,
    left: bool,
    solution: Callable[..., Tensor],
    used: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the solution of an equation, given how to find it with the value of the matrix."""
    like: Any = a if isinstance(a, Jet) else b
    matrix, target = lifted(a, like), lifted(b, like)
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return _solved(a, b.unsqueeze(-1), left, solution, used).squeeze(-1)
    ndim = max(a.ndim, b.ndim)
    matrix, target = aligned(matrix, ndim), aligned(target, ndim)

    def divided(x: Any) -> Jet:
        return Jet(solution(matrix.value[None], x.coefficients, left=left), x.truncation)

    result = divided(target)
    if matrix.degree:
        rest = used(_nilpotent(matrix))
        for _ in range(matrix.truncation.order):
            result = divided(target - (rest @ result if left else result @ rest))
    return result


@rule("inverse", torch.linalg.inv)
def inverse(A: Jet) -> Tensor:
    """Return the inverse of matrices."""
    return solve(A, torch.eye(A.shape[-1], dtype=A.dtype, device=A.device))


def _log_ratio(a: Jet) -> Tensor:
    r"""Return $\log \det(1 + E) = -\sum_k \mathrm{tr}((-E)^k) / k$ for $E = A_0^{-1} A - 1$."""
    excess: Tensor = Jet(
        torch.linalg.solve(a.value[None], _nilpotent(a).coefficients), a.truncation
    )
    power, total = excess, torch.einsum("...ii->...", excess)
    for k in range(2, a.truncation.order + 1):
        power = -(power @ excess)
        total = total + torch.einsum("...ii->...", power) / k
    return total


@rule("slogdet")
def slogdet(A: Jet) -> Any:
    """Return the sign of the determinant, and the logarithm of its size."""
    found = torch.linalg.slogdet(A.value)
    return type(found)((found.sign, found.logabsdet + _log_ratio(A)))


@rule("logdet")
def logdet(A: Jet) -> Tensor:
    """Return the logarithm of the determinant."""
    return torch.logdet(A.value) + _log_ratio(A)


@rule("det")
def det(A: Jet) -> Tensor:
    """Return the determinant of invertible matrices."""
    value: Tensor = torch.linalg.det(A.value)
    return value * _log_ratio(A).exp()


@rule("cholesky")
def cholesky(A: Jet, upper: bool = False) -> Tensor:
    r"""Return $L$ with $A = L L^T$, from $L ← L + L_0 Φ(L_0^{-1} (A - L L^T) L_0^{-T})$.

    $Φ$ takes the lower triangle and half of the diagonal.
    """
    first = torch.linalg.cholesky(A.value)
    result: Tensor = Jet(first[None], A.truncation)
    for _ in range(A.truncation.order):
        rest: Any = A - result @ result.mT
        scaled = torch.linalg.solve_triangular(first, _nilpotent(rest), upper=False)
        scaled = torch.linalg.solve_triangular(first.mT, scaled, upper=True, left=False)
        result = result + first @ (scaled.tril(-1) + scaled.tril()) / 2
    return result.mT if upper else result
