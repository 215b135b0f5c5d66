"""Operators of functions with known derivatives."""

import pytest
import torch

from benchmarks.peers import nested_operators as nested

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


@pytest.mark.parametrize("operator", [nested.laplacian, nested.hessian_trace])
def test_the_laplacian_of_a_sum_of_sines(operator: object) -> None:
    x = torch.randn(4, 3)
    torch.testing.assert_close(operator(lambda x: x.sin().sum(1), x), -x.sin().sum(1))


def test_the_biharmonic_operator_includes_mixed_derivatives() -> None:
    r"""$Δ² ‖x‖⁴ = 8 d (d + 2)$."""
    values = nested.biharmonic(lambda x: x.square().sum(1).square(), torch.randn(4, 3))
    torch.testing.assert_close(values, torch.full((4,), 8.0 * 3 * 5))


def test_curvatures_are_summed_over_directions() -> None:
    x, v = torch.randn(4, 3), torch.randn(2, 4, 3)
    values = nested.sum_of_curvatures(lambda x: x.square().sum(1), x, v)
    torch.testing.assert_close(values, 2 * v.square().sum((0, 2)))
