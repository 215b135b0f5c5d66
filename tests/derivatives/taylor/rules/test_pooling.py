"""Average pooling, which is linear, and max pooling, which has kinks."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fdsm.derivatives import Autodiff, KinkWarning, Taylor
from fdsm.derivatives.taylor.rules import pooling

from ..agreement import assert_agrees, assert_rule, names_of_rules
from .tensor_cases import SHAPE, Rule, constant, image, parameters

CASES: dict[str, tuple[Rule, ...]] = {
    "avg_pool1d": (
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.avg_pool1d(x[0], 3, 1, 1, True, False),
    ),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x[:, None], 2, 1),
        lambda x: F.avg_pool2d(x, (2, 3), stride=1, padding=(1, 1), count_include_pad=False),
        lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3),
    ),
    "avg_pool3d": (
        lambda x: F.avg_pool3d(image(x, 1, 2, 3, 3, 3), 2, 1),
        lambda x: F.avg_pool3d(x[None], (1, 2, 2)),
    ),
    "lp_pool1d": (
        lambda x: F.lp_pool1d(x, 2, 2),
        lambda x: F.lp_pool1d(x.exp(), 3.5, 3, 1, ceil_mode=True),
    ),
    "lp_pool2d": (
        lambda x: F.lp_pool2d(x[:, None], 2, 2, 1),
        lambda x: F.lp_pool2d(x.exp(), 1, (2, 3)),
    ),
    "lp_pool3d": (lambda x: F.lp_pool3d(x[None].exp(), 3, 2, stride=(1, 1, 2)),),
    "adaptive_avg_pool1d": (
        lambda x: F.adaptive_avg_pool1d(x, 3),
        lambda x: F.adaptive_avg_pool1d(x[0], 1),
    ),
    "adaptive_avg_pool2d": (
        lambda x: F.adaptive_avg_pool2d(x[:, None], (2, None)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
    ),
    "adaptive_avg_pool3d": (
        lambda x: F.adaptive_avg_pool3d(image(x, 1, 2, 3, 3, 3), 2),
        lambda x: F.adaptive_avg_pool3d(x[None], (1, 2, 3)),
    ),
}
ELSEWHERE = {
    f"{adaptive}max_pool{n}d{indices}"
    for n in (1, 2, 3)
    for adaptive in ("", "adaptive_")
    for indices in ("", "_with_indices")
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(pooling) == set(CASES) | ELSEWHERE


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


MAX_POOLS: dict[str, Callable[[Tensor], Any]] = {
    "1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2, padding=1, ceil_mode=True),
    "1d_places": lambda x: F.max_pool1d(x.flatten(2), 2, return_indices=True)[0],
    "1d_torch": lambda x: torch.max_pool1d(x.flatten(2), 3, 2, 1, 2),
    "2d": lambda x: F.max_pool2d(x, 2) + F.max_pool2d(x, (3, 2), stride=2, padding=(1, 0)),
    "2d_places": lambda x: F.max_pool2d(x, 3, 1, return_indices=True)[0],
    "2d_torch": lambda x: torch.max_pool2d(x, [3, 2], [1, 2], dilation=1),
    "2d_alone": lambda x: torch.stack([F.max_pool2d(image, 2) for image in x]),
    "3d": lambda x: F.max_pool3d(x[:, None], 2, stride=1),
    "3d_places": lambda x: F.max_pool3d_with_indices(x[:, None], 2)[0],
    "1d_adaptive": lambda x: F.adaptive_max_pool1d(x.flatten(2), 5),
    "2d_adaptive": lambda x: F.adaptive_max_pool2d(x, (2, None)),
    "2d_adaptive_places": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True)[0],
    "3d_adaptive": lambda x: F.adaptive_max_pool3d(x[:, None], (1, 2, 3)),
    "1d_adaptive_torch": lambda x: torch.adaptive_max_pool1d(x.flatten(2), 4)[0],
}  # fmt: skip


@pytest.mark.parametrize("op", MAX_POOLS.values(), ids=MAX_POOLS)
def test_max_pooling_agrees_with_autodiff_and_warns(op: Callable[[Tensor], Tensor]) -> None:
    x, w = torch.randn(2, 3, 4, 6), torch.randn(6, 6)
    f = lambda x: (op((x @ w).sin()) + op(x @ w).square()).flatten(1).sum(1)
    with pytest.warns(KinkWarning, match="max_pool.d` has kinks"):
        assert_agrees(f, x, w, directions=(3,))


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_ties_are_broken_as_by_autodiff() -> None:
    weights = torch.arange(1.0, 3.0)
    f = lambda x: (F.max_pool1d(x, 2) * weights).sum(1)
    x, v = torch.zeros(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))
