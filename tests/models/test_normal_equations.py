"""The solution of the normal equations minimizes the loss of the corresponding objective."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd.functional import hessian, jacobian, jvp

from fdsm.derivatives import Autodiff, FiniteDifference
from fdsm.models import (
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

from .dkef_cases import D, Problem


@pytest.mark.parametrize("equations", [SlicedEquations(), FullGradientEquations()], ids=str)
def test_exact_equations_are_the_mean_over_all_sign_vectors(
    equations: Equations, problem: Problem
) -> None:
    kernels, x = problem.model.induced_kernels(), problem.x
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
def test_solution_minimizes_the_penalized_loss(
    pair: tuple[Equations, Callable[[Projection], SM | SSM | ViaScore]],
    projection: Projection,
    problem: Problem,
) -> None:
    """A Newton step on the loss of the objective gives the same coefficients."""
    equations, objective = pair
    model, x, v = problem.model, problem.x, problem.directions(projection)

    def loss(alpha: Tensor) -> Tensor:
        losses = objective(projection)(
            DKEFDensity(model.induced_kernels(), alpha), x, generator=Generator().manual_seed(3)
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
    f = lambda a: (
        lambda x: model.induced_kernels().base(x) + model.induced_kernels().kernels(x) @ a
    )
    scale = D / v.square().sum(1).mean()

    def loss(a: Tensor) -> Tensor:
        slope = lambda x: jvp(f(a), x, v, create_graph=True)[1]
        first, second = jvp(slope, x, v, create_graph=True)
        return scale * (second + first.square() / 2).mean()

    gram, moment = hessian(loss, torch.zeros(6)), jacobian(loss, torch.zeros(6))
    alpha = -torch.linalg.inv(gram + 10**model.log_penalty * torch.eye(6)) @ moment
    torch.testing.assert_close(model.solve(x, v).alpha, alpha)


def test_differences_converge_to_the_exact_solution_at_second_order(problem: Problem) -> None:
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


@pytest.mark.parametrize("equations", [pair[0] for pair in PAIRS.values()], ids=PAIRS)
def test_directions_of_another_shape_are_refused(equations: Equations, problem: Problem) -> None:
    with pytest.raises(ValueError, match="directions for data"):
        problem.model.solve(problem.x, torch.ones(D), equations)
