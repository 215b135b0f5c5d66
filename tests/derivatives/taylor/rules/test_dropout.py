"""All coefficients share the mask of a dropout."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fdsm.derivatives import Autodiff, Taylor

from ..agreement import assert_agrees

DROPOUTS: dict[str, Callable[..., Tensor]] = {
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


@pytest.mark.parametrize("op", DROPOUTS.values(), ids=DROPOUTS)
def test_dropout_has_one_mask(op: Callable[[Tensor], Tensor]) -> None:
    """It is the mask that Autodiff draws after the same seed."""
    x, w = torch.randn(3, 4, 2), torch.randn(2, 6)

    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return op((x @ w).sin()).cos().reshape(3, -1).sum(1)

    assert_agrees(f, x, w)


@pytest.mark.parametrize("drop", [F.dropout, F.dropout1d, F.alpha_dropout, torch.dropout])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_dropped_is_the_same_tensor(drop: Callable[..., Tensor], training: bool) -> None:
    """Changing the result in place then changes the input, as in torch."""

    def f(x: Tensor) -> Tensor:
        y = x.sin()
        drop(y, 0.0, training).mul_(3)
        return y.sum((1, 2))

    x, v = torch.randn(2, 3, 4, 2)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


def test_dropout_in_place_and_switched_off() -> None:
    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        y, z = x.sin(), x.cos()
        F.dropout(y, 0.3, inplace=True)
        F.alpha_dropout(z, 0.3, training=True, inplace=True)
        kept = F.dropout(x, 0.5, training=False) + torch.dropout(x, 0.5, train=False)
        return (y * z * F.alpha_dropout(kept, 0.5)).sum(1)

    assert_agrees(f, torch.randn(3, 9))
