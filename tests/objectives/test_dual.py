"""Dual score matching: both regressions have the log-density of noisy data as their minimum."""

import pytest
import torch
from torch import Generator, Tensor

from fdsm.evaluation import fit_gaussian
from fdsm.noise import LogUniform
from fdsm.objectives import AnnealedDSM, DualDSM, ViaScore

from .equation_cases import network
from .mixture_cases import NoisyMixture, mean_and_error

LEVELS = LogUniform(5.0, 0.1)


@pytest.mark.parametrize("event", [(5,), (2, 3)], ids=str)
def test_equals_the_formula_row_by_row(event: tuple[int, ...], generator: Generator) -> None:
    net = network((7 if event == (5,) else 8,), 0, False)
    f = lambda x, sigma, c: net(torch.cat([x.flatten(1), sigma[:, None], c[:, None]], 1))
    x, z = torch.randn(2, 4, *event, generator=generator)
    sigma, c = 0.1 + torch.rand(2, 4, generator=generator)
    losses = DualDSM(weight=0.7).at(f, x, z, sigma, c)
    for i in range(4):
        y = (x[i] + sigma[i] * z[i]).requires_grad_()
        t = sigma[i].square().requires_grad_()
        in_space, in_time = torch.autograd.grad(f(y[None], t.sqrt()[None], c[i, None])[0], (y, t))
        d, squares = y.numel(), z[i].square().sum()
        expected = t * (in_space + z[i] / sigma[i]).square().sum() / d
        expected = expected + 0.7 * 2 * t**2 / d * (in_time - (squares - d) / (2 * t)) ** 2
        torch.testing.assert_close(losses[i], expected)


def gradients(objective: DualDSM, model: NoisyMixture, truth: NoisyMixture) -> Tensor:
    """Return the gradients of mean losses on 40 batches, shape `(40, parameters)`."""
    generator, rows = Generator().manual_seed(0), []
    for _ in range(40):
        loss = objective(model, truth.sample(2000, generator), generator=generator).mean()
        parts = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows)


@pytest.mark.parametrize("d", [2, 16])
def test_the_gradient_vanishes_at_the_truth(d: int) -> None:
    mean, error = mean_and_error(gradients(DualDSM(LEVELS), NoisyMixture(d), NoisyMixture(d)))
    assert (mean.abs() < 4.5 * error).all()


@pytest.mark.parametrize("name", ["logits", "scale", "drift"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_gradient_points_back_to_the_truth(name: str, sign: int) -> None:
    model = NoisyMixture(2)
    with torch.no_grad():
        getattr(model, name).view(-1)[0].add_(0.2 * sign)
    start = sum(p.numel() for n, p in model.named_parameters() if n in before(name, model))
    mean, error = mean_and_error(gradients(DualDSM(LEVELS), model, NoisyMixture(2))[:, start])
    assert sign * mean > 5 * error


def before(name: str, model: NoisyMixture) -> list[str]:
    """Return the names of the parameters that come before one."""
    names = [n for n, _ in model.named_parameters()]
    return names[: names.index(name)]


def test_without_weight_it_is_annealed_denoising_and_does_not_see_the_level() -> None:
    model, generator = NoisyMixture(2), Generator().manual_seed(0)
    x = model.sample(50, generator)
    dual, annealed = (
        objective(model, x, generator=Generator().manual_seed(1))
        for objective in (DualDSM(LEVELS, 0.0), ViaScore(AnnealedDSM(LEVELS)))
    )
    torch.testing.assert_close(dual, annealed)
    assert torch.autograd.grad(dual.sum(), model.drift)[0] == 0


def test_the_largest_level_determines_the_constant(generator: Generator) -> None:
    model = NoisyMixture(2)
    x, largest = model.sample(20_000, generator), torch.full((20_000,), 10.0)
    noisy = x + 10 * torch.randn(x.shape, generator=generator)
    gap = fit_gaussian(x, noise=10.0)(noisy) - (model(noisy, largest) + 7.0).detach()
    mean, error = mean_and_error(gap)
    assert abs(mean + 7.0) < 5 * error + 1e-3
    assert error < 1e-3


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_are_checked(weight: float) -> None:
    with pytest.raises(ValueError, match="the weight must not be negative"):
        DualDSM(weight=weight)
