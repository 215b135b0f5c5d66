"""The losses in JAX are those of the package, for the same random numbers."""

from functools import partial

import pytest
import torch

pytest.importorskip("jax")

import jax

from benchmarks.peers import jax_losses
from benchmarks.peers.by_hand import EPS, SIGMA, sphere
from benchmarks.peers.jax_losses import (
    LOSSES,
    as_array,
    load_parameters,
    log_density,
    parameters_of,
)
from benchmarks.problems import mlp
from fdsm.derivatives import FiniteDifference, Taylor
from fdsm.models import GaussianTailMLP
from fdsm.objectives import DSM, SSM
from fdsm.projections import Sphere


@pytest.fixture(autouse=True)
def _float32() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("model", [lambda: mlp(3, 8, 8), lambda: GaussianTailMLP(3, (8, 8))])
def test_the_network_is_the_same_and_can_be_copied_back(model: object) -> None:
    first, other, x = model(), model(), torch.randn(5, 3)
    values = log_density(parameters_of(first), as_array(x))
    torch.testing.assert_close(torch.tensor(jax.device_get(values)), first(x).detach())
    load_parameters(other, parameters_of(first))
    torch.testing.assert_close(other(x), first(x))


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("SSM jvp(grad)", SSM(Taylor(), Sphere(EPS))),
        ("SSM jvp(jvp)", SSM(Taylor(), Sphere(EPS))),
        ("FD-SSM", SSM(FiniteDifference(), Sphere(EPS))),
        ("DSM", DSM(SIGMA)),
    ],
)
def test_losses_and_gradients_are_those_of_the_objectives(name: str, objective: object) -> None:
    model, x = GaussianTailMLP(3, (8, 8)), torch.randn(5, 3)
    random = sphere(x)
    ours = objective.at(model, x, random).mean()
    of = lambda p: LOSSES[name].value(partial(log_density, p), as_array(x), as_array(random))
    value, gradient = jax.value_and_grad(of)(parameters_of(model))
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if name == "FD-SSM" else {"rtol": 1e-4, "atol": 1e-5}
    assert float(value) == pytest.approx(ours.item(), rel=tolerance["rtol"])
    ours.backward()
    first = torch.tensor(jax.device_get(gradient.weights[0])).T
    torch.testing.assert_close(first, model.network[1].weight.grad, **tolerance)


def test_random_numbers_have_their_size() -> None:
    x = as_array(torch.zeros(1000, 4))
    v = torch.tensor(jax.device_get(jax_losses.sphere(jax.random.key(0), x)))
    torch.testing.assert_close(v.norm(dim=1), torch.full((1000,), EPS))
    noise = torch.tensor(jax.device_get(jax_losses.noise(jax.random.key(0), x)))
    assert noise.std().item() == pytest.approx(SIGMA, rel=0.05)
