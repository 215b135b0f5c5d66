"""Exact score-matching losses compared with closed forms and Hessians."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import Autodiff, score_of
from fdsm.evaluation import (
    exact_sm_loss,
    exact_sm_loss_of_score,
    fisher_divergence,
    relative_fisher_divergence,
    sm_losses,
    sm_losses_of_score,
)
from fdsm.models import NICE, QuadraticResNet
from fdsm.objectives import SM
from fdsm.operators import coordinates
from fdsm.operators.coordinates import bytes_per_coefficient


def network(d: int) -> nn.Module:
    return nn.Sequential(nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(64, 1), nn.Flatten(0)
    )


def precision_matrix(d: int, generator: Generator) -> Tensor:
    root = torch.randn(d, d, generator=generator)
    return root @ root.T / d + torch.eye(d)


def test_standard_normal_on_its_own_data(generator: Generator) -> None:
    x = torch.randn(20_000, 6, generator=generator)
    measured = exact_sm_loss(lambda x: -x.square().sum(1) / 2, x)
    assert measured.error is not None
    assert abs(measured.value + 3) < 4 * measured.error
    # ‖x‖²/2 has variance d/2
    assert measured.error == pytest.approx((3 / 20_000) ** 0.5, rel=0.05)
    assert measured.settings["dimension"] == 6
    assert measured.settings["rows"] == 20_000
    assert "summed" in str(measured.settings["scale"])


def test_losses_of_a_gaussian_in_closed_form(generator: Generator) -> None:
    """The Hessian is -P and the score -P(x - μ)."""
    precision, mean = precision_matrix(5, generator), torch.randn(5, generator=generator)
    x = torch.randn(7, 5, generator=generator)

    def log_density(x: Tensor) -> Tensor:
        return -((x - mean) @ precision * (x - mean)).sum(1) / 2

    expected = -precision.trace() + ((x - mean) @ precision).square().sum(1) / 2
    torch.testing.assert_close(sm_losses(log_density, x), expected)
    score = lambda x: -(x - mean) @ precision
    torch.testing.assert_close(sm_losses_of_score(score, x), expected)


def test_losses_of_a_network_agree_with_its_hessian(generator: Generator) -> None:
    model, x = network(4), torch.randn(6, 4, generator=generator)
    expected = []
    for row in x:
        f = lambda row: model(row[None])[0]
        hessian = torch.func.jacrev(torch.func.jacrev(f))(row)
        slope = torch.func.grad(f)(row)
        expected.append(hessian.trace() + slope.square().sum() / 2)
    torch.testing.assert_close(sm_losses(model, x), torch.stack(expected))


def test_a_network_with_one_hidden_layer_in_closed_form(generator: Generator) -> None:
    """∇ = Wᵀ(u tanh'(a)) and tr ∇² = Σ_k u_k tanh''(a_k) ‖W_k‖², with a = Wx + b."""
    model, x = network(4), torch.randn(6, 4, generator=generator)
    w, u = model[0].weight, model[2].weight[0]
    t = (x @ w.T + model[0].bias).tanh()
    slope = (u * (1 - t**2)) @ w
    trace = (u * -2 * t * (1 - t**2)) @ w.square().sum(1)
    expected = (trace + slope.square().sum(1) / 2).detach()
    torch.testing.assert_close(sm_losses(model, x), expected)


def test_losses_of_a_non_conservative_score_agree_with_its_jacobian(generator: Generator) -> None:
    score = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 4))
    x = torch.randn(6, 4, generator=generator)
    jacobians = torch.stack([torch.func.jacrev(score)(row) for row in x])
    expected = jacobians.diagonal(dim1=1, dim2=2).sum(1) + score(x).square().sum(1) / 2
    torch.testing.assert_close(sm_losses_of_score(score, x), expected)
    assert exact_sm_loss_of_score(score, x).value == pytest.approx(expected.mean().item())


@pytest.mark.parametrize("chunk", [1, 3, 5, 100])
def test_losses_do_not_depend_on_the_chunk_size(chunk: int, generator: Generator) -> None:
    model, x = convolutional(), torch.randn(5, 2, 4, 4, generator=generator)
    whole = 32 * SM(Autodiff())(model, x).detach()
    torch.testing.assert_close(sm_losses(model, x, chunk=chunk), whole)
    score_losses = sm_losses_of_score(score_of(model), x, chunk=chunk)
    torch.testing.assert_close(score_losses, whole)


def test_channels_last_images_give_the_same_losses(generator: Generator) -> None:
    x = torch.randn(3, 2, 4, 4, generator=generator)
    score = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 1))
    expected = sm_losses_of_score(score, x)
    channels_last = x.to(memory_format=torch.channels_last)
    assert not channels_last.is_contiguous()
    torch.testing.assert_close(sm_losses_of_score(score, channels_last), expected)


def test_conditions_are_split_with_their_rows(generator: Generator) -> None:
    x, a = torch.randn(5, 3, generator=generator), torch.rand(5, generator=generator)
    log_density = lambda x, a: -a * x.square().sum(1) / 2
    expected = -3 * a + a.square() * x.square().sum(1) / 2
    torch.testing.assert_close(sm_losses(log_density, x, a, chunk=2), expected)


