"""Lemma 2 on models with known gradients."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from paper.run_store import RunStore
from paper.studies.lemma2 import CASES, CPU, PAPER, Case, Lemma2, angles
from paper.support.analysis import loglog_slope


class Quartic(nn.Module):
    r"""$\log p = -a x²/2 - b x⁴/4$ in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([0.6, 0.4]))

    def forward(self, x: Tensor) -> Tensor:
        return -(torch.cat([x**2 / 2, x**4 / 4], 1) @ self.theta)


def gradient(x: float, a: float, b: float, step: float) -> tuple[float, float]:
    """Return the gradient of FD-SSM, or of SSM for a step of zero, derived by hand."""
    slopes = -x, -(x**3) - x * step**2
    slope = a * slopes[0] + b * slopes[1]
    return -1 + slope * slopes[0], -3 * x**2 - step**2 / 2 + slope * slopes[1]


def test_angle_agrees_with_the_closed_form() -> None:
    steps = [0.05, 0.2, 0.8]
    found = angles(SSM(FiniteDifference()), Quartic(), [torch.tensor([[0.7]])], steps, seed=0)
    directions = [math.atan2(*gradient(0.7, 0.6, 0.4, step)) for step in (0.0, *steps)]
    expected = [abs(angle - directions[0]) for angle in directions[1:]]
    torch.testing.assert_close(found, torch.tensor([expected]), rtol=1e-6, atol=0)


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(4, 12), nn.Softplus(), nn.Linear(12, 12), nn.Softplus(), nn.Linear(12, 1))
    model = nn.Sequential(*layers, nn.Flatten(0))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    return model.to(dtype)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_angles_decrease_as_the_square_of_the_step(case: Case, generator: Generator) -> None:
    steps, x = [0.02, 0.05, 0.1], torch.randn(2, 16, 4, generator=generator)
    found = angles(case.objective, network(), list(x), steps, seed=0)
    assert [loglog_slope(steps, row) for row in found.tolist()] == pytest.approx([2, 2], abs=0.1)


@pytest.mark.filterwarnings("ignore::fdsm.derivatives.PrecisionWarning")
@pytest.mark.parametrize(("case", "power"), [(CASES[0], -2), (CASES[1], -1)])
def test_rounding_increases_angles_at_small_steps(
    case: Case, power: int, generator: Generator
) -> None:
    steps, x = [1e-4, 4e-4, 1.6e-3], torch.randn(8, 16, 4, generator=generator).float()
    found = angles(case.objective, network(torch.float32), list(x), steps, seed=0).tan()
    typical = found.abs().log().mean(0).exp().tolist()
    assert loglog_slope(steps[-2:], typical[-2:]) == pytest.approx(power, abs=0.6)


@pytest.mark.usefixtures("tiny_table")
def test_study_of_a_trained_network(tmp_path: Path) -> None:
    case = Case("FD-SSM", SSM(FiniteDifference(), Sphere(0.1)), "a", "tiny")
    study = Lemma2((case,), steps=(0.01, 0.02, 0.05), fit_range=(0.01, 0.05), batch_size=5)
    result = study.run(RunStore(tmp_path), 0, lambda numbers: numbers)
    assert result.numbers["exponent, FD-SSM"].value == pytest.approx(2, abs=0.1)
    name = "angle, FD-SSM, {}, trained, ε = 0.05"
    exact, rounded = (result.numbers[name.format(p)] for p in ("float64", "float32"))
    assert rounded.value == pytest.approx(exact.value, rel=0.2)
    line, reference = result.panels[0].lines
    assert exact.value == pytest.approx(math.degrees(line.y[-1]))
    assert reference.y == pytest.approx([line.y[-1] * (step / 0.05) ** 2 for step in line.x])
    assert "angle, FD-SSM, float64, untrained, ε = 0.05" in result.numbers


def test_scales_differ_only_in_the_amount_of_data() -> None:
    assert replace(PAPER, batch_size=CPU.batch_size, batches=CPU.batches) == CPU
