"""Loss functions and their reductions."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fdsm.derivatives import KinkWarning, MissingRule, Taylor

from ..agreement import assert_agrees
from .operand_cases import MASK, WEIGHT, MatrixOp, check_matrices

SMOOTH: dict[str, MatrixOp] = {
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
    "soft_margin": lambda a, b, c: F.soft_margin_loss(b, c.detach().sign())
    + F.soft_margin_loss(a, c.detach().sign(), reduction="none"),
    "multilabel_soft_margin": lambda a, b, c: F.multilabel_soft_margin_loss(b, MASK.expand(4, 5))
    + F.multilabel_soft_margin_loss(a, c.sigmoid(), WEIGHT[0], reduction="none"),
    "nll": lambda a, b, c: F.nll_loss(b, torch.tensor([0, 2, 4, 1]), WEIGHT[0]),
}  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH.values(), ids=SMOOTH)
def test_agrees_with_autodiff(op: MatrixOp) -> None:
    check_matrices(op)


KINKED: dict[str, MatrixOp] = {
    "abs": lambda a, b, c: F.smooth_l1_loss(a, c, beta=0.0) + F.smooth_l1_loss(b, a, beta=0),
    "huber_loss": lambda a, b, c: F.huber_loss(a, b)
    + F.huber_loss(b, c, reduction="none", delta=0.4) + F.huber_loss(b, c, "sum", 0.7, WEIGHT),
    "smooth_l1_loss": lambda a, b, c: F.smooth_l1_loss(a, b, reduction="sum")
    + F.smooth_l1_loss(b, c, reduction="none", beta=0.3),
    "clamp_min": lambda a, b, c: F.margin_ranking_loss(a, b, c.sign(), 0.1)
    + F.margin_ranking_loss(b, c, c.sign(), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "op"), KINKED.items())
def test_losses_with_kinks(name: str, op: MatrixOp) -> None:
    with pytest.warns(KinkWarning, match=name):
        check_matrices(op)


@pytest.mark.parametrize("name", ["bce_with_logits"])
def test_high_orders_agree_with_autodiff(name: str) -> None:
    check_matrices(SMOOTH[name], orders=(4,), directions=(), rtol=1e-8)


@pytest.mark.parametrize(
    ("loss", "error"),
    [
        (lambda x: F.mse_loss(x, x, reduction="all"), "not a valid value for reduction"),
        (lambda x: F.gaussian_nll_loss(x, x, x * 0 - 1), "negative entries"),
    ],
)
def test_wrong_arguments_are_refused(loss: Callable[[Tensor], Tensor], error: str) -> None:
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


def test_the_l1_loss_is_refused() -> None:
    """Torch drops the weights on the way to the rule."""
    x = torch.randn(2, 3)
    with pytest.raises(MissingRule, match="weights"):
        Taylor().jet(lambda x: F.l1_loss(x, 2 * x, reduction="none", weight=x).sum(1), x, x, 1)


def test_label_smoothing_is_refused() -> None:
    f = lambda x: F.cross_entropy(x, torch.tensor([1, 0]), label_smoothing=0.1)[None]
    with pytest.raises(MissingRule, match="Taylor has no rule for"):
        Taylor().jet(f, torch.randn(2, 3), torch.randn(2, 3), 1)
