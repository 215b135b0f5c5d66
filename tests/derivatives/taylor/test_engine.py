"""The engine: how often it calls a model, what it keeps, and what it returns."""

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import factorial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fdsm.derivatives import Autodiff, FiniteDifference, Jet, MissingRule, Taylor, rule
from fdsm.derivatives.taylor import composition
from fdsm.models import NICE, QuadraticResNet
from fdsm.objectives import SM, SSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative


def network(width: int = 8) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(3, width), nn.Softplus(), nn.Linear(width, width), nn.Tanh(),
        nn.Linear(width, 1), nn.Flatten(0),
    )  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_derivatives_of_a_cubic_in_closed_form(order: int) -> None:
    """Along v at x, Σ x³ has the derivatives 3x²v, 6xv² and 6v³ and none after."""
    x, v = torch.tensor([[2.0, -1.0]]), torch.tensor([[0.5, 3.0]])
    truth = [x**3, 3 * x**2 * v, 6 * x * v**2, 6 * v**3, *[0 * x] * 3]
    found = Taylor().jet(lambda x: x.pow(3).sum(1), x, v, order)
    torch.testing.assert_close(list(found), [term.sum(1) for term in truth[: order + 1]])


def test_factorials_turn_coefficients_into_derivatives() -> None:
    """All derivatives of exp along v = 1 at 0 are one, while its coefficients are 1 / k!."""
    x, v = torch.zeros(1, 1), torch.ones(1, 1)
    seen: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        y = x.exp()
        assert isinstance(y, Jet)
        seen.append(y.coefficients.flatten())
        return y.sum(1)

    found = torch.cat(Taylor().jet(f, x, v, 6))
    torch.testing.assert_close(found, torch.ones(7))
    torch.testing.assert_close(seen[0], torch.tensor([1 / factorial(k) for k in range(7)]))


def test_only_the_sum_of_the_curvatures_is_propagated(generator: Generator) -> None:
    x, v = torch.randn(4, 3, generator=generator), torch.randn(5, 4, 3, generator=generator)
    rows: list[int] = []

    def f(x: Tensor) -> Tensor:
        h = x.exp()
        assert isinstance(h, Jet)
        rows.append(len(h.coefficients))
        return h.sum(1)

    slopes, curvature = Taylor().sliced(f, x, v)
    assert rows == [1 + 5 + 1]
    torch.testing.assert_close(slopes, (x.exp() * v).sum(2))
    torch.testing.assert_close(curvature, (x.exp() * v.square()).sum((0, 2)))


class Products(TorchDispatchMode):
    """Notes how many rows the matrices have that are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # ruff: ignore[missing-type-function-argument, missing-return-type-special-method]
        if function is torch.ops.aten.mm.default:
            self.rows.append(len(args[0]))
        return function(*args, **(kwargs or {}))


def test_the_model_is_called_once_and_layers_once_for_all_coefficients(
    generator: Generator,
) -> None:
    """The first layer gets values and slopes only: its input is linear and has no curvature."""
    model, x, v = network(), torch.randn(6, 3), torch.randn(4, 6, 3, generator=generator)
    calls: list[object] = []
    model.register_forward_pre_hook(lambda module, args: calls.append(args))
    with Products() as products:
        Taylor().sliced(model, x, v)
    assert len(calls) == 1
    assert products.rows == [(1 + 4) * 6, (1 + 4 + 1) * 6, (1 + 4 + 1) * 6]


def saved(objective: SSM, model: nn.Module, x: Tensor) -> int:
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        objective(model, x)
    return sum(sizes.values())


@pytest.mark.parametrize(
    ("model", "shape"),
    [(QuadraticResNet((1, 8, 8), width=8), (16, 1, 8, 8)), (NICE(32, 64), (64, 32))],
    ids=["resnet", "nice"],
)
@pytest.mark.parametrize(("directions", "most"), [(1, 1.05), (8, 0.7)])
def test_saves_no_more_than_finite_differences(
    model: nn.Module,
    shape: tuple[int, ...],
    directions: int,
    most: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three coefficients for three nodes; with eight directions ten for seventeen.

    This holds for large layers. Small ones are made to behave like them.
    """
    monkeypatch.setattr(composition, "SAVED_ELEMENTS", 0)
    x = torch.randn(shape)
    model.to(x.dtype)
    by = lambda engine: saved(SSM(engine, Sphere(0.1), directions), model, x)
    assert by(Taylor()) < most * by(FiniteDifference())


def test_exact_score_matching_is_recomputed_chunk_by_chunk(generator: Generator) -> None:
    model, x = network(32), torch.randn(64, 3, generator=generator)
    whole, chunked = SM(Taylor()), SM(Taylor(), chunk=1)
    torch.testing.assert_close(whole(model, x), chunked(model, x))
    gradients = [
        torch.autograd.grad(sm(model, x).sum(), [*model[:3].parameters()])
        for sm in (whole, chunked)
    ]
    torch.testing.assert_close(*gradients)
    assert saved(chunked, model, x) < saved(whole, model, x) / 4  # type: ignore[arg-type]


def no_rule(x: Tensor) -> Tensor:
    return torch.special.bessel_j0(x).sum(1)


def test_a_function_without_a_rule_is_named_with_what_to_do() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(
        MissingRule, match=r"no rule for `.*special\.bessel_j0`.*rule\(…\).*fallback"
    ):
        Taylor().jet(no_rule, x, x, 2)


