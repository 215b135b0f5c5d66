"""Reductions over groups of elements."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fdsm.derivatives import Autodiff, KinkWarning, MissingRule, Taylor

from ..agreement import assert_agrees
from .operand_cases import check_matrices, on_jets

INDEX = torch.tensor([[0, 2, 0, 1, 0], [3, 3, 1, 1, 1], [0, 1, 2, 3, 0], [2, 2, 2, 2, 2]])
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")
ignoring_kinks = pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")


@ignoring_kinks
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    def op(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        options = {"reduce": reduce, "include_self": include_self}
        along = a.scatter_reduce(1, INDEX, b, **options)
        of_constant = torch.scatter_reduce(c, -1, INDEX, b, **options)
        return along * of_constant + b.exp().scatter_reduce(0, INDEX, c, **options)

    check_matrices(op, orders=(1, 2, 3, 4))


@ignoring_kinks
@pytest.mark.filterwarnings("ignore:index_reduce.* is in beta")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS[1:])
def test_index_reduce(reduce: str, include_self: bool) -> None:
    index = torch.tensor([0, 2, 2, 0])

    def op(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        options = {"reduce": reduce, "include_self": include_self}
        rows = torch.index_reduce(b, 0, index, a, **options)
        return rows * c.index_reduce(1, index, b[:, 1:].exp(), **options)

    check_matrices(op)


@ignoring_kinks
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_segment_reduce(reduce: str) -> None:
    """Torch differentiates it once, so the reference reduces the segments one by one."""

    def reduced(x: Tensor, sizes: list[int]) -> Tensor:
        parts = x.split(sizes)
        name = {"max": "amax", "min": "amin"}.get(reduce, reduce)
        return torch.stack([getattr(part, name)(0) for part in parts])

    def rule(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        first = torch.segment_reduce(a * b, reduce, lengths=torch.tensor([1, 3]))
        return first * torch.segment_reduce(b, reduce, offsets=torch.tensor([0, 2, 4]))

    check_matrices(on_jets(rule, lambda a, b, c: reduced(a * b, [1, 3]) * reduced(b, [2, 2])))


@ignoring_kinks
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_values_of_empty_segments(reduce: str) -> None:
    x, lengths = torch.randn(4, 3), torch.tensor([1, 0, 3])
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(torch.segment_reduce(x, reduce, lengths=lengths).detach())
        return x.sum(1)

    Taylor().jet(f, x, x, 1)
    torch.testing.assert_close(
        seen[0], torch.segment_reduce(x, reduce, lengths=lengths), equal_nan=True
    )


def test_fewer_indices_than_elements() -> None:
    part = INDEX[:2, :3]
    for reduce in ("sum", "mean", "prod"):
        few = lambda a, b, c, r=reduce: a.scatter_reduce(1, part, b, r)
        cut = lambda a, b, c, r=reduce: a.scatter_reduce(1, part, b[:2, :3], r)
        check_matrices(on_jets(few, cut))


def test_products_with_zeros() -> None:
    """The reference multiplies slices: autograd refuses the second derivative of such products."""
    index = torch.tensor([[0, 0, 1, 0]])
    f = lambda x: (1 + 0 * x[:, :2]).scatter_reduce(1, index.expand(len(x), 4), x, "prod").sum(1)
    g = lambda x: x[:, 0] * x[:, 1] * x[:, 3] + x[:, 2]
    x, v = torch.tensor([[0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 1.0, 2.0]]), torch.randn(2, 4)
    torch.testing.assert_close(Taylor().jet(f, x, v, 3), Autodiff().jet(g, x, v, 3))


@ignoring_kinks
@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_ties_are_broken_as_autodiff_does(reduce: str, include_self: bool) -> None:
    x, v = torch.tensor([[1.0, 1.0, 1.0, 2.0]]), torch.randn(1, 4)
    index = torch.tensor([[0, 0, 1, 1]])
    shift = 0 if include_self else 7  # autograd counts elements of `self` that are not included

    def f(x: Tensor) -> Tensor:
        y = (x + shift).scatter_reduce(1, index, 2 - x, reduce, include_self=include_self)
        return y.sum(1)

    torch.testing.assert_close(Taylor().jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))


def test_kinks_are_reported() -> None:
    x = torch.randn(2, 4)
    f = lambda x: x.scatter_reduce(1, torch.zeros(2, 4, dtype=torch.long), x, "amax").sum(1)
    with pytest.warns(KinkWarning, match="scatter_reduce"):
        Taylor().jet(f, x, x, 2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([[4], [4]]), axis=1),
        lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 1]), initial=2),
        lambda x: x.scatter_reduce(1, INDEX[:2, :4] * 0, x, "median"),
    ],
)
def test_other_options_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(MissingRule, match="Taylor has"):
        Taylor().jet(lambda x: f(x).sum(1), torch.randn(2, 4), torch.randn(2, 4), 1)


def test_a_graph_layer() -> None:
    """A layer that averages and multiplies messages along the edges of a graph."""
    source, target = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0]])
    w = torch.randn(3, 4)

    def f(x: Tensor) -> Tensor:
        messages = (x[:, source] @ w).tanh()
        index = target[:, None].expand(len(x), -1, 4)
        nodes = x.new_zeros(len(x), 4, 4)
        mean = nodes.scatter_reduce(1, index, messages, "mean", include_self=False)
        product = (nodes + 1).scatter_reduce(1, index, messages, "prod")
        return (mean * product).sum((1, 2))

    assert_agrees(f, torch.randn(2, 4, 3), w, orders=(1, 2, 4))
