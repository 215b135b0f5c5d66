"""Functions that read or write some elements, views included."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fdsm.derivatives import MissingRule, Taylor
from fdsm.derivatives.taylor.rules import indexing

from ..agreement import assert_rule, names_of_rules
from .tensor_cases import MASK, SHAPE, Rule, constant, parameters, written

C = constant
INDEX = ROWS = torch.tensor([1, 0, 1])
INDICES = [
    0, -1, True, None, ..., slice(None, None, 2), slice(-2, None), MASK, MASK[:, :, 0], ROWS,
    [1, 0], torch.tensor(1), np.array([1, 0]), ROWS[None].expand(2, 3), np.int64(1), range(2),
    (0, 1), (0, slice(1, 3)), (slice(None), -1), (slice(None), slice(2, 0, None)), (..., 0),
    (0, ..., 1), (None, 0), (0, None, 1), (slice(None), None, slice(None, None, 2)), (),
    (slice(None), [2, 0]), (slice(None), ROWS), (..., ROWS), (slice(None), slice(None), ROWS),
    (slice(None), MASK[0, :, 0]), (slice(None), MASK[0]), (ROWS, ROWS), ([0, 1], [2, 0]),
    (ROWS, slice(None), ROWS), (ROWS, slice(1, 3), ROWS), (0, slice(None), ROWS), (0, ROWS),
    (ROWS, 0), (slice(None), 0, ROWS), (slice(None), ROWS, ROWS), (ROWS, None, ROWS),
    (ROWS[:, None], torch.tensor([[0, 2]])), (..., ROWS, ROWS), (MASK[:, 0, 0], 1),
    (torch.tensor(0), ROWS), (torch.tensor(0), torch.tensor(1)), (0, MASK[0]), (0, 1, 2),
    (np.int64(0), 1), (np.array(1), torch.tensor(0), ..., 2), (True, 0), (torch.tensor(True), 0),
    (slice(None), MASK[0, :, 0], 1), (False,), (ROWS, ..., 0), ([True, False],),
]  # fmt: skip  # fmt: skip
CASES: dict[str, tuple[Rule, ...]] = {
    "__getitem__": tuple((lambda x, i=i: x[i]) for i in INDICES),
    "__setitem__": tuple(
        (lambda x, i=i: written(x, lambda y: y.__setitem__(i, 2.5)))
        for i in INDICES
        if i is not False
    ),
    "select": (lambda x: x.select(1, 2), lambda x: torch.select(x, dim=-1, index=-2)),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda x: torch.narrow(x, dim=-1, start=0, length=1)),
    "index_select": (
        lambda x: x.index_select(1, torch.tensor([2, 2, 0])),
        lambda x: torch.index_select(x, dim=-1, index=torch.tensor([3])),
        lambda x: x[0, 0, 0].index_select(0, torch.tensor([0])),
        lambda x: written(x, lambda y: y[0, 0, 0].index_select(-1, torch.tensor([0])).add_(1)),
    ),
    "where": (
        lambda x: torch.where(x > 0, x, x.exp()),
        lambda x: torch.where(MASK, 2.0, x),
        lambda x: torch.where(MASK[0, 0], x.sin(), -1),
        lambda x: torch.where(MASK, x[0, 0], torch.tensor(3.0)),
        lambda x: torch.where(MASK, C(4), x[:, :1].sin()),
        lambda x: torch.where(MASK[0, 0], x[0, 0, 0], C(5, 1, 1, 1)),
        lambda x: x.where(MASK, 0.0),
        lambda x: C(2, 3, 4).where(MASK, x),
        lambda x: x.where(condition=MASK, other=C(4)),
    ),
    "masked_fill": (
        lambda x: x.masked_fill(MASK, 2),
        lambda x: torch.masked_fill(x, MASK[0], torch.tensor(2.0, dtype=torch.float32)),
        lambda x: x.masked_fill(mask=MASK, value=x[0, 0, 0]),
        lambda x: x.clone().masked_fill_(MASK, -1.0),
        lambda x: C(2, 3, 4).masked_fill(MASK, x[0, 0, 0]),
    ),
    "copy_": (
        lambda x: written(x, lambda y: y[0].copy_(x[1])),
        lambda x: torch.zeros_like(x).copy_(x[0]),
        lambda x: written(x, lambda y: y.copy_(C(2, 3, 4))) + x,
    ),
    "fill_": (
        lambda x: written(x, lambda y: y[0].fill_(2.0)),
        lambda x: written(x, lambda y: y.fill_(x[0, 0, 0])),
    ),
    "zero_": (lambda x: written(x, lambda y: y[:, 1].zero_()),),
    "gather": (
        lambda x: x.gather(2, torch.tensor([[[0, 3, 3], [1, 1, 0]]])),
        lambda x: torch.gather(x, -2, torch.tensor([[[0, 2, 2, 1]]])),
    ),
    "take": (lambda x: x.take(torch.tensor([[0, 23], [5, 5]])),),
    "take_along_dim": (
        lambda x: torch.take_along_dim(x, torch.tensor([[[0], [3], [1]]]), 2),
        lambda x: x.take_along_dim(torch.tensor([7, 7])),
    ),
    "index_add": (
        lambda x: x.index_add(1, INDEX, x.sin(), alpha=0.3),
        lambda x: torch.index_add(C(2, 5, 4), -2, INDEX, x),
        lambda x: x.index_add(1, INDEX, C(2, 3, 4)),
        lambda x: x.sin().index_add_(1, INDEX, x),
    ),
    "index_copy": (
        lambda x: x.index_copy(1, INDEX[:2], x[:, 1:].sin()),
        lambda x: torch.index_copy(C(2, 5, 4), 1, INDEX[:2], x[:, :2]),
    ),
    "index_fill": (
        lambda x: x.index_fill(1, INDEX, 2.5),
        lambda x: x.index_fill(2, INDEX, torch.tensor(2.0)),
        lambda x: x.index_fill(2, INDEX, x[0, 0, 0]),
    ),
    "index_put": (
        lambda x: x.index_put((INDEX[:2], INDEX[:2]), x[0, 0].sin()),
        lambda x: torch.index_put(x, (INDEX[:2],), x.sin(), accumulate=True),
        lambda x: C(2, 3, 4).index_put((INDEX[:2],), x[0, 0, 0]),
    ),
    "put": (
        lambda x: x.put(torch.tensor([3, 8]), x[0, 0, :2].sin()),
        lambda x: torch.put(C(2, 3, 4), torch.tensor([3, 3]), x[0, 0, :2], accumulate=True),
    ),
    "scatter": (
        lambda x: x.scatter(2, torch.tensor([[[0, 2]]]), x[:1, :1, :2].sin()),
        lambda x: torch.scatter(x, 1, torch.tensor([[[0, 2]]]), 3.0),
        lambda x: torch.scatter(x, 1, torch.tensor([[[0, 2]]]), value=3.0),
        lambda x: C(2, 3, 4).scatter(0, torch.tensor([[[1, 0]]]), src=x[:1, :1, :2]),
        lambda x: x.sin().scatter_(0, torch.tensor([[[1, 1]]]), 1.0),
    ),
    "scatter_add": (
        lambda x: x.scatter_add(1, torch.tensor([[[2, 2], [2, 1]]]), x[:1, :2, :2].sin()),
        lambda x: torch.scatter_add(C(2, 3, 4), -1, torch.tensor([[[2, 2, 0]]]), x[:1, :1, :3]),
        lambda x: torch.zeros_like(x).scatter_add_(
            1, torch.tensor([[[2, 2], [2, 1]]]), x[:1, :2, :2].sin()
        ),
    ),
    "masked_scatter": (
        lambda x: x.masked_scatter(MASK, x.sin().flip(0)),
        lambda x: C(2, 3, 4).masked_scatter(MASK, x),
    ),
    "masked_select": (
        lambda x: x.masked_select(MASK),
        lambda x: torch.masked_select(x, MASK[0, 0]),
        lambda x: torch.masked_select(x[0], MASK),
    ),
    "select_scatter": (
        lambda x: torch.select_scatter(x, C(2, 4), 1, 0),
        lambda x: torch.select_scatter(C(2, 3, 4), x[0].sin(), dim=0, index=1),
    ),
    "slice_scatter": (
        lambda x: torch.slice_scatter(x, x[:, :2].sin(), 1, 0, 2),
        lambda x: torch.slice_scatter(C(2, 3, 4), x[..., :2], dim=2, start=1, end=4, step=2),
    ),
    "diagonal_scatter": (
        lambda x: torch.diagonal_scatter(x, x[:, 0, :3].sin(), dim1=1, dim2=2),
        lambda x: torch.diagonal_scatter(x[0], C(3), 1),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert names_of_rules(indexing) == set(CASES)


@pytest.mark.parametrize("f", parameters(CASES))
def test_agrees_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


@pytest.mark.parametrize(
    "index",
    [0, (slice(None), 1), (..., -1), ROWS[:2], (slice(None), [2, 0]), MASK, (ROWS[:2], ROWS[:2])],
    ids=str,
)
@pytest.mark.parametrize("kind", ["number", "constant", "first", "second"])
@pytest.mark.parametrize("start", ["zeros", "first", "second"])
def test_writing_into_a_tensor(index: object, kind: str, start: str) -> None:
    """Series of all degrees, and constants, are written into series of all degrees."""

    def f(x: Tensor) -> Tensor:
        targets = {
            "zeros": torch.zeros_like(x),
            "first": 2 * x + C(2, 3, 4),
            "second": x.exp() * C(2, 3, 4),
        }
        y = targets[start]
        part = x[index]
        y[index] = {
            "number": 1.5,
            "constant": C(*part.shape),
            "first": part,
            "second": part.sin(),
        }[kind]
        return y * C(2, 3, 4) + x

    assert_rule(f, constant(*SHAPE))


@pytest.mark.parametrize("i", INDICES, ids=str)
def test_views_are_views(i: object) -> None:
    """Writing into a part changes the whole only if torch makes them share memory."""
    assert_rule(lambda x: written(x, lambda y: y[i].add_(1)), constant(*SHAPE))


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("i", [[[0, 1], [1, 2]], [torch.tensor([0, 1]), [2, 0]]], ids=str)
def test_lists_of_lists(i: list[object]) -> None:
    """Torch treats them as a tuple or as a tensor."""
    assert_rule(lambda x: x[0][i], constant(*SHAPE))
    assert_rule(lambda x: written(x, lambda y: y[0].__setitem__(i, x[0, 0, 0])), constant(*SHAPE))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.scatter(x, 1, torch.tensor([[0]]), 3.0, reduce="multiply"),
        lambda x: functional.embedding_bag(torch.tensor([[0, 1], [1, 0]]), x),
    ],
)
def test_functions_without_a_rule_are_refused(f: Rule) -> None:
    with pytest.raises(MissingRule, match="Taylor"):
        Taylor().jet(lambda x: f(x).reshape(2, -1).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
