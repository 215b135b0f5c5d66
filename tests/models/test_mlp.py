import pytest
import torch
from torch import Generator
from torch.nn import functional

from fdsm.models import QuadraticMLP


def test_network_agrees_with_its_formula(generator: Generator) -> None:
    model, x = QuadraticMLP((2, 3), (4, 5)), torch.randn(3, 2, 3, generator=generator)
    take = iter(model.parameters()).__next__
    h = functional.silu(x.flatten(1) @ take().T + take())
    h = functional.silu(h @ take().T + take())
    (a, b), (a0, b0), c = take(), take(), take()[0]
    torch.testing.assert_close(model(x), (h @ a + a0) * (h @ b + b0) + (h * h) @ c)


def test_a_network_without_hidden_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one hidden layer"):
        QuadraticMLP(3, ())