def test_the_fallback_takes_over_where_a_rule_is_missing(generator: Generator) -> None:
    x, v = torch.rand(2, 4, 3, generator=generator)

    def f(x: Tensor) -> Tensor:
        return torch.mvlgamma(x + 1, 2).sum(1)

    for engine in (Taylor(), Taylor(Taylor())):
        with pytest.raises(MissingRule, match="mvlgamma"):
            engine.jet(f, x, v, 1)
    safe = Taylor(fallback=Autodiff())
    torch.testing.assert_close(safe.jet(f, x, v, 1), Autodiff().jet(f, x, v, 1))
    with pytest.raises(MissingRule, match="mvlgamma"):
        Taylor().sliced(f, x, v[None])
    score = lambda x: torch.mvlgamma(x + 1, 2)
    torch.testing.assert_close(safe.quadratic(score, x, v), Autodiff().quadratic(score, x, v))


def test_a_rule_of_ones_own(generator: Generator) -> None:
    """A function that torch cannot differentiate twice, from functions that it can."""
    x, v = 1 + torch.rand(2, 4, 3, generator=generator)

    @rule(torch.special.scaled_modified_bessel_k0)
    def halved(x: Tensor) -> Tensor:
        return x.square() / 2

    f = lambda x: torch.special.scaled_modified_bessel_k0(x).sum(1)
    _, slope, curvature = Taylor().jet(f, x, v, 2)
    torch.testing.assert_close(slope, (x * v).sum(1))
    torch.testing.assert_close(curvature, (v * v).sum(1))


@pytest.mark.parametrize(
    "model",
    [lambda x: x.detach().sum(1), lambda x: torch.zeros(len(x)), lambda x: x.new_zeros(len(x))],
)
def test_refuses_a_model_that_does_not_depend_on_its_input(model: object) -> None:
    with pytest.raises(ValueError, match="does not depend on its input"):
        Taylor().jet(model, torch.ones(2, 3), torch.ones(2, 3), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", [Taylor(), Autodiff()])
def test_nothing_is_kept_where_gradients_are_off(engine: Derivative) -> None:
    x = torch.ones(2, 3)
    with torch.no_grad():
        slopes, curvature = engine.sliced(network(), x, x[None])
    assert not slopes.requires_grad
    assert not curvature.requires_grad


def test_vectorizing_inside_a_model_is_refused() -> None:
    with pytest.raises(MissingRule, match=r"`torch\.vmap`"):
        Taylor().jet(torch.vmap(lambda row: row.sum()), torch.ones(2, 3), torch.ones(2, 3), 1)


def test_without_gradients_nothing_is_kept_for_a_backward_pass() -> None:
    """The propagation is recorded, but no tensor is saved: the largest one is freed at once."""
    model, x = network(64), torch.rand(32, 3)
    kept: list[weakref.ref[Tensor]] = []

    class Watched(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            assert isinstance(h, Jet)
            kept.append(weakref.ref(h.coefficients))
            return h.exp()

    watched = nn.Sequential(model[0], Watched(), *model[2:])
    alive: list[bool] = []
    watched[4].register_forward_pre_hook(lambda *_: alive.append(kept[0]() is not None))
    with torch.no_grad():
        Taylor().sliced(watched, x, torch.ones(2, 32, 3))
    assert alive == [False]


def test_series_of_two_calls_do_not_mix() -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    kept: list[Tensor] = []

    def remembering(x: Tensor) -> Tensor:
        kept.append(x.exp())
        return (kept[0] * x).sum(1)

    Taylor().jet(remembering, x, v, 2)
    with pytest.raises(MissingRule, match="two calls of Taylor"):
        Taylor().jet(remembering, x, v, 2)

    def nested(x: Tensor) -> Tensor:
        return Taylor().jet(lambda z: (z * x).sum(1), torch.ones(2, 3), v, 1)[1]

    with pytest.raises(MissingRule, match="two calls of Taylor"):
        Taylor().jet(nested, x, v, 2)
    with pytest.raises(MissingRule, match="Taylor cannot be nested"):
        Taylor().jet(lambda x: Taylor().jet(network(), x, v, 1)[1], x, v, 2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.vmap(lambda w: (x * w).sum(1))(torch.ones(2, 3)).sum(0),
        lambda x: (torch.func.grad(lambda w: (x * w**2).sum())(torch.ones(2, 3)) * x).sum(1),
        lambda x: torch.func.grad(lambda x: x.square().sum())(x).sum(1),
    ],
)
def test_transforms_inside_a_model_are_refused(f: Callable[[Tensor], Tensor]) -> None:
    x, v = torch.rand(2, 3), torch.ones(2, 3)
    with pytest.raises(MissingRule, match=r"torch\.vmap"):
        Taylor().jet(f, x, v, 1)
    torch.testing.assert_close(
        Taylor(fallback=Autodiff()).jet(f, x, v, 1), Autodiff().jet(f, x, v, 1)
    )


def test_a_compiled_model_among_threads_leaves_the_compiler_alone() -> None:
    before = torch._dynamo.eval_frame._stance
    x = torch.rand(4, 3)
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(lambda _: Taylor().sliced(network(), x, x[None]), range(16))]
    assert torch._dynamo.eval_frame._stance == before