def test_a_linear_log_density_has_no_curvature() -> None:
    w = torch.tensor([1.0, 2.0])
    losses = sm_losses(lambda x: x @ w, torch.zeros(3, 2))
    torch.testing.assert_close(losses, torch.full((3,), 2.5))


def test_float32_models_are_summed_in_float64(generator: Generator) -> None:
    x = torch.randn(4, 300, generator=generator)
    log_density = lambda x: -x.square().sum(1) / 2
    losses = sm_losses(log_density, x.float())
    assert losses.dtype == torch.float64
    torch.testing.assert_close(losses, sm_losses(log_density, x), rtol=1e-6, atol=0)


def test_no_gradients_are_left_behind(generator: Generator) -> None:
    model, x = network(3), torch.randn(4, 3, generator=generator)
    with torch.no_grad():
        inside = sm_losses(model, x)
    torch.testing.assert_close(sm_losses(model, x), inside)
    assert not inside.requires_grad
    assert not x.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_fisher_divergence_is_a_difference_of_losses(generator: Generator) -> None:
    """On N(0, I): ½E‖(1 - a)x‖² = d(1 - a)²/2 = J(a) - J(1), J(a) = d(a²/2 - a)."""
    x, a = torch.randn(50_000, 4, generator=generator), 1.7
    measured = fisher_divergence(lambda x: -a * x, lambda x: -x, x)
    assert measured.error is not None
    assert abs(measured.value - 4 * 0.7**2 / 2) < 4 * measured.error
    loss = 4 * (a**2 / 2 - a)
    assert abs(measured.value - (loss - (-2))) < 4 * measured.error


def test_relative_fisher_divergence(generator: Generator) -> None:
    x = torch.randn(50_000, 4, generator=generator)
    scaled = relative_fisher_divergence(lambda x: -1.7 * x, lambda x: -x, x, chunk=999)
    assert scaled.value == pytest.approx(0.49)
    assert scaled.error == pytest.approx(0, abs=1e-12)  # exact for any sample
    shifted = relative_fisher_divergence(lambda x: 1 - x, lambda x: -x, x)
    assert shifted.error is not None
    assert abs(shifted.value - 1) < 4 * shifted.error
    # the error of d / mean(‖x‖²), d = 4 and Var ‖x‖² = 8: sqrt(8) / 4 / sqrt(n)
    assert shifted.error == pytest.approx(8**0.5 / 4 / 50_000**0.5, rel=0.05)


def test_invalid_models_and_data_are_refused() -> None:
    x = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="without gradients"):
        sm_losses_of_score(lambda x: -x.detach(), x)
    with pytest.raises(ValueError, match="must return the shape of its input"):
        sm_losses_of_score(lambda x: x[:, :1], x)
    with pytest.raises(ValueError, match=r"Use `.squeeze\(1\)`"):
        sm_losses(lambda x: x[:, :1], x)
    with pytest.raises(ValueError, match="not finite"):
        sm_losses(lambda x: x.sum(1), x / 0)
    with pytest.raises(ValueError, match="chunks must be positive"):
        sm_losses(lambda x: x.sum(1), x, chunk=0)
    with pytest.raises(ValueError, match="at least one row"):
        sm_losses(lambda x: x.sum(1), x[:0])
    with pytest.raises(TypeError, match="floating-point"):
        sm_losses(lambda x: x.sum(1), x.long())


@pytest.mark.parametrize(
    ("model", "shape"),
    [(lambda: QuadraticResNet((1, 8, 8), width=2), (1, 8, 8)), (lambda: NICE(50, 16), (50,))],
    ids=["resnet", "nice"],
)
def test_taylor_agrees_with_a_double_backward_per_coordinate(
    model: Callable[[], nn.Module],
    shape: tuple[int, ...],
    generator: Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are more coordinates and rows than in one chunk."""
    f, x = model(), torch.rand(25, *shape, generator=generator)
    calls: list[None] = []
    f.register_forward_hook(lambda *_: calls.append(None))
    monkeypatch.setattr(coordinates, "MIN_CHUNK_ROWS", 1)
    monkeypatch.setattr(coordinates, "CACHE", 36 * bytes_per_coefficient(f, x, False))
    found = sm_losses(f, x)
    assert len(calls) == 25 * 2, "one row at a time, and 34 coordinates"
    truth = sm_losses(f, x, derivative=Autodiff())
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=0)
    single = sm_losses(f.float(), x.float())
    assert single.mean().item() == pytest.approx(truth.mean().item(), rel=1e-5)


def test_models_without_a_taylor_rule_use_autodiff(generator: Generator) -> None:
    x = torch.rand(5, 3, generator=generator)
    f = lambda x: torch.mvlgamma(x + 1, 2).sum(1)
    torch.testing.assert_close(sm_losses(f, x), sm_losses(f, x, derivative=Autodiff()))
