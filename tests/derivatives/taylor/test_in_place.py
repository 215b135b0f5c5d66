"""Changing jets in place: views follow, plain tensors are refused."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, MissingRule, Taylor

from .agreement import assert_agrees, assert_rule
from .rules.tensor_cases import SHAPE, Rule, constant

C = constant


def loop(x: Tensor) -> Tensor:
    """Write results one after the other, as recurrent models do."""
    out = x.new_zeros(2, 3, 4)
    state = x.new_zeros(2, 4)
    for t in range(3):
        state = (0.5 * state + x[:, t]).tanh()
        out[:, t] = state
    return out


def views(x: Tensor) -> Tensor:
    """Change a tensor through its views, and a view through the tensor."""
    y = x.exp() * C(2, 3, 4)
    first, last = y[0], y[..., -1]
    first += 1
    last.mul_(2)
    y[:, 1].sub_(x[:, 0])
    y /= 3
    return torch.stack([y, y * first, y * last[..., None]])


def matrices(x: Tensor) -> Tensor:
    """Multiply in place."""
    y = x[0]
    y = y @ y.T
    y @= y.sin()
    y **= 2
    return y


def residual(x: Tensor) -> Tensor:
    """Keep a copy from before a change in place."""
    y = x.sin()
    before = y.clone()
    y += x
    return y * before


def activations(x: Tensor) -> Tensor:
    """Use functions with an underscore."""
    return (2 * x).mul_(x).add_(x, alpha=0.3).tanh_()


def augmented(x: Tensor) -> Tensor:
    """Add to tensors that were created from the input, with several operators."""
    factor = torch.ones_like(x[0, 0])
    total = torch.zeros_like(x)
    for k in range(3):
        total += x * k
    factor *= x[0, 0]
    total -= factor
    total /= 2 + x.square()
    return total


@pytest.mark.parametrize("f", [loop, views, augmented, matrices, residual, activations])
def test_changes_in_place_agree_with_autodiff(f: Rule) -> None:
    assert_rule(f, constant(*SHAPE))


def with_another_name(x: Tensor) -> Tensor:
    total = other = torch.zeros(2, 3)
    total += x.exp()
    return other.sum(1) + x.sum(1)


def in_a_list(x: Tensor) -> Tensor:
    totals = [torch.zeros(2, 3)]
    for total in totals:
        total += x.exp()
    return totals[0].sum(1) + x.sum(1)


def accumulate(total: Tensor, x: Tensor) -> None:
    total += x.exp()


def as_an_argument(x: Tensor) -> Tensor:
    total = torch.zeros(2, 3)
    accumulate(total, x)
    return total.sum(1) + x.sum(1)


def as_a_view(x: Tensor) -> Tensor:
    base = torch.zeros(2, 3)
    part = base[:, :2]
    part += x[:, :2]
    return base.sum(1) + x.sum(1)


class Accumulating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total: Tensor
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        return self.total.sum(1)


def as_the_only_name(x: Tensor) -> Tensor:
    total = torch.zeros(2)
    total += x.exp().sum(1)
    return total


def as_a_detached_alias(x: Tensor) -> Tensor:
    """Read a tensor that shares memory with the total but is not a view of it."""
    total = torch.zeros(2, 3)
    alias = total.detach()
    total += x**3
    return alias.sum(1) + x.sum(1)


def with_several_operators(x: Tensor) -> Tensor:
    factor, total = torch.ones(3), torch.zeros(2, 3)
    for k in range(3):
        total += x * k
    factor *= x[0]
    total -= factor
    total /= 2 + x.square()
    return total.sum(1)


def put(target: Tensor, index: object, value: Tensor) -> Tensor:
    """Assign to an index, as an expression."""
    target[index] = value
    return target


PLAIN: list[Callable[[Tensor], Tensor]] = [
    with_another_name,
    in_a_list,
    as_an_argument,
    as_a_view,
    Accumulating(),
    as_the_only_name,
    as_a_detached_alias,
    with_several_operators,
    lambda x: torch.zeros(2, 3).add_(x).sum(1),
    lambda x: torch.zeros(2, 3).copy_(x).sum(1),
    lambda x: torch.zeros(2, 3).fill_(x[0, 0]).sum(1),
    lambda x: torch.zeros(2, 3).addcmul_(x, x).sum(1),
    lambda x: torch.zeros(2, 3).masked_fill_(torch.tensor(True), x[0, 0]).sum(1),
    lambda x: torch.zeros(2, 3).index_add_(0, torch.tensor([0]), x[:1]).sum(1),
    lambda x: put(torch.zeros(2, 3), 0, x[0]).sum(1),
    lambda x: put(torch.zeros(2, 3), torch.tensor([True, False]), x[0]).sum(1),
]


@pytest.mark.parametrize("f", PLAIN)
def test_writing_a_jet_into_a_plain_tensor_is_refused(f: Callable[[Tensor], Tensor]) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    message = r"plain tensor of shape \(.*torch\.zeros_like\(x\).*use .*fallback=Autodiff"
    with pytest.raises(MissingRule, match=message):
        Taylor().jet(f, x, v, 2)


@pytest.mark.parametrize("f", [f for f in PLAIN if not isinstance(f, Accumulating)])
def test_the_fallback_differentiates_models_that_write_into_plain_tensors(
    f: Callable[[Tensor], Tensor],
) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    safe = Taylor(fallback=Autodiff())
    torch.testing.assert_close(safe.jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


def test_a_refused_write_leaves_the_plain_tensor_alone() -> None:
    total = torch.zeros(2, 3)
    with pytest.raises(MissingRule, match="plain tensor"):
        Taylor().jet(lambda x: total.add_(x).sum(1), torch.ones(2, 3), torch.ones(2, 3), 1)
    assert torch.equal(total, torch.zeros(2, 3))


def test_views_cannot_be_given_derivatives() -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[0].add_(x[0])
        return y

    x = torch.ones(2, 3)
    with pytest.raises(MissingRule, match="shares its memory"):
        Taylor().jet(lambda x: f(x).sum(1), x, torch.ones_like(x), 2)


def test_the_input_is_left_alone() -> None:
    x, v = constant(2, 3), constant(2, 3).flip(0)
    before = x.clone(), v.clone()

    def f(x: Tensor) -> Tensor:
        x += 1
        x[:, 0] = 2.0
        return x.mul_(3).sum(1)

    Taylor().jet(f, x, v, 2)
    assert torch.equal(x, before[0])
    assert torch.equal(v, before[1])


def test_detached_values_share_memory() -> None:
    def f(x: Tensor) -> Tensor:
        y = 2 * x
        d = y.detach()
        y.add_(1)
        return (d * x).sum(1)

    x, v = constant(2, 3), constant(2, 3).flip(0)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (h := x.flatten(1), h.sub_(0.5), (h.sin() * x.reshape(2, -1)).sum(1))[-1],
        lambda x: (h := x.tanh().reshape(2, -1), h.mul_(2), h.sum(1))[-1],
    ],
)
def test_memory_layouts_are_those_of_torch(f: Callable[[Tensor], Tensor]) -> None:
    """Whether a change in place reaches the input depends on how it lies in memory."""
    x, v = torch.rand(2, 2, 3, 4, 4, generator=Generator().manual_seed(0)).unbind()
    layout = torch.channels_last
    x, v = x.to(memory_format=layout), v.to(memory_format=layout)
    torch.testing.assert_close(Taylor().jet(f, x, v, 2), Autodiff().jet(f, x, v, 2))


def test_changes_in_place_reach_views_and_the_backward_pass() -> None:
    w = torch.rand(3, 3, requires_grad=True)

    def exponentiated(x: Tensor) -> Tensor:
        h = (x @ w).square()
        flat = h.view(-1)
        h.exp_()
        return flat.view(2, 3).sum(1)

    def floored(x: Tensor) -> Tensor:
        h = x * x
        part = h[0]
        h.floor_()
        return part.sum() + x.square().sum(1)

    assert_agrees(exponentiated, torch.rand(2, 3), w)
    x, v = 2 * torch.rand(2, 3), torch.ones(2, 3)
    torch.testing.assert_close(Taylor().jet(floored, x, v, 1)[1], 2 * x.sum(1))
