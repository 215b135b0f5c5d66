"""The losses of torchebm are those of the package, for the same random numbers."""

import pytest
import torch

pytest.importorskip("torchebm")

from benchmarks.peers import torchebm_losses
from benchmarks.peers.by_hand import SIGMA
from benchmarks.problems import mlp
from fdsm.derivatives import Autodiff
from fdsm.objectives import DSM, SSM
from fdsm.projections import Gaussian


@pytest.fixture(autouse=True)
def _float32() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("directions", [1, 5])
def test_sliced_score_matching_is_the_dimension_times_ours(directions: int) -> None:
    """Random signs have the second moment of a standard normal vector, the dimension."""
    model, x = mlp(3, 8, 8), torch.randn(4, 3)
    v = torch.randn(directions * 4, 3, generator=torch.Generator().manual_seed(1)).sign()
    loss = torchebm_losses.sliced(model, directions=directions)
    value = loss(x, generator=torch.Generator().manual_seed(1))
    ours = SSM(Autodiff(), Gaussian()).at(model, x, v.view(directions, 4, 3)).mean()
    torch.testing.assert_close(value, 3 * ours)


def test_denoising_score_matching_is_half_the_dimension_times_ours() -> None:
    model, x = mlp(3, 8, 8), torch.randn(4, 3)
    torch.manual_seed(2)
    noise = SIGMA * torch.randn(4, 3)
    torch.manual_seed(2)
    value = torchebm_losses.dsm(model, x)()
    torch.testing.assert_close(value, 3 / 2 * DSM(SIGMA).at(model, x, noise).mean())


def test_images_are_flattened() -> None:
    """At zero the loss of $-‖x‖²/2$ is minus the dimension, for any signs."""

    class Quadratic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[1:] == (1, 2, 2)
            return -x.square().sum((1, 2, 3)) / 2

    loss = torchebm_losses.ssm(Quadratic(), torch.zeros(3, 1, 2, 2), directions=1)
    assert loss().item() == pytest.approx(-4)
