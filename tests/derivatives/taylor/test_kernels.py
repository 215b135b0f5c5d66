"""How many calls of torch's kernels the rules make. Small networks spend their time in them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm.derivatives.taylor import Taylor, composition
from fdsm.derivatives.taylor.jet import Jet
from fdsm.derivatives.taylor.series import Truncation

Function = Callable[[Tensor], Tensor]


class Kernels(TorchDispatchMode):
    """Counts calls of aten, apart from views and allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # ruff: ignore[missing-type-function-argument, missing-return-type-special-method]
        alias = function._schema.returns[0].alias_info
        is_view = alias is not None and not alias.is_write
        if not is_view and "empty" not in str(function) and "_unsafe_view" not in str(function):
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def counts(f: Function, order: int, directions: int = 1, *parameters: Tensor) -> tuple[int, int]:
    """Return the number of kernels of a jet, forward and backward."""
    truncation = Truncation(order, directions)
    u = torch.randn(truncation.rows(order), 4, 3, dtype=torch.float64) / 8
    u[0] = 1
    u.requires_grad_()
    with Kernels() as forward:
        y = f(Jet(u, truncation))
    assert isinstance(y, Jet)
    weights = torch.ones_like(y.coefficients)
    with Kernels() as backward:
        torch.autograd.grad(y.coefficients, [u, *parameters], weights)
    return len(forward.names), len(backward.names)


@pytest.mark.parametrize(
    ("f", "forward", "recomputed"),
    [(functional.silu, 15, 14), (torch.tanh, 13, 12), (functional.softplus, 10, 9)],
)
def test_activation(
    f: Function, forward: int, recomputed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient is a product with a series that is saved if it is small."""
    assert counts(f, 2) == (forward, 3)
    monkeypatch.setattr(composition, "SAVED_ELEMENTS", 0)
    assert counts(f, 2)[1] == recomputed


def test_activation_with_several_directions() -> None:
    """More directions take no further kernels."""
    assert counts(functional.silu, 2, 4) == counts(functional.silu, 2, 2) == (15, 7)


def test_with_gradients_off_rules_are_not_recorded() -> None:
    """Their results do not belong to a graph. Parts of the model without jets do."""
    layer, scale = torch.nn.Linear(3, 3), torch.ones(3, requires_grad=True)
    recorded: list[bool] = []

    def f(x: Tensor) -> Tensor:
        weights = scale.exp()
        y = functional.silu(layer(x) * weights)
        assert isinstance(y, Jet)
        recorded.extend([weights.requires_grad, y.coefficients.requires_grad])
        return y.sum(1)

    x = torch.ones(2, 3)
    with torch.no_grad():
        Taylor().jet(f, x, x, 2)
        Taylor().jet(f, x, x, 3)
    assert recorded == [True, False] * 2


def test_linear_layer() -> None:
    """A product and a bias; two products and a sum."""
    layer = torch.nn.Linear(3, 5, dtype=torch.float64)
    assert counts(layer, 2, 4, layer.weight, layer.bias) == (2, 3)


@pytest.mark.parametrize(
    "f",
    [
        torch.exp,
        torch.tanh,
        torch.sin,
        torch.sqrt,
        torch.log,
        functional.silu,
        functional.softplus,
        functional.gelu,
        lambda x: x * x,
        lambda x: x / (1 + x),
    ],
)
def test_kernels_grow_linearly_with_the_order(f: Function) -> None:
    few, some, many = (sum(counts(f, order)) for order in (4, 8, 16))
    assert many - some <= 2.1 * (some - few)


def test_products_of_matrices_grow_linearly_with_the_order() -> None:
    """One product for each coefficient of the first factor."""
    for order in (3, 6):
        u = torch.randn(order + 1, 2, 3, 3)
        with Kernels() as kernels:
            jet = Jet(u, Truncation(order))
            _ = jet @ jet
        assert sum("bmm" in name for name in kernels.names) == order + 1
