"""Steps compared with updates computed by hand."""

import pytest
import torch
from torch import Generator, Tensor, nn

from fdsm.derivatives import FiniteDifference
from fdsm.objectives import SSM
from fdsm.projections import Sphere
from fdsm.training import (
    Adam,
    AlternatingSteps,
    CosineSchedule,
    ExponentialSchedule,
    GradientStep,
    RMSprop,
    objective_loss,
)

from .loop_cases import Line


def test_the_gradient_is_that_of_the_mean_loss(generator: Generator) -> None:
    line = Line(2.0)
    step = GradientStep(line.loss, line, RMSprop(0.1), iterations=1)
    logged = step(torch.tensor([1.0, 5.0]), generator)
    assert logged["loss"] == pytest.approx(6.0)
    assert logged["grad_norm"] == pytest.approx(3.0)
    assert line.a.item() == pytest.approx(2 - 0.1 * 3 / (0.1 * 3))  # RMSprop: g / √(0.01 g²)


def test_clipping_limits_the_gradient_and_logs_the_norm_before(generator: Generator) -> None:
    clipped, free = Line(), Line()
    for line, clip in ((clipped, 0.5), (free, None)):
        step = GradientStep(line.loss, line, Adam(0.1, clip=clip), iterations=1)
        assert step(torch.tensor([4.0]), generator)["grad_norm"] == pytest.approx(4.0)
    assert clipped.a.grad == pytest.approx(0.5)
    assert free.a.grad == pytest.approx(4.0)


def test_the_learning_rate_follows_its_schedule(generator: Generator) -> None:
    line = Line()
    step = GradientStep(line.loss, line, Adam(0.1, schedule=CosineSchedule()), iterations=2)
    rates = [step(torch.ones(1), generator)["lr"].item() for _ in range(2)]
    assert rates == pytest.approx([0.1, 0.05])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_non_finite_loss_changes_neither_weights_nor_optimizer(
    bad: float, generator: Generator
) -> None:
    line = Line()
    step = GradientStep(line.loss, line, Adam(0.1), iterations=2)
    step(torch.ones(1), generator)
    before, moments = line.a.item(), step.state_dict()["optimizer"]["state"][0]["exp_avg"].clone()
    step(torch.tensor([bad]), generator)
    assert line.a.item() == before
    assert step.state_dict()["optimizer"]["state"][0]["exp_avg"] == moments


def test_the_step_size_follows_its_schedule(generator: Generator) -> None:
    distances = []

    class Quartic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            distances.append((x[-1] - x[0]).norm().item() if len(x) == 3 else 0)
            return -self.a * x.square().sum(1).square()

    model = Quartic()
    loss = objective_loss(SSM(FiniteDifference(), Sphere(0.1)), model, ExponentialSchedule(0.01))
    step = GradientStep(loss, model, Adam(), iterations=2)
    lengths = []
    for _ in range(2):
        step(torch.ones(1, 2), generator)
        lengths.append(distances[-1])
    assert lengths[1] / lengths[0] == pytest.approx(0.1)


def test_alternating_steps_run_in_order_and_prefix_their_metrics(generator: Generator) -> None:
    order = []

    def counting(name: str, line: Line) -> GradientStep:
        def loss(batch: Tensor, generator: Generator, progress: float) -> Tensor:
            order.append(name)
            return line.a * batch

        return GradientStep(loss, line, Adam(0.1), iterations=4)

    first, second = Line(1.0), Line(2.0)
    step = AlternatingSteps({
        "score": counting("score", first),
        "model": counting("model", second),
    })
    logged = step(torch.ones(1), generator)
    step(torch.ones(1), generator)
    assert order == ["score", "model"] * 2
    assert logged["score_loss"] == pytest.approx(1.0)
    assert logged["loss"] == logged["model_loss"] == pytest.approx(2.0)
    other = AlternatingSteps({
        "score": counting("score", Line()),
        "model": counting("model", Line()),
    })
    other.load_state_dict(step.state_dict())
    assert all(inner.iteration == 2 for inner in other.steps.values())
