"""Lemma 2: finite-difference gradients agree with exact ones to second order in the step."""

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import layer_norm, softplus

from fdsm.derivatives import Autodiff, FiniteDifference, PrecisionWarning
from fdsm.evaluation import check_consistency, gradient_angle
from fdsm.objectives import SSM, SSMVR, SlicedDSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative, Objective


def density(activation: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 16),
        activation,
        nn.Linear(16, 16),
        activation,
        nn.Linear(16, 1),
        nn.Flatten(0),
    )


def score() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Softplus(), nn.Linear(16, 5))


OBJECTIVES = {
    "fd-ssm": lambda d, radius: SSM(d, Sphere(radius)),
    "fd-dsm": lambda d, radius: SlicedDSM(0.3, d, Sphere(radius)),
    "fd-ssmvr": lambda d, radius: SSMVR(d, Sphere(radius)),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("accuracy", [2, 4])
def test_angle_decreases_as_a_power_of_the_step(
    name: str, accuracy: int, generator: Generator
) -> None:
    make = OBJECTIVES[name]
    model = score() if name == "fd-ssmvr" else density(nn.Softplus())
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    x = torch.randn(32, 5, generator=generator)
    steps = [0.4 / 2 ** (k / 2) for k in range(5)]
    angles = [
        gradient_angle(make(FiniteDifference(accuracy=accuracy), h), make(Autodiff(), h), model, x)
        for h in steps
    ]
    rate = np.polyfit(np.log(steps), np.log(angles), 1)[0]
    assert rate == pytest.approx(accuracy, abs=0.3)
    assert angles[-1] < 0.1


class Kink(nn.Module):
    r"""$\log p = -\mathrm{ELU}(x - θ)$ in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        return -nn.functional.elu(x[:, 0] - self.theta)


def test_double_backward_of_elu_omits_a_term_that_differences_include(
    generator: Generator,
) -> None:
    r"""Autodiff takes the derivative of a jump to be zero.

    The mean curvature of ELU at $x - θ$ is $E[e^{x-θ}; x < θ]$. Its slope in $θ$ at 0 is
    $φ(0) - E[e^x; x < 0]$, of which nested autodiff loses the $φ(0)$. So a disagreement of
    gradients with ELU, or any activation that is differentiable only once, says that *autodiff*
    is biased.
    """
    x = torch.randn(400_000, 1, generator=generator)
    inside = math.exp(0.5) * 0.5 * math.erfc(1 / math.sqrt(2))
    truth = -(1 / math.sqrt(2 * math.pi) - inside)
    model, v = Kink(), torch.full_like(x, 0.05)

    def slope(derivative: Derivative) -> float:
        curvature = derivative.jet(model, x, v, 2)[2].mean() / 0.05**2
        return torch.autograd.grad(curvature, model.theta)[0].item()

    assert slope(FiniteDifference()) == pytest.approx(truth, abs=0.02)
    assert slope(Autodiff()) == pytest.approx(inside, abs=0.01)
    assert abs(truth - inside) > 0.3


def test_angle_of_known_gradients() -> None:
    model = nn.Linear(2, 1, bias=False)

    def along(a: float, b: float) -> Objective:
        direction = torch.tensor([a, b]).double()
        return lambda f, x, *, generator: f(x)[:, 0] * 0 + f.weight @ direction

    x = torch.ones(3, 2)
    assert gradient_angle(along(1, 0), along(0, 2), model, x) == pytest.approx(math.pi / 2)
    assert gradient_angle(along(1, 1), along(3, 3), model, x) == pytest.approx(0, abs=1e-15)
    assert gradient_angle(along(1, 0), along(-1, 0), model, x) == pytest.approx(math.pi)
    assert gradient_angle(along(1, 1e-9), along(1, 0), model, x) == pytest.approx(1e-9)
    with pytest.raises(ValueError, match="there is no angle"):
        gradient_angle(along(0, 0), along(1, 0), model, x)


def test_both_objectives_use_the_same_random_numbers(generator: Generator) -> None:
    model, x = density(nn.Softplus()), torch.randn(8, 5, generator=generator)
    state = generator.get_state()
    same = SlicedDSM(0.3, directions=2)
    assert gradient_angle(same, same, model, x, generator=generator) < 1e-12
    assert torch.equal(generator.get_state(), state)


def test_both_objectives_use_the_same_dropout_masks(generator: Generator) -> None:
    model = nn.Sequential(
        density(nn.Softplus())[:4], nn.Dropout(0.5), nn.Linear(16, 1), nn.Flatten(0)
    )
    x = torch.randn(8, 5, generator=generator)
    fd, exact = (SSM(d, Sphere(1e-3)) for d in (FiniteDifference(parallel=False), Autodiff()))
    assert gradient_angle(fd, exact, model, x) < 1e-4


def test_models_without_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="no parameters to train"):
        gradient_angle(SSM(), SSM(), nn.Identity(), torch.ones(2, 3))


def test_parameters_without_a_gradient_count_as_zero(generator: Generator) -> None:
    model, x = density(nn.Softplus()), torch.randn(8, 5, generator=generator)
    fd, exact = (SSM(d, Sphere(1e-3)) for d in (FiniteDifference(), Autodiff()))
    assert gradient_angle(fd, exact, model, x) < 1e-4


@pytest.mark.parametrize("name", OBJECTIVES)
def test_report(name: str, generator: Generator) -> None:
    model = score() if name == "fd-ssmvr" else density(nn.Softplus())
    x = torch.randn(64, 5, generator=generator)
    objective, reference = (OBJECTIVES[name](d, 0.2) for d in (FiniteDifference(), Autodiff()))
    report = check_consistency(objective, model, x)
    angle = gradient_angle(objective, reference, model, x)
    assert report.angle == pytest.approx(math.degrees(angle))
    assert report.step == pytest.approx(0.2)
    assert 0 < report.value_error < 0.05
    assert report.rounding_error < 1e-9
    best = check_consistency(
        OBJECTIVES[name](FiniteDifference(), report.recommended_step), model, x
    )
    assert best.value_error < report.value_error / 100
    order = 2 if name == "fd-ssm" else 1
    guess = 2.0 ** (-53 / (order + 2))
    assert guess < report.recommended_step < 100 * guess
    accurate = check_consistency(OBJECTIVES[name](FiniteDifference(accuracy=4), 0.2), model, x)
    assert accurate.recommended_step > 5 * report.recommended_step
    assert f"{report.recommended_step:10.2e}" in str(report)
    assert "degrees" in str(report)


class Normalized(nn.Module):
    """A log-density with a layer norm: `nn.LayerNorm`, `F.layer_norm`, or its formula."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, 1)
        norms = {
            "modular": nn.LayerNorm(16, elementwise_affine=False),
            "functional": lambda h: layer_norm(h, (16,)),
            "by hand": lambda h: (h - h.mean(1, True)) / (h.var(1, False, True) + 1e-5).sqrt(),
        }
        self.norm = norms[norm]

    def forward(self, x: Tensor) -> Tensor:
        return self.last(softplus(self.norm(self.first(x)))).squeeze(1)


@pytest.mark.parametrize("norm", ["modular", "functional"])
@pytest.mark.parametrize("name", ["fd-ssm", "fd-dsm"])
def test_layer_norm_is_compared_with_correct_gradients(
    norm: str, name: str, generator: Generator
) -> None:
    """Autograd is right for the norm written as its formula: the angle must be the same.

    A reference that uses autograd's formulas for `F.layer_norm` is off by several degrees in SSM.
    """
    model, by_hand = Normalized(norm), Normalized("by hand")
    by_hand.load_state_dict(model.state_dict())
    x = torch.randn(64, 5, generator=generator)
    objective, exact = (OBJECTIVES[name](d, 0.01) for d in (FiniteDifference(), Autodiff()))
    report = check_consistency(objective, model, x)
    truth = math.degrees(gradient_angle(objective, exact, by_hand, x))
    assert 0 < truth < 0.1
    assert report.angle == pytest.approx(truth, rel=1e-3)


def test_report_names_the_reference(generator: Generator) -> None:
    x = torch.randn(8, 5, generator=generator)
    report = check_consistency(SSM(FiniteDifference()), density(nn.Softplus()), x)
    assert report.reference == "Taylor(fallback=Autodiff())"
    assert report.reference in str(report)


class MultivariateGamma(nn.Module):
    """A log-density with a function that Taylor has no rule for."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mvlgamma(1 + self.layer(x).exp(), 2).sum(1)


@pytest.mark.parametrize("name", ["fd-ssm", "fd-dsm"])
def test_report_says_that_the_fallback_was_used(name: str, generator: Generator) -> None:
    model, x = MultivariateGamma(), torch.randn(8, 5, generator=generator)
    objective, exact = (OBJECTIVES[name](d, 0.1) for d in (FiniteDifference(), Autodiff()))
    report = check_consistency(objective, model, x)
    assert report.reference == "Taylor(fallback=Autodiff()), which used the fallback"
    assert report.angle == pytest.approx(math.degrees(gradient_angle(objective, exact, model, x)))


def test_report_shows_the_rounding_error_of_an_untrained_network_in_float32(
    generator: Generator,
) -> None:
    model = density(nn.Softplus()).float()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.3)
        model[4].bias.fill_(10)
    x = torch.randn(64, 5, generator=generator).float()
    with pytest.warns(PrecisionWarning, match="dominated by rounding"):
        report = check_consistency(SSM(FiniteDifference(), Sphere(0.05)), model, x)
    assert report.rounding_error > 0.1
    assert report.angle > 5
    assert report.recommended_step > 0.2
