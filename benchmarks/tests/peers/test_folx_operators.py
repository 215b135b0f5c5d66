import pytest
import torch
from torch import nn

pytest.importorskip("jax")
pytest.importorskip("folx")

import jax

from benchmarks.peers import folx_operators
from benchmarks.problems import Problem, mlp
from fdsm.operators import biharmonic, laplacian

TANH = Problem("tanh", lambda: mlp(3, 8, 8, activation=nn.Tanh), (5, 3), 1)


@pytest.mark.parametrize(
    ("name", "operator"), [("Laplacian", laplacian), ("biharmonic", biharmonic)]
)
def test_operators_are_those_of_the_package(name: str, operator: object) -> None:
    model, x = TANH.build()
    ours = operator(model, x)
    theirs = folx_operators.value(folx_operators.OPERATORS[name], TANH)()
    torch.testing.assert_close(
        torch.tensor(jax.device_get(theirs)), ours.detach(), rtol=1e-3, atol=1e-4
    )
    mean, gradient = folx_operators.gradient(folx_operators.OPERATORS[name], TANH)()
    assert float(mean) == pytest.approx(ours.mean().item(), rel=1e-3, abs=1e-4)
    ours.mean().backward()
    first = torch.tensor(jax.device_get(gradient.weights[0])).T
    torch.testing.assert_close(first, model[0].weight.grad, rtol=1e-3, atol=1e-4)
