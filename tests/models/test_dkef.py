"""DKEF: its formula, exact derivatives, and coefficients that minimise what they should."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd.functional import hessian, jacobian, jvp
from torch.func import jacrev, vmap
from torch.nn import functional

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.models import (
    DKEF,
    DifferencedEquations,
    DKEFDensity,
    ExactEquations,
    FullGradientEquations,
    SlicedEquations,
)
from fdsm.models.normal_equations import Equations, _gram
from fdsm.objectives import SM, SSM, SSMVR, ViaScore
from fdsm.projections import Gaussian, Rademacher, Sphere
from fdsm.typing import Projection

D = 3


@dataclass(frozen=True)
class Problem:
    model: DKEF
    x: Tensor

    def directions(self, projection: Projection) -> Tensor:
        return projection.sample(self.x, Generator().manual_seed(3))


@pytest.fixture
def problem(generator: Generator) -> Problem:
    x = torch.randn(40, D, generator=generator)
    model = DKEF(torch.randn(6, D, generator=generator), features=4, base_scale=1.5)
    with torch.no_grad():
        model.weight_logits.copy_(torch.tensor([0.3, -0.2, 0.5]))
    return Problem(model, x)


def test_log_density_is_its_formula(problem: Problem, generator: Generator) -> None:
    model, alpha = problem.model, torch.randn(6, generator=generator)
    f = model.features
    weights = model.weight_logits.exp() / model.weight_logits.exp().sum()

    def phi(i: int, x: Tensor) -> Tensor:
        h = functional.softplus(x @ f.first[i] + f.first_bias[i, 0])
        h = functional.softplus(h @ f.second[i] + f.second_bias[i, 0])
        return h @ f.third[i] + x @ f.shortcut[i]

    density = DKEFDensity(model.induced(), alpha)
    for x, value in zip(problem.x[:5], density(problem.x[:5]), strict=True):
        expected = -x.square().sum() / (2 * 1.5**2)
        for i in range(3):
            width = 10 ** f.log_lengthscales[i]
            for a, z in zip(alpha, model.inducing, strict=True):
                distance = (phi(i, x) - phi(i, z)).square().sum()
                expected = expected + weights[i] * a * torch.exp(-distance / (2 * width))
        torch.testing.assert_close(value, expected)


def test_size_and_start_are_the_published_ones(generator: Generator) -> None:
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
    value, first, second = model.induced().kernel_jet(x, v)
    torch.testing.assert_close(value, model.induced().kernels(x))
    slope = lambda x: jvp(model.induced().kernels, x, v, create_graph=True)[1]
    torch.testing.assert_close(first, slope(x))
    torch.testing.assert_close(second, jvp(slope, x, v)[1])


def test_gradients_are_exact(problem: Problem) -> None:
    model, x = problem.model, problem.x
    jacobians = vmap(jacrev(lambda row: model.induced().kernels(row[None])[0]))(x)
    gradients, _ = model.induced().kernel_gradients_and_curvatures(x, torch.ones_like(x))
    torch.testing.assert_close(gradients, jacobians.mT)
    base = vmap(jacrev(lambda row: model.induced().base(row[None])[0]))(x)
    torch.testing.assert_close(model.induced().base_score(x), base)


def test_laplacians_are_exact(problem: Problem) -> None:
    kernels, x = problem.model.induced(), problem.x
    row = lambda x: kernels.kernels(x[None])[0]
    hessians = vmap(jacrev(jacrev(row)))(x)
    gradients, laplacians = kernels.kernel_gradients_and_laplacians(x)
    torch.testing.assert_close(laplacians, torch.einsum("bmii->bm", hessians))
    torch.testing.assert_close(gradients, vmap(jacrev(row))(x).mT)


def test_gradients_and_curvatures_are_those_of_the_jet(problem: Problem) -> None:
    kernels, x, v = problem.model.induced(), problem.x, problem.directions(Gaussian())
    gradients, curvatures = kernels.kernel_gradients_and_curvatures(x, v)
    _, slopes, expected = kernels.kernel_jet(x, v)
    torch.testing.assert_close(curvatures, expected)
    torch.testing.assert_close(torch.einsum("bd,bdm->bm", v, gradients), slopes)


@pytest.mark.parametrize("equations", [SlicedEquations(), FullGradientEquations()], ids=str)
def test_exact_equations_are_the_mean_over_all_signs(
    equations: Equations, problem: Problem
) -> None:
    kernels, x = problem.model.induced(), problem.x
    exact = ExactEquations()(kernels, x, torch.ones_like(x))
    signs = torch.cartesian_prod(*D * [torch.tensor([-1.0, 1.0])])
    found = [equations(kernels, x, v.expand_as(x).contiguous()) for v in signs]
    torch.testing.assert_close(exact.gram, torch.stack([e.gram for e in found]).mean(0))
    torch.testing.assert_close(exact.moment, torch.stack([e.moment for e in found]).mean(0))


def test_gram_matrix_and_its_derivatives(generator: Generator) -> None:
    slopes = torch.randn(5, 3, generator=generator, requires_grad=True)
    torch.testing.assert_close(_gram(slopes), torch.einsum("bi,bj->ij", slopes, slopes))
    assert torch.autograd.gradcheck(_gram, slopes)
    assert torch.autograd.gradgradcheck(_gram, slopes)


PAIRS: dict[str, tuple[Equations, Callable[[Projection], SM | SSM | ViaScore]]] = {
    "sliced": (SlicedEquations(), lambda p: SSM(Autodiff(), p)),
    "differences": (DifferencedEquations(), lambda p: SSM(FiniteDifference(), p)),
    "differences of fourth order": (
        DifferencedEquations(accuracy=4),
        lambda p: SSM(FiniteDifference(accuracy=4), p),
    ),
    "full gradient": (FullGradientEquations(), lambda p: ViaScore(SSMVR(Autodiff(), p))),
    "exact": (ExactEquations(), lambda p: SM(Autodiff())),
}
pairs = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


@pairs
@pytest.mark.parametrize("projection", [Sphere(0.3), Rademacher(math.sqrt(D))], ids=str)
def test_solution_minimises_the_penalised_loss(
    pair: tuple[Equations, Callable[[Projection], SM | SSM | ViaScore]],
    projection: Projection,
    problem: Problem,
) -> None:
    """One Newton step from anywhere, on the loss that somebody else wrote."""
    equations, objective = pair
    model, x, v = problem.model, problem.x, problem.directions(projection)

    def loss(alpha: Tensor) -> Tensor:
        losses = objective(projection)(
            DKEFDensity(model.induced(), alpha), x, generator=Generator().manual_seed(3)
        )
        return D * losses.mean() + model.penalty * alpha.square().sum() / 2

    solved = model.solve(x, v, equations).alpha.detach()
    start = torch.ones(6, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(start), start)
    step = 1e-3
    rows = [
        torch.autograd.grad(loss(start + step * unit), start)[0] - slope for unit in torch.eye(6)
    ]
    brute = start - torch.linalg.solve(torch.stack(rows) / step, slope)
    torch.testing.assert_close(solved, brute.detach(), rtol=1e-6, atol=1e-8)
    nearby = solved + 0.01
    assert loss(solved) < loss(nearby)


def test_penalty_is_in_units_of_the_summed_loss(problem: Problem) -> None:
    """`G` and `b` as Hessian and gradient of the loss, directions of any length."""
    model, x, v = problem.model, problem.x, problem.directions(Gaussian())
    f = lambda a: lambda x: model.induced().base(x) + model.induced().kernels(x) @ a
    scale = D / v.square().sum(1).mean()

    def loss(a: Tensor) -> Tensor:
        slope = lambda x: jvp(f(a), x, v, create_graph=True)[1]
        first, second = jvp(slope, x, v, create_graph=True)
        return scale * (second + first.square() / 2).mean()

    gram, moment = hessian(loss, torch.zeros(6)), jacobian(loss, torch.zeros(6))
    alpha = -torch.linalg.inv(gram + 10**model.log_penalty * torch.eye(6)) @ moment
    torch.testing.assert_close(model.solve(x, v).alpha, alpha)


def test_differences_approach_the_exact_solution_at_second_order(problem: Problem) -> None:
    model, errors = problem.model, []
    for radius in (0.1, 0.05, 0.025):
        v = problem.directions(Sphere(radius))
        exact = model.solve(problem.x, v).alpha
        errors.append((model.solve(problem.x, v, DifferencedEquations()).alpha - exact).norm())
    for before, after in pairwise(errors):
        assert 1.9 < (before / after).log2() < 2.1


@pairs
def test_equations_of_batches_add_up(
    pair: tuple[Equations, Callable[[Projection], SM | SSM | ViaScore]], problem: Problem
) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    whole = model.equations(x, v, pair[0])
    a, b = (model.equations(x[part], v[part], pair[0]) for part in (slice(15), slice(15, None)))
    together = a + b
    assert together.count == len(x)
    torch.testing.assert_close(together.gram, whole.gram)
    torch.testing.assert_close(model.solve_from(together).alpha, model.solve(x, v, pair[0]).alpha)


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


def test_finalised_model_is_the_density(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    with pytest.raises(RuntimeError, match=r"model\.solve.*model\.finalise"):
        model(x)
    equations = model.equations(x, v)
    model.finalise(equations)
    torch.testing.assert_close(model(x), model.solve_from(equations)(x))
    assert not model.alpha.requires_grad
    again = DKEF(torch.zeros(6, D), features=4, base_scale=1.5)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x))


def test_float32_solves_as_float64_does(problem: Problem) -> None:
    model, x, v = problem.model, problem.x, problem.directions(Sphere(0.1))
    exact = model.solve(x, v)(x)
    single = model.float().solve(x.float(), v.float())(x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-4)


def test_inducing_points_must_be_rows() -> None:
    with pytest.raises(ValueError, match=r"rows, shape \(M, D\)"):
        DKEF(torch.zeros(3))


@pytest.mark.parametrize("equations", [pair[0] for pair in PAIRS.values()], ids=PAIRS)
def test_directions_of_another_shape_are_refused(equations: Equations, problem: Problem) -> None:
    with pytest.raises(ValueError, match="directions for data"):
        problem.model.solve(problem.x, torch.ones(D), equations)
