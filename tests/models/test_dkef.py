"""DKEF compared with its formula, and its derivatives with autograd."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd.functional import jvp
from torch.func import jacrev, vmap
from torch.nn import functional

from fdsm.models import (
    DKEF,
    DKEFDensity,
)
from fdsm.projections import Gaussian, Sphere

from .dkef_cases import D, Problem


def test_log_density_agrees_with_its_formula(problem: Problem, generator: Generator) -> None:
    model, alpha = problem.model, torch.randn(6, generator=generator)
    f = model.features
    weights = model.weight_logits.exp() / model.weight_logits.exp().sum()

    def phi(i: int, x: Tensor) -> Tensor:
        h = functional.softplus(x @ f.first[i] + f.first_bias[i, 0])
        h = functional.softplus(h @ f.second[i] + f.second_bias[i, 0])
        return h @ f.third[i] + x @ f.shortcut[i]

    density = DKEFDensity(model.induced_kernels(), alpha)
    for x, value in zip(problem.x[:5], density(problem.x[:5]), strict=True):
        expected = -x.square().sum() / (2 * 1.5**2)
        for i in range(3):
            width = 10 ** f.log_lengthscales[i]
            for a, z in zip(alpha, model.inducing, strict=True):
                distance = (phi(i, x) - phi(i, z)).square().sum()
                expected = expected + weights[i] * a * torch.exp(-distance / (2 * width))
        torch.testing.assert_close(value, expected)


def test_size_and_initial_values_are_the_published_ones(generator: Generator) -> None:
    """Three networks without the last bias, which cancels; 200 points; `l`, `w` and `λ`."""
    z = torch.randn(200, 15, generator=generator)
    model = DKEF(z)
    network = (15 * 30 + 30) + (30 * 30 + 30) + 30 * 30 + 15 * 30
    assert sum(p.numel() for p in model.parameters()) == 3 * network + 200 * 15 + 3 + 3 + 1
    assert torch.equal(model.inducing, z)
    z.zero_()
    assert model.inducing.abs().sum() > 0
    assert model.features.log_lengthscales.tolist() == [0, 0.5185, 1]
    assert abs(model.penalty.item() - 0.01) < 1e-12
    for parameter in (model.features.first, model.features.second, model.features.shortcut):
        assert abs(parameter.std() * math.sqrt(30) - 1) < 0.1
    assert abs(model.features.first_bias.std() * math.sqrt(30) - 1) < 0.3


def test_jet_is_exact(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Gaussian())
    value, first, second = model.induced_kernels().kernel_jet(x, v)
    torch.testing.assert_close(value, model.induced_kernels().kernels(x))
    slope = lambda x: jvp(model.induced_kernels().kernels, x, v, create_graph=True)[1]
    torch.testing.assert_close(first, slope(x))
    torch.testing.assert_close(second, jvp(slope, x, v)[1])


def test_gradients_are_exact(problem: Problem) -> None:
    model, x = problem.model, problem.x
    jacobians = vmap(jacrev(lambda row: model.induced_kernels().kernels(row[None])[0]))(x)
    gradients, _ = model.induced_kernels().kernel_gradients_and_curvatures(x, torch.ones_like(x))
    torch.testing.assert_close(gradients, jacobians.mT)
    base = vmap(jacrev(lambda row: model.induced_kernels().base(row[None])[0]))(x)
    torch.testing.assert_close(model.induced_kernels().base_score(x), base)


def test_laplacians_are_exact(problem: Problem) -> None:
    kernels, x = problem.model.induced_kernels(), problem.x
    row = lambda x: kernels.kernels(x[None])[0]
    hessians = vmap(jacrev(jacrev(row)))(x)
    gradients, laplacians = kernels.kernel_gradients_and_laplacians(x)
    torch.testing.assert_close(laplacians, torch.einsum("bmii->bm", hessians))
    torch.testing.assert_close(gradients, vmap(jacrev(row))(x).mT)


def test_gradients_and_curvatures_agree_with_the_jet(problem: Problem) -> None:
    kernels, x, v = problem.model.induced_kernels(), problem.x, problem.directions(Gaussian())
    gradients, curvatures = kernels.kernel_gradients_and_curvatures(x, v)
    _, slopes, expected = kernels.kernel_jet(x, v)
    torch.testing.assert_close(curvatures, expected)
    torch.testing.assert_close(torch.einsum("bd,bdm->bm", v, gradients), slopes)


def test_gradients_flow_through_the_solution(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    value = model.solve(x[:20], v[:20])(x[20:]).mean
    model.zero_grad()
    value().backward()
    for parameter in (model.inducing, model.log_penalty, model.features.log_lengthscales):
        assert parameter.grad is not None
        direction, h = torch.ones_like(parameter), 1e-5
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * h * direction)
                values.append(model.solve(x[:20], v[:20])(x[20:]).mean())
                parameter.sub_(sign * h * direction)
        expected = (values[0] - values[1]) / (2 * h)
        torch.testing.assert_close(
            (parameter.grad * direction).sum(), expected, rtol=1e-5, atol=1e-9
        )


def test_finalized_model_is_the_density(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    with pytest.raises(RuntimeError, match=r"model\.solve.*model\.finalize"):
        model(x)
    equations = model.equations(x, v)
    model.finalize(equations)
    torch.testing.assert_close(model(x), model.solve_from(equations)(x))
    assert not model.alpha.requires_grad
    again = DKEF(torch.zeros(6, D), features=4, base_scale=1.5)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x))


def test_float32_agrees_with_float64(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    exact = model.solve(x, v)(x)
    single = model.float().solve(x.float(), v.float())(x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-4)


def test_inducing_points_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have shape \(M, D\)"):
        DKEF(torch.zeros(3))
