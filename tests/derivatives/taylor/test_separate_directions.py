"""Series along separate directions are those along each direction by itself."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Taylor
from fdsm.derivatives.taylor.series import Propagation, Truncation

W = torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3).sin()
FUNCTIONS = {
    "products": lambda x: x.prod(1) * (x @ W.T).sin().sum(1) / (2 + x.square().sum(1)),
    "powers": lambda x: (x.square() + 1).pow(1.5).sum(1).log() * x.exp().sum(1).sqrt(),
    "powers at zero": lambda x: (x - x.detach()).pow(3).sum(1) + x.pow(2).sum(1),
    "softmax": lambda x: (x @ W.T).softmax(1)[:, :2] * x[:, :2],
    "norm": lambda x: (x @ W.T).norm(dim=1) + nn.functional.layer_norm(x @ W.T, (4,)).tanh()[:, 0],
    "matrices": lambda x: torch.logdet(torch.einsum("bi,bj->bij", x, x.sin()) + 2 * torch.eye(3)),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(
        (x[:, None, :, None] * W[0]), x[:, None, :, None] * W[1], x[:, None, :, None].cos()
    ).flatten(1),
    "activations": lambda x: (
        nn.functional.gelu(x) + nn.functional.silu(x).sigmoid() + nn.functional.softplus(x).tanh()
    ),
    "linear": lambda x: x @ W.T,
}  # fmt: skip
ORDERS = [(1, 1), (2, 1), (1, 2, 3), (3, 1), (2, 2, 2), (4, 2, 1), (5, 1)]


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("common", [False, True], ids=["own", "common"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_direction_by_itself(
    name: str, common: bool, orders: tuple[int, ...], generator: Generator
) -> None:
    f, x = FUNCTIONS[name], torch.rand(4, 3, generator=generator) + 0.5
    v = torch.randn(len(orders), 1 if common else 4, 3, generator=generator).expand(-1, 4, -1)
    engine = Taylor()
    x.requires_grad_()
    found = engine.jets(f, x, v, orders)
    for jet, u, order in zip(found, v, orders, strict=True):
        expected = engine.jet(f, x, u, order)
        torch.testing.assert_close(jet, expected, rtol=1e-9, atol=1e-9)
        weights = torch.linspace(0.5, 1.5, jet[-1].numel()).view_as(jet[-1])
        gradients = [
            torch.autograd.grad((weights * terms[-1]).sum(), x, retain_graph=True)
            if terms[-1].requires_grad
            else (torch.zeros_like(x),)
            for terms in (jet, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_gradients_of_gradients(generator: Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 1))
    x = torch.randn(4, 3, generator=generator).requires_grad_()
    v = torch.eye(3)[:2, None].expand(-1, 4, -1)

    def second(term: Tensor) -> tuple[Tensor, ...]:
        (first,) = torch.autograd.grad(term.sum(), x, create_graph=True)
        return torch.autograd.grad(
            first.square().sum(),
            [x, *model.parameters()],
            retain_graph=True,
            materialize_grads=True,
        )

    found = Taylor().jets(model, x, v, (3, 2))
    torch.testing.assert_close(second(found[0][3]), second(Taylor().jet(model, x, v[0], 3)[3]))
    torch.testing.assert_close(second(found[1][2]), second(Taylor().jet(model, x, v[1], 2)[2]))


def test_layout() -> None:
    truncation = Truncation.separate((4, 2, 1), Propagation())
    assert [truncation.count(k) for k in range(1, 6)] == [3, 2, 1, 1, 0]
    assert [truncation.rows(k) for k in range(5)] == [1, 4, 6, 7, 8]
    assert [truncation.degree(rows) for rows in (1, 4, 6, 7, 8)] == [0, 1, 2, 3, 4]
    assert Truncation.separate((2, 1), Propagation()).rows(3) == 4


def test_refusals() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="order must be a positive integer"):
        Taylor().jets(lambda x: x.sum(1), x, torch.ones(2, 2, 3), (2, 0))
