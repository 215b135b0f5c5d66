"""Functions over dimensions agree with Autodiff in all their forms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, linalg
from torch.nn import functional as F

from fdsm.derivatives import Autodiff
from fdsm.derivatives.taylor import Jet, MissingRule, Taylor
from fdsm.derivatives.taylor.kinks import KinkWarning

from .agreement import assert_agrees

Op = Callable[[Tensor, Tensor, Tensor], Any]
"""Of an input of degree one, one of all degrees, and a constant, each of shape `(4, 5)`."""


def check(
    op: Op,
    orders: Sequence[int] = (1, 2),
    directions: Sequence[int] = (3,),
    rtol: float = 1e-10,
) -> None:
    g = torch.Generator().manual_seed(0)
    first, second = (torch.randn(6, 20, generator=g) / 2 for _ in range(2))
    constant, x = torch.randn(4, 5, generator=g), torch.randn(2, 6, generator=g)

    def one(x: Tensor) -> Tensor:
        a, b = (x @ first).reshape(4, 5), (x @ second).tanh().reshape(4, 5)
        found = op(a, b, constant)
        return sum(map(_combined, found if isinstance(found, tuple) else (found,)))  # type: ignore[return-value]

    def f(x: Tensor) -> Tensor:
        return torch.stack([one(row) for row in x])

    assert_agrees(f, x, first, second, constant, orders=orders, directions=directions, rtol=rtol)


def _combined(y: Tensor) -> Tensor:
    """Return a sum in which every element has another weight."""
    return (torch.linspace(1, 2, y.numel()).reshape(y.shape) * y).sum()


def on_jets(rule: Callable[..., Any], otherwise: Callable[..., Any]) -> Op:
    """Return a function to be differentiated by Taylor, and what Autodiff gets instead."""
    return lambda a, *others: (rule if isinstance(a, Jet) else otherwise)(a, *others)


def spd(a: Tensor, b: Tensor) -> Tensor:
    """Return a positive matrix that depends on two jets."""
    return a @ a.mT + b @ b.mT + torch.eye(4)


MASK = torch.tensor([[1, 1, 0, 1, 1]], dtype=torch.float64)
WEIGHT = torch.linspace(0.5, 2, 20, dtype=torch.float64).reshape(4, 5)

SMOOTH: dict[str, Op] = {
    "var": lambda a, b, c: a.var(),
    "var_dim": lambda a, b, c: b.var(1, False, True) * c,
    "var_unbiased": lambda a, b, c: torch.var(b, False),
    "var_correction": lambda a, b, c: torch.var(a, dim=(0, 1), correction=2, keepdim=True),
    "var_none": lambda a, b, c: torch.var(a * c, None, correction=0),
    "std": lambda a, b, c: b.std(-1) + torch.std(a, (0,), unbiased=False, keepdim=True).sum(),
    "var_mean": lambda a, b, c: torch.var_mean(b, 0, keepdim=True),
    "std_mean": lambda a, b, c: torch.std_mean(b * c, dim=1, correction=0),
    "prod": lambda a, b, c: (a * c).prod(),
    "prod_dim": lambda a, b, c: torch.prod(b, 1, True) + b.prod(-2, dtype=torch.float64).sum(),
    "prod_of_zero": lambda a, b, c: (a * MASK).prod(1) + (b * MASK).prod(-1, keepdim=True),
    "prod_of_zeros": lambda a, b, c: ((a - a.detach()) * b).prod(1),
    "cumprod": lambda a, b, c: a.cumprod(0) + torch.cumprod(b * MASK, dim=-1),
    "logsumexp": lambda a, b, c: a.logsumexp(1, True) + torch.logsumexp(b + c, (0, 1)),
    "special_logsumexp": lambda a, b, c: torch.special.logsumexp(b, -1, keepdim=False),
    "softmax": lambda a, b, c: a.softmax(0) * torch.softmax(b, -1) + F.softmax(a + c, dim=1),
    "softmax_dtype": lambda a, b, c: F.softmax(b, -1, dtype=torch.float64) * torch.softmax(
        a, 1, torch.float64
    ) + torch.special.softmax(b, 0, dtype=torch.float64),
    "log_softmax": lambda a, b, c: a.log_softmax(1) * F.log_softmax(b, -1) + torch.log_softmax(
        b + c, 0
    ) + torch.special.log_softmax(a, -2),
    "softmin": lambda a, b, c: F.softmin(a, dim=1) + F.softmin(b, dim=0),
    "logaddexp": lambda a, b, c: torch.logaddexp(a, b) + torch.logaddexp(c, a) + b.logaddexp(c),
    "logaddexp2": lambda a, b, c: torch.logaddexp2(a, b) + torch.logaddexp2(c[0], b),
    "hypot": lambda a, b, c: torch.hypot(a, b) + torch.hypot(c, a) + b.hypot(c),
    "atan2": lambda a, b, c: torch.atan2(a, b) + torch.atan2(c, a) + b.atan2(c[:, :1]),
    "arctan2": lambda a, b, c: torch.arctan2(-a.square() - 1, b) + torch.arctan2(a, -b.exp()),
    "xlogy": lambda a, b, c: torch.xlogy(a, b.exp() + 1) + torch.xlogy(c, a.exp()),
    "xlogy_numbers": lambda a, b, c: torch.xlogy(2.0, b + 2) + a.xlogy(3.0) + torch.special.xlogy(
        b, c.exp()
    ),
    "xlogy_of_zero": lambda a, b, c: torch.xlogy(MASK, b + 2) + torch.xlogy(a - a.detach(), b + 2),
    "xlog1py": lambda a, b, c: torch.special.xlog1py(a, b + 1) + torch.special.xlog1py(c, b),
    "norm": lambda a, b, c: a.norm() + torch.norm(b, dim=1).sum() + b.norm(2, 0, True),
    "norm_dtype": lambda a, b, c: torch.norm(a, 2, 1, False, None, torch.float64)
    + b.norm(2, 1, False, torch.float64),
    "norm_4": lambda a, b, c: torch.norm(a, 4, dim=(0, 1)) + b.norm(p=3.5, dim=-1),
    "linalg_norm": lambda a, b, c: linalg.norm(a) + linalg.norm(b, dim=1, keepdim=True),
    "linalg_norm_fro": lambda a, b, c: linalg.norm(b, "fro") + linalg.norm(a, 4, dim=1),
    "vector_norm": lambda a, b, c: linalg.vector_norm(b - c, 2, dim=(0,)).sum()
    + linalg.vector_norm(a, ord=3, dtype=torch.float64),
    "matrix_norm": lambda a, b, c: linalg.matrix_norm(b) * linalg.matrix_norm(a, keepdim=True),
    "dist": lambda a, b, c: torch.dist(a, b) + a.dist(c, 3) + torch.dist(c, b, p=2),
    "pairwise": lambda a, b, c: F.pairwise_distance(a, b, keepdim=True)
    + torch.pairwise_distance(c, b, 4, 1e-3)[:, None],
    "cosine": lambda a, b, c: F.cosine_similarity(a, b) + torch.cosine_similarity(c[0], b, dim=-1),
    "normalize": lambda a, b, c: F.normalize(a) * F.normalize(b, p=4, dim=0) + F.normalize(
        b, dim=-1, eps=1e-3
    ),
    "mse": lambda a, b, c: F.mse_loss(a, b) + F.mse_loss(c, a, reduction="sum"),
    "mse_weighted": lambda a, b, c: F.mse_loss(a, c, reduction="none", weight=c)
    + F.mse_loss(b, a, weight=c.exp()),
    "bce": lambda a, b, c: F.binary_cross_entropy(a.sigmoid(), c.sigmoid())
    + F.binary_cross_entropy(b.square() / 2 + 0.1, c.sigmoid(), WEIGHT, reduction="none"),
    "bce_of_bits": lambda a, b, c: F.binary_cross_entropy(a.sigmoid(), MASK.expand(4, 5)),
    "bce_of_certainties": lambda a, b, c: F.binary_cross_entropy(
        torch.where(MASK > 0, torch.where(c > 0, 1.0, 0.0) + 0 * a, a.sigmoid()), WEIGHT / 3
    ),
    "bce_with_logits": lambda a, b, c: F.binary_cross_entropy_with_logits(a, b.sigmoid())
    + F.binary_cross_entropy_with_logits(
        b, MASK.expand(4, 5), WEIGHT, pos_weight=WEIGHT[0], reduction="sum"
    ),
    "gaussian": lambda a, b, c: F.gaussian_nll_loss(a, c, b.exp(), full=True)
    + F.gaussian_nll_loss(b, a, c[:, 0].exp(), reduction="none")
    + F.gaussian_nll_loss(c, b, 0.7, reduction="sum"),
    "poisson": lambda a, b, c: F.poisson_nll_loss(b, c.exp(), full=True)
    + F.poisson_nll_loss(b.exp(), c.exp(), log_input=False, reduction="none"),
    "kl": lambda a, b, c: F.kl_div(a, c.exp(), reduction="sum")
    + F.kl_div(b, a, reduction="batchmean", log_target=True)
    + F.kl_div(c, b.exp(), reduction="none"),
    "cross_entropy": lambda a, b, c: F.cross_entropy(a, torch.tensor([0, 2, 4, 1]))
    + F.cross_entropy(b, torch.tensor([0, 2, -100, 1]), WEIGHT[0], reduction="none")
    + F.cross_entropy(b, c.softmax(1), c[0].exp())
    + F.cross_entropy(a[0], torch.tensor(1)),
    "nll": lambda a, b, c: F.nll_loss(b, torch.tensor([0, 2, 4, 1]), WEIGHT[0]),
    "inverse": lambda a, b, c: torch.inverse(spd(a, b)) + linalg.inv(spd(b, c))
    + spd(a, c).inverse(),
    "solve": lambda a, b, c: linalg.solve(spd(a, b), c) * linalg.solve(spd(c, c), a)
    + linalg.solve(spd(b, c), a),
    "solve_vectors": lambda a, b, c: linalg.solve(spd(a, b), a[:, 0])
    + linalg.solve(spd(a, b), c.mT, left=False).sum()
    + linalg.solve(torch.stack([spd(a, b), spd(a, c)]), torch.stack([c[:, 0], b[:, 1]])).sum(),
    "solve_triangular": lambda a, b, c: linalg.solve_triangular(b[:, :4].cosh(), a, upper=True)
    + linalg.solve_triangular(c[:, :4].exp(), b, upper=False)
    + linalg.solve_triangular(b[:, 1:], c.mT, upper=False, left=False, unitriangular=True).mT,
    "slogdet": lambda a, b, c: torch.slogdet(spd(a, b))[1] + linalg.slogdet(-spd(a, c)).logabsdet,
    "logdet": lambda a, b, c: spd(a, b).logdet()
    + torch.logdet(torch.stack([spd(b, c), spd(a, a)])),
    "det": lambda a, b, c: torch.det(a[:, :4] + 3 * torch.eye(4)) + linalg.det(spd(b, c)),
    "cholesky": lambda a, b, c: linalg.cholesky(spd(a, b))
    + linalg.cholesky(spd(b, c), upper=True).mT,
    "cholesky_not_symmetric": lambda a, b, c: linalg.cholesky(spd(a, b) + (a * b)[:, :4] / 9)
    + linalg.cholesky(spd(b, c) + (a * c)[:, 1:] / 9, upper=True).mT,
}  # fmt: skip

REPLACED: dict[str, Op] = {
    "cdist": on_jets(
        lambda a, b, c: torch.cdist(a, b) * torch.cdist(c, b, p=3.0)
        + torch.cdist(a, c[:3], 4.0).sum(),
        lambda a, b, c: _distances(a, b, 2) * _distances(c, b, 3) + _distances(a, c[:3], 4).sum(),
    ),
    "cdist_of_many": on_jets(
        lambda a, b, c: torch.cdist(_many(a), b) * torch.cdist(_many(c), b),
        lambda a, b, c: _distances(_many(a), b, 2) * _distances(_many(c), b, 2),
    ),
    "cdist_of_batches": on_jets(
        lambda a, b, c: torch.cdist(torch.stack([a, b]), c) + torch.cdist(c, torch.stack([b, a])),
        lambda a, b, c: _distances(torch.stack([a, b]), c, 2)
        + _distances(c, torch.stack([b, a]), 2),
    ),
    "cdist_to_itself": on_jets(
        lambda a, b, c: torch.cdist(b, b),
        lambda a, b, c: torch.stack([
            (p - q).norm() if i != j else p.sum() * 0
            for i, p in enumerate(b) for j, q in enumerate(b)
        ]),
    ),
    "pdist": on_jets(
        lambda a, b, c: F.pdist(b) + torch.pdist(a, 4.0),
        lambda a, b, c: torch.stack([
            (b[i] - b[j]).norm() + (a[i] - a[j]).norm(4) for i in range(4) for j in range(i + 1, 4)
        ]),
    ),
    "norm_of_zero": on_jets(
        lambda a, b, c: (a * 0).norm(dim=1) + b.norm(), lambda a, b, c: b.norm() + torch.zeros(4)
    ),
    "std_of_equal": on_jets(
        lambda a, b, c: (a * 0).std() + b.norm(), lambda a, b, c: b.norm()
    ),
    "logcumsumexp": on_jets(
        lambda a, b, c: a.logcumsumexp(0) + torch.logcumsumexp(b + c, dim=-1),
        lambda a, b, c: a.exp().cumsum(0).log() + (b + c).exp().cumsum(-1).log(),
    ),
}  # fmt: skip
"""Functions that Autodiff cannot differentiate twice, and what stands for them."""


def _distances(a: Tensor, b: Tensor, p: float) -> Tensor:
    return linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


def _many(a: Tensor) -> Tensor:
    """Return thirty rows, which torch subtracts by inner products."""
    return torch.cat([k / 3 + a for k in range(8)])[:30]


@pytest.mark.parametrize("op", (SMOOTH | REPLACED).values(), ids=SMOOTH | REPLACED)
def test_agrees_with_autodiff(op: Op) -> None:
    check(op)


HIGHER = [
    "var_dim", "prod_of_zeros", "cumprod", "logsumexp", "softmax", "log_softmax", "logaddexp",
    "hypot", "atan2", "xlogy", "norm", "norm_4", "cosine", "bce_with_logits", "inverse", "solve",
    "slogdet", "det", "cholesky",
]  # fmt: skip


@pytest.mark.parametrize("name", HIGHER)
def test_higher_orders(name: str) -> None:
    check(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_have_gradients(order: int) -> None:
    x, v, w = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    f = lambda w: Taylor().jet(lambda x: (x @ w).softmax(1)[:, 0], x, v, order)
    assert torch.autograd.gradgradcheck(f, w)


KINKED: dict[str, Op] = {
    "1": lambda a, b, c: a.norm(1) + torch.norm(b, p=1, dim=1),
    "inf": lambda a, b, c: linalg.vector_norm(a, math.inf, dim=0) + linalg.norm(b, math.inf, 0),
    "-inf": lambda a, b, c: torch.norm(b - c, -math.inf, dim=0) + a.norm(-math.inf),
    "of_columns": lambda a, b, c: linalg.matrix_norm(a, 1) + linalg.norm(b, -1, keepdim=True),
    "of_rows": lambda a, b, c: linalg.matrix_norm(b, math.inf) * linalg.norm(a, -math.inf),
}


@pytest.mark.parametrize("op", KINKED.values(), ids=KINKED)
def test_norms_with_kinks_agree_and_warn(op: Op) -> None:
    with pytest.warns(KinkWarning, match="`norm` has kinks"):
        check(op)


@pytest.mark.parametrize("p", [1, math.inf, -math.inf])
def test_norms_break_ties_as_autodiff_does(p: float) -> None:
    f, x, v = (lambda x: (x + 1).norm(p, 1) + x.norm(p, 1)), torch.zeros(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))


def test_the_number_of_nonzeros_is_constant() -> None:
    check(lambda a, b, c: linalg.vector_norm(b, 0, dim=1) * b.sum())


@pytest.mark.parametrize(
    "op",
    [
        lambda x: linalg.norm(x, 2),
        lambda x: linalg.matrix_norm(x, "nuc"),
        lambda x: x.norm("nuc"),
        lambda x: F.cross_entropy(x, torch.tensor([1, 0]), label_smoothing=0.1),
    ],
)
def test_what_has_no_rule_says_so(op: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(MissingRule, match="Taylor has no rule for"):
        Taylor().jet(lambda x: op(x)[None], torch.randn(2, 3), torch.randn(2, 3), 1)


@pytest.mark.parametrize(
    ("loss", "error"),
    [
        (lambda x: F.mse_loss(x, x, reduction="all"), "not a valid value for reduction"),
        (lambda x: F.gaussian_nll_loss(x, x, x * 0 - 1), "a variance is negative"),
    ],
)
def test_losses_refuse_what_torch_refuses(loss: Callable[[Tensor], Tensor], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Taylor().jet(loss, torch.randn(2, 3), torch.randn(2, 3), 1)


def test_classes_of_images() -> None:
    x, target = torch.randn(3, 4, 2), torch.tensor([[0, 3], [2, -100], [1, 1]])
    w, weight = torch.randn(4, 4), torch.rand(4)

    def f(x: Tensor) -> Tensor:
        y = torch.einsum("bcs,cd->bds", x, w)
        return F.cross_entropy(y, target, weight, reduction="none").sum(1)

    assert_agrees(f, x, w)
    assert_agrees(lambda x: F.cross_entropy(x, x.softmax(1), weight, reduction="none").sum(1), x)


STABLE = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: x.logsumexp(-1, True),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "logaddexp": lambda x: torch.logaddexp(x, 3 * x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("op", STABLE.values(), ids=STABLE)
def test_stable_for_large_exponents(op: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.tensor([[1e4, -1e4, 9.99e3], [-1e4, -1e4, -9.999e3]], dtype=dtype)
    w, v = torch.ones(3, dtype=dtype, requires_grad=True), torch.randn(2, 3, dtype=dtype)
    for order in (2, 3):
        found = Taylor().jet(lambda x: op(x * w).square().sum(1), x, v, order)
        truth = op(x).square().sum(1)
        torch.testing.assert_close(found[0], truth, rtol=0.02, atol=1e-3)
        gradient = torch.autograd.grad(sum(term.sum() for term in found), w)[0]  # type: ignore[union-attr]
        assert all(term.isfinite().all() and term.dtype == dtype for term in (*found, gradient))


@pytest.mark.parametrize("order", [2, 3])
def test_infinite_exponents_count_for_nothing(order: int) -> None:
    mask = torch.tensor([0, -torch.inf, 0])
    x, w = torch.randn(2, 3), torch.randn(3, 3)

    def f(x: Tensor) -> Tensor:
        y = x @ w
        masked = y + mask
        return (
            masked.softmax(1)[:, 0]
            + masked.logsumexp(1)
            + y.masked_fill(mask < 0, -torch.inf).log_softmax(1)[:, 2]
        )

    def without(x: Tensor) -> Tensor:
        y = (x @ w)[:, ::2]
        return y.softmax(1)[:, 0] + y.logsumexp(1) + y.log_softmax(1)[:, 1]

    assert_agrees(
        lambda x: (f if isinstance(x, Jet) else without)(x), x, w, orders=(order,), directions=(3,)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_in_few_digits(dtype: torch.dtype) -> None:
    x, v, w = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8, 8) / 2
    f = lambda x: (x @ w.to(x.dtype)).softmax(1)[:, 0]
    truth = Taylor().jet(f, x, v, 2)
    found = Taylor().jet(f, x.to(dtype), v.to(dtype), 2)
    rtol = 20 * torch.finfo(dtype).eps
    for a, b in zip(found, truth, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=rtol, atol=rtol * b.abs().max().item())


@pytest.mark.parametrize(
    "reduce",
    [
        lambda y: y.prod(), lambda y: y[:1].prod(0), lambda y: y[0].prod(0), lambda y: y[0].prod(),
        lambda y: y[:1].cumprod(0), lambda y: y[:1].logcumsumexp(0), lambda y: y[0].amax(),
        lambda y: y[0].max(), lambda y: y[0].sort()[0], lambda y: y[0].cumprod(0),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.taylor.kinks.KinkWarning")
def test_results_are_new(reduce: Callable[[Tensor], Tensor]) -> None:
    """Even of one element, so that writing into them leaves the input as it was."""

    def f(x: Tensor) -> Tensor:
        y = x[0].sin()
        reduce(y).add_(1)
        return y.cos().sum()[None]

    x, v = torch.randn(2, 1, 3)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


@pytest.mark.parametrize("drop", [F.dropout, F.dropout1d, F.alpha_dropout, torch.dropout])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_dropped_is_the_same_tensor(drop: Callable[..., Tensor], training: bool) -> None:
    """So that it changes with what becomes of it, as in torch."""

    def f(x: Tensor) -> Tensor:
        y = x.sin()
        drop(y, 0.0, training).mul_(3)
        return y.sum((1, 2))

    x, v = torch.randn(2, 3, 4, 2)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


DROPPING: dict[str, Callable[..., Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout1d": lambda x: F.dropout1d(x, 0.4),
    "dropout2d": lambda x: F.dropout2d(x[:, None], 0.4),
    "dropout3d": lambda x: F.dropout3d(x[:, None, None], 0.4),
    "alpha": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "feature_alpha": lambda x: F.feature_alpha_dropout(x, 0.4, training=True),
    "torch": lambda x: torch.dropout(x, 0.4, True),
    "torch_feature": lambda x: torch.feature_dropout(x, p=0.4, train=True),
    "torch_alpha": lambda x: torch.alpha_dropout(x, p=0.4, train=True),
    "all": lambda x: x + F.dropout(x, 1.0) + F.alpha_dropout(x, 1.0, training=True),
    "none": lambda x: F.dropout(x, 0.0) + F.alpha_dropout(x, 0.0, training=True),
}  # fmt: skip


@pytest.mark.parametrize("op", DROPPING.values(), ids=DROPPING)
def test_dropout_has_one_mask(op: Callable[[Tensor], Tensor]) -> None:
    """The one that the model itself draws after the same seed."""
    x, w = torch.randn(3, 4, 2), torch.randn(2, 6)

    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return op((x @ w).sin()).cos().reshape(3, -1).sum(1)

    assert_agrees(f, x, w)


def test_dropout_in_place_and_switched_off() -> None:
    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        y, z = x.sin(), x.cos()
        F.dropout(y, 0.3, inplace=True)
        F.alpha_dropout(z, 0.3, training=True, inplace=True)
        kept = F.dropout(x, 0.5, training=False) + torch.dropout(x, 0.5, train=False)
        return (y * z * F.alpha_dropout(kept, 0.5)).sum(1)

    assert_agrees(f, torch.randn(3, 9))
