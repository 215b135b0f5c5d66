"""Directions that are the same in all rows give what separate directions give, with less work."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm.derivatives import Autodiff, Taylor
from fdsm.derivatives.taylor import Jet, composition
from fdsm.derivatives.taylor.series import Truncation, sum_products
from fdsm.evaluation.timing import peak_saved_bytes

SMOOTH = [nn.Tanh, nn.SiLU, nn.Softplus, nn.GELU, nn.Sigmoid]


def network(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3, 8), activation(), nn.Linear(8, 1), nn.Flatten(0)
    )


def gradients(f: nn.Module, x: Tensor, v: Tensor, engine: Taylor | Autodiff) -> list[Tensor]:
    """Return slopes and curvature, and their gradients in the points and the parameters."""
    x = x.clone().requires_grad_()
    slopes, curvature = engine.sliced(f, x, v)
    loss = (slopes.pow(3).sum(0) + curvature).square().sum()
    wanted = [x, *list(f.parameters())[:-1]]
    return [slopes.detach(), curvature.detach(), *torch.autograd.grad(loss, wanted)]


@pytest.fixture(params=[0, composition.SAVED_ELEMENTS], ids=["large", "small"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat activations as large, so that less is saved for the backward pass, or as small."""
    monkeypatch.setattr(composition, "SAVED_ELEMENTS", request.param)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("activation", SMOOTH)
def test_values_and_gradients(activation: type[nn.Module], generator: Generator) -> None:
    f, x = network(activation), torch.randn(4, 3, generator=generator)
    common = torch.randn(5, 1, 3, generator=generator).expand(-1, 4, -1)
    found = gradients(f, x, common, Taylor())
    torch.testing.assert_close(found, gradients(f, x, common.contiguous(), Taylor()))
    torch.testing.assert_close(found, gradients(f, x, common, Autodiff()))


@pytest.mark.usefixtures("limit")
def test_gradients_of_gradients(generator: Generator) -> None:
    f, x = network(), torch.randn(4, 3, generator=generator)
    v = torch.randn(5, 1, 3, generator=generator).expand(-1, 4, -1)
    results = []
    for engine in (Taylor(), Autodiff()):
        slopes, curvature = engine.sliced(f, x, v)
        wanted = list(f.parameters())[:3]
        first = torch.autograd.grad((slopes.sum(0) + curvature).sum(), wanted, create_graph=True)
        total = torch.stack([g.square().sum() for g in first]).sum()
        results.append(torch.autograd.grad(total, wanted))
    torch.testing.assert_close(*results)


@pytest.mark.usefixtures("limit")
def test_an_activation_that_is_used_twice(generator: Generator) -> None:
    layers, x = network(), torch.randn(4, 3, generator=generator)

    def f(x: Tensor) -> Tensor:
        h = layers[2](layers[1](x))
        return (layers[3](h) + layers[3](h.mul_(2)) + h.square().sum(1, keepdim=True)).squeeze(1)

    v = torch.eye(3)[:, None].expand(-1, 4, -1)
    separate = Taylor().sliced(f, x, v.contiguous())
    torch.testing.assert_close(Taylor().sliced(f, x, v), separate)


def test_a_large_first_activation_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value and slopes are, and its coefficients are computed again in the backward pass."""
    f, x, v = network(), torch.zeros(16, 3), torch.eye(3)[:, None].expand(-1, 16, -1)
    step = lambda: torch.stack([y.sum() for y in Taylor().sliced(f, x, v)]).sum().backward()
    value, slopes, coefficients = 16 * 8, 3 * 8, 5 * 16 * 8
    small = peak_saved_bytes(step, ignore=[x, v, *f.parameters()])
    monkeypatch.setattr(composition, "SAVED_ELEMENTS", coefficients - 1)
    large = peak_saved_bytes(step, ignore=[x, v, *f.parameters()])
    size = x.element_size()
    assert (small, large) == (size * (value + slopes + coefficients), size * (value + slopes))


@pytest.mark.usefixtures("limit")
def test_gradients_in_the_directions(generator: Generator) -> None:
    f, x = network(), torch.randn(4, 3, generator=generator)
    results = []
    for expand in (lambda v: v, Tensor.contiguous):
        v = torch.ones(2, 3, requires_grad=True)
        _, curvature = Taylor().sliced(f, x, expand(v[:, None].expand(-1, 4, -1)))
        results.append(torch.autograd.grad(curvature.sum(), v)[0])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.square() + x.sin()).sum(1),
        lambda x: x.norm(dim=1) + x[:, 0] * x.shape[1],
        lambda x: nn.functional.linear(x, torch.ones(2, 3)).prod(1),
        lambda x: nn.functional.linear(x, torch.ones(3)).exp(),
        lambda x: nn.functional.linear(x.mul_(2), torch.ones(2, 3)).add_(1).square().sum(1),
        lambda x: (nn.functional.linear(x, torch.ones(2, 3)).tanh() + x[:, :2]).sum(1),
        lambda x: nn.functional.linear(x, torch.ones(2, 3)).relu().square().sum(1),
    ],
)
@pytest.mark.filterwarnings("ignore::fdsm.derivatives.KinkWarning")
def test_any_first_operation(f: Callable[[Tensor], Tensor], generator: Generator) -> None:
    x, v = torch.randn(4, 3, generator=generator), torch.eye(3)[:, None].expand(-1, 4, -1)
    torch.testing.assert_close(
        Taylor().sliced(f, x.clone(), v), Taylor().sliced(f, x.clone(), v.contiguous())
    )


class Products(TorchDispatchMode):
    """Counts the rows of matrix products."""

    rows = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[Tensor, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if function in {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}:
            self.rows += args[-2].shape[0]
        return function(*args, **(kwargs or {}))


def test_the_first_layer_maps_the_directions_once(generator: Generator) -> None:
    f, x = network(), torch.randn(16, 3, generator=generator)
    v = torch.eye(3)[:, None].expand(-1, 16, -1)
    counts = []
    for directions in (v, v.contiguous()):
        with torch.no_grad(), Products() as products:
            Taylor().sliced(f, x, directions)
        counts.append(products.rows)
    assert counts == [16 + 3 + 5 * 16, 4 * 16 + 5 * 16]


def test_coefficients_are_computed_when_they_are_used() -> None:
    jet = Jet.with_common_slopes(torch.ones(4, 3), torch.eye(3), Truncation(2, 3))
    assert jet.factors is not None
    assert jet.coefficients.shape == (4, 4, 3)
    assert torch.equal(jet.coefficients[1:, 2], torch.eye(3))
    assert jet.factors is None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jet.nonsense


@pytest.mark.parametrize("count", [1, 2, 7, 33])
@pytest.mark.parametrize("size", [1, 100, 3000, 70_000])
def test_sums_of_products(count: int, size: int, generator: Generator) -> None:
    a, b = torch.randn(2, count, 1, size, generator=generator)
    torch.testing.assert_close(sum_products(a, b), (a * b).sum(0))
    common = torch.randn(count, 1, 1, generator=generator)
    torch.testing.assert_close(sum_products(a, common), (a * common).sum(0))
